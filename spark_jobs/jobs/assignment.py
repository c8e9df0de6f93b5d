"""Rows of a source, in the columns and types of the table (SQL store assignment).

Columns are matched by name without regard to case. A cast that could lose something (a double into an int, text into a date) is
refused with the column and both types before anything runs; one that may overflow fails the job at the row, because ANSI mode is
on. NULL in a required column is found by the writer.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as spark

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import MISSING
from spark_jobs.runners.spark_schema import spark_schema


def assign_by_name(rows: DataFrame, schema: Schema) -> DataFrame:
    """``rows`` with exactly the table's columns, in order.

    A column that the source lacks gets its write default, or NULL where it is optional. Raises SchemaError for a column the table
    does not have, for a required one that is missing, and for a cast that could lose something.
    """
    given: dict[str, str] = {}
    for name in rows.columns:
        if given.setdefault(name.lower(), name) != name:
            raise SchemaError(f"source columns {given[name.lower()]!r} and {name!r} differ only by case")
    known = {f.name.lower() for f in schema.fields}
    if unknown := [name for lower, name in given.items() if lower not in known]:
        raise SchemaError(f"source column {unknown[0]!r} is not a column of the table ({', '.join(f.name for f in schema.fields)})")
    wanted = spark_schema(schema)
    columns: list[Column] = []
    for f, target in zip(schema.fields, wanted.fields, strict=True):
        name = given.get(f.name.lower())
        if name is not None:
            check_assignable(f.name, rows.schema[name].dataType, target.dataType)
            columns.append(rows[f"`{name}`"].cast(target.dataType).alias(f.name))
        elif f.required and f.write_default is MISSING:
            raise SchemaError(f"required column {f.name!r} is not in the source")
    return rows.select(*columns)


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
