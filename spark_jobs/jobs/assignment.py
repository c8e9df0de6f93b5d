"""Rows of a source, in the columns and types of the table (SQL store assignment).

Columns are matched by name without regard to case. A cast that could lose something (a double into an int, text into a date) is
refused with the column and both types before anything runs; one that may overflow becomes NULL, which ``bad_records`` finds, as it
does NULL in a required column. Inside nested columns ANSI mode fails the job at the row, and the writer finds the NULLs.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as spark

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import MISSING, NestedField
from spark_jobs.runners.spark_schema import spark_schema


@dataclass(frozen=True, slots=True)
class AssignedColumn:
    """One column of the table: what the source gives (None: nothing), and that in the table's type (NULL where it does not fit)."""

    field: NestedField
    given: Column | None
    value: Column
    cast_may_fail: bool = False


def assign_by_name(rows: DataFrame, schema: Schema) -> list[AssignedColumn]:
    """The table's columns, in order, from the source's; fields of structs are matched by name, too.

    A column that the source lacks gets its write default, or NULL where it is optional. Raises SchemaError for a column the table
    does not have, for a required one that is missing, and for a cast that could lose something.
    """
    given = _by_name([f.name for f in rows.schema.fields], "source columns")
    known = {f.name.lower() for f in schema.fields}
    if unknown := [name for lower, name in given.items() if lower not in known]:
        raise SchemaError(f"source column {unknown[0]!r} is not a column of the table ({', '.join(f.name for f in schema.fields)})")
    found: list[AssignedColumn] = []
    for f, target in zip(schema.fields, spark_schema(schema).fields, strict=True):
        name = given.get(f.name.lower())
        if name is not None:
            found.append(_assigned(f, rows[f"`{name}`"], rows.schema[name].dataType, target.dataType))
        elif f.write_default is not MISSING:
            continue
        elif f.required:
            raise SchemaError(f"required column {f.name!r} is not in the source")
        else:
            found.append(AssignedColumn(f, None, F.lit(None).cast(target.dataType)))
    return found


def _assigned(f: NestedField, given: Column, type_: spark.DataType, wanted: spark.DataType) -> AssignedColumn:
    if isinstance(wanted, spark.StructType | spark.ArrayType | spark.MapType):
        value = _by_structure(f.name, given, type_, wanted)
        return AssignedColumn(f, given, value.cast(wanted))
    check_assignable(f.name, type_, wanted)
    if type_ == wanted:
        return AssignedColumn(f, given, given)
    return AssignedColumn(f, given, given.try_cast(wanted), cast_may_fail=True)


def _by_structure(path: str, given: Column, type_: spark.DataType, wanted: spark.DataType) -> Column:
    """A nested value with the fields of its structs in the table's order, missing optional ones NULL."""
    if type_ == wanted:
        return given
    if isinstance(type_, spark.StructType) and isinstance(wanted, spark.StructType):
        names = _by_name(type_.names, f"fields of {path}")
        if unknown := [name for lower, name in names.items() if lower not in {w.name.lower() for w in wanted.fields}]:
            raise SchemaError(f"source column '{path}.{unknown[0]}' is not a column of the table")
        parts = []
        for w in wanted.fields:
            name = names.get(w.name.lower())
            part = (
                F.lit(None).cast(w.dataType)
                if name is None
                else _by_structure(f"{path}.{w.name}", given.getField(name), type_[name].dataType, w.dataType)
            )
            parts.append(part.alias(w.name))
        return F.when(given.isNotNull(), F.struct(*parts))
    if isinstance(type_, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
        inner, to = type_.elementType, wanted.elementType
        return F.transform(given, lambda x: _by_structure(f"{path}.element", x, inner, to))
    if isinstance(type_, spark.MapType) and isinstance(wanted, spark.MapType):
        check_assignable(f"{path}.key", type_.keyType, wanted.keyType)
        value, into = type_.valueType, wanted.valueType
        return F.transform_values(given, lambda _, v: _by_structure(f"{path}.value", v, value, into))
    check_assignable(path, type_, wanted)
    return given.cast(wanted)


def _by_name(names: list[str], what: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        if name.lower() in found:
            raise SchemaError(f"{what} {found[name.lower()]!r} and {name!r} differ only by case")
        found[name.lower()] = name
    return found


def assignments(rows: DataFrame, schema: Schema, values: Mapping[str, Column]) -> list[Column]:
    """``values`` (by table column name) as columns of the table's types, in the table's order; checked like ``assign_by_name``."""
    wanted = {f.name: f.dataType for f in spark_schema(schema).fields}
    resolved = rows.select(*[value.alias(name) for name, value in values.items()]).schema
    for name in values:
        check_assignable(name, resolved[name].dataType, wanted[name])
    return [values[f.name].cast(wanted[f.name]).alias(f.name) for f in schema.fields]


def check_assignable(column: str, given: spark.DataType, wanted: spark.DataType) -> None:
    """Raise SchemaError unless a value of type ``given`` may be stored as ``wanted`` (ANSI store assignment)."""
    if not _assignable(given, wanted):
        raise SchemaError(
            f"column {column!r}: {given.simpleString()} can not be stored as {wanted.simpleString()} without an explicit cast"
        )


def _assignable(given: spark.DataType, wanted: spark.DataType) -> bool:
    if given == wanted or isinstance(given, spark.NullType):
        return True
    if isinstance(wanted, spark.StringType):
        return isinstance(given, spark.AtomicType) and not isinstance(given, spark.BinaryType)
    if isinstance(given, spark.NumericType) and isinstance(wanted, spark.NumericType):
        # A fraction never goes silently into a whole number; overflow within a kind fails at the row.
        return not (isinstance(given, spark.FractionalType) and isinstance(wanted, spark.IntegralType))
    datetimes = (spark.DateType, spark.TimestampType, spark.TimestampNTZType)
    if isinstance(given, datetimes) and isinstance(wanted, datetimes):
        return not isinstance(wanted, spark.DateType)
    if isinstance(given, spark.ArrayType) and isinstance(wanted, spark.ArrayType):
        return _assignable(given.elementType, wanted.elementType)
    if isinstance(given, spark.MapType) and isinstance(wanted, spark.MapType):
        return _assignable(given.keyType, wanted.keyType) and _assignable(given.valueType, wanted.valueType)
    if isinstance(given, spark.StructType) and isinstance(wanted, spark.StructType):
        pairs = list(itertools.zip_longest(given.fields, wanted.fields))
        return all(g and w and g.name.lower() == w.name.lower() and _assignable(g.dataType, w.dataType) for g, w in pairs)
    return False
