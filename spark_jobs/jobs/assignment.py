"""Converts rows of a source to the columns and types of the table (SQL store assignment).

Columns are matched by name, ignoring case. A cast that could lose information (a double into an int, text into a date) is
refused with the column and both types before anything runs. If only the values can show a problem, at any level, it becomes the
reason why a row is bad (``bad_records``): a number out of range, NULL where a value is required, text that is not a uuid, a fixed
of another length.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema import Schema, not_of_table
from iceberg_ops.spec.types import MISSING, FixedType, IcebergType, ListType, MapType, NestedField, StructType
from spark_jobs.jobs.write_defaults import write_default
from spark_jobs.runners.column_names import quoted
from spark_jobs.runners.spark_schema import spark_schema

_UUID = "^[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}$"


@dataclass(frozen=True, slots=True)
class AssignedColumn:
    """One column of the table: the source's value, in the table's type; NULL if it does not fit. ``wrong`` is the reason why
    a row's value cannot be stored, NULL if it can; None: nothing can be wrong."""

    field: NestedField
    value: Column
    wrong: Column | None = None


def assign_by_name(rows: DataFrame, schema: Schema) -> list[AssignedColumn]:
    """The table's columns, in order, from those of the source; fields of structs are matched by name, too.

    A column that the source lacks gets its write default, or NULL if it is optional. Raises SchemaError for a column the table
    does not have, for a missing required one, and for a cast that could lose information.
    """
    given = _by_name([f.name for f in rows.schema.fields], "source columns")
    known = {f.name.lower() for f in schema.fields}
    if unknown := [name for lower, name in given.items() if lower not in known]:
        raise SchemaError(f"source column {not_of_table(unknown[0], schema.fields)}")
    columns: list[AssignedColumn] = []
    for f, target in zip(schema.fields, spark_schema(schema).fields, strict=True):
        name = given.get(f.name.lower())
        if name is not None:
            columns.append(AssignedColumn(f, *_fitted(f.name, f, rows[quoted(name)], rows.schema[name].dataType, target.dataType)))
        elif f.write_default is not MISSING:
            continue
        elif f.required:
            raise SchemaError(f"required column {f.name!r} is not in the source")
        else:
            columns.append(AssignedColumn(f, F.lit(None).cast(target.dataType)))
    return columns


_Fitted = tuple[Column, Column | None]
"""A value in the table's type, and the reason why it cannot be stored (NULL: it can; None: it always can)."""


def _fitted(path: str, f: NestedField, given: Column, type_: spark.DataType, target: spark.DataType) -> _Fitted:
    """A source value at ``path`` in the form of the table's field ``f``. Raises SchemaError for a type that does not fit."""
    value, inside = _of_kind(path, f.type, given, type_, target)
    missing = F.when(given.isNull(), F.lit(f"column {path!r} is required and has no value")) if f.required else None
    return (given if type_ == target else value), _first(missing, inside)


def _of_kind(path: str, kind: IcebergType, given: Column, type_: spark.DataType, target: spark.DataType) -> _Fitted:
    if isinstance(kind, StructType) and isinstance(type_, spark.StructType) and isinstance(target, spark.StructType):
        return _struct(path, kind, given, type_, target)
    if isinstance(kind, ListType) and isinstance(type_, spark.ArrayType) and isinstance(target, spark.ArrayType):
        inner, to = type_.elementType, target.elementType
        return _each(given, lambda x: _fitted(f"{path}.element", kind.element, x, inner, to))
    if isinstance(kind, MapType) and isinstance(type_, spark.MapType) and isinstance(target, spark.MapType):
        return _map(path, kind, given, type_, target)
    check_assignable(path, type_, target)
    return _single(path, kind, given, type_, target)


def _struct(path: str, kind: StructType, given: Column, type_: spark.StructType, target: spark.StructType) -> _Fitted:
    """The fields in the table's order; a missing one gets its write default, else NULL."""
    names = _by_name(type_.names, f"fields of {path}")
    if unknown := [name for lower, name in names.items() if lower not in {w.name.lower() for w in target.fields}]:
        raise SchemaError(f"source column '{path}.{unknown[0]}' is not a column of the table")
    values, wrongs = [], []
    for f, w in zip(kind.fields, target.fields, strict=True):
        name = names.get(f.name.lower())
        if name is None and f.required and f.write_default is MISSING:
            raise SchemaError(f"required column '{path}.{f.name}' is not in the source")
        if name is None:
            value = write_default(f).cast(w.dataType)
        else:
            value, wrong = _fitted(f"{path}.{f.name}", f, given.getField(name), type_[name].dataType, w.dataType)
            wrongs.append(wrong)
        values.append(value.alias(w.name))
    inside = _first(*wrongs)
    return F.when(given.isNotNull(), F.struct(*values)), None if inside is None else F.when(given.isNotNull(), inside)


def _map(path: str, kind: MapType, given: Column, type_: spark.MapType, target: spark.MapType) -> _Fitted:
    keys, wrong_key = _each(
        F.map_keys(given), lambda k: _fitted(f"{path}.key", replace(kind.key, required=False), k, type_.keyType, target.keyType)
    )
    values, wrong_value = _each(
        F.map_values(given), lambda v: _fitted(f"{path}.value", kind.value, v, type_.valueType, target.valueType)
    )
    # A key that does not fit is NULL here, which maps cannot contain.
    fit = given.isNotNull() if wrong_key is None else given.isNotNull() & wrong_key.isNull()
    return F.when(fit, F.map_from_arrays(keys, values)), _first(wrong_key, wrong_value)


def _each(items: Column, fit: Callable[[Column], _Fitted]) -> _Fitted:
    """An array with every element converted, and the reason of the first one that does not fit."""
    may_be_wrong: list[bool] = []

    def reason(item: Column) -> Column:
        wrong = fit(item)[1]
        may_be_wrong.append(wrong is not None)
        return F.lit(None).cast("string") if wrong is None else wrong

    reasons = F.filter(F.transform(items, reason), lambda text: text.isNotNull())
    return F.transform(items, lambda item: fit(item)[0]), F.get(reasons, F.lit(0)) if any(may_be_wrong) else None


def _single(path: str, kind: IcebergType, given: Column, type_: spark.DataType, target: spark.DataType) -> _Fitted:
    value = given if type_ == target else given.try_cast(target)
    fits = None if type_ == target else value.isNotNull()
    if getattr(kind, "name", "") == "uuid":
        fits = value.rlike(_UUID)
    elif isinstance(kind, FixedType):
        fits = F.octet_length(value) == kind.length
    if fits is None:
        return value, None
    # Bytes have no text form: bytes that are not UTF-8 would fail the job here.
    shown = F.hex(given) if isinstance(type_, spark.BinaryType) else given.cast("string")
    text = F.concat(F.lit(f"column {path!r}: "), shown, F.lit(f" does not fit {kind}"))
    return value, F.when(given.isNotNull() & ~F.coalesce(fits, F.lit(False)), text)


def _first(*reasons: Column | None) -> Column | None:
    known = [reason for reason in reasons if reason is not None]
    return F.coalesce(*known) if known else None


def _by_name(names: list[str], what: str) -> dict[str, str]:
    names_by_lower: dict[str, str] = {}
    for name in names:
        if name.lower() in names_by_lower:
            raise SchemaError(f"{what} {names_by_lower[name.lower()]!r} and {name!r} are one name in Spark SQL")
        names_by_lower[name.lower()] = name
    return names_by_lower


def assigned_column(f: NestedField, given: Column, type_: spark.DataType, target: spark.DataType) -> AssignedColumn:
    """A value of SET or INSERT in the form of the table's field ``f``. Raises SchemaError for a type that does not fit (like
    ``check_assignable``). NaN and the infinities become NULL as a decimal, as in Spark SQL."""
    check_assignable(f.name, type_, target)
    if isinstance(type_, spark.FloatType | spark.DoubleType) and isinstance(target, spark.DecimalType):
        given = F.when(~F.isnan(given) & (F.abs(given) < float("inf")), given)
    return AssignedColumn(f, *_fitted(f.name, f, given, type_, target))


def assignments(rows: DataFrame, schema: Schema, assigned: Collection[str]) -> list[AssignedColumn]:
    """The table's columns, in order, from ``rows``, which has them by name; only ``assigned`` ones may be wrong."""
    types = {f.name: f.dataType for f in rows.schema.fields}
    columns = []
    for f, target_field in zip(schema.fields, spark_schema(schema).fields, strict=True):
        given = F.col(quoted(f.name))
        if f.name in assigned:
            columns.append(assigned_column(f, given, types[f.name], target_field.dataType))
        else:
            columns.append(AssignedColumn(f, given.cast(target_field.dataType)))
    return columns


def check_assignable(column: str, given: spark.DataType, target: spark.DataType) -> None:
    """Raise SchemaError unless a value of type ``given`` may be stored as ``wanted`` (ANSI store assignment)."""
    if not _assignable(given, target):
        raise SchemaError(
            f"column {column!r}: {given.simpleString()} cannot be stored as {target.simpleString()} without an explicit cast"
        )


def _assignable(given: spark.DataType, target: spark.DataType) -> bool:
    if given == target or isinstance(given, spark.NullType):
        return True
    if isinstance(target, spark.StringType):
        return isinstance(given, spark.AtomicType) and not isinstance(given, spark.BinaryType)
    if isinstance(given, spark.NumericType) and isinstance(target, spark.NumericType):
        # A fraction is never silently stored as an integer; overflow within a kind fails at the row.
        return not (isinstance(given, spark.FractionalType) and isinstance(target, spark.IntegralType))
    datetimes = (spark.DateType, spark.TimestampType, spark.TimestampNTZType)
    if isinstance(given, datetimes) and isinstance(target, datetimes):
        return not isinstance(target, spark.DateType)
    if isinstance(given, spark.ArrayType) and isinstance(target, spark.ArrayType):
        return _assignable(given.elementType, target.elementType)
    if isinstance(given, spark.MapType) and isinstance(target, spark.MapType):
        return _assignable(given.keyType, target.keyType) and _assignable(given.valueType, target.valueType)
    if isinstance(given, spark.StructType) and isinstance(target, spark.StructType):
        pairs = list(itertools.zip_longest(given.fields, target.fields))
        return all(g and w and g.name.lower() == w.name.lower() and _assignable(g.dataType, w.dataType) for g, w in pairs)
    return False
