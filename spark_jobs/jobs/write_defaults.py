"""Write defaults of columns as Spark columns: the value that an INSERT stores for a missing column, and the value of ``DEFAULT``.

A default is converted to a literal through its JSON single value, whose text Spark casts to the same value.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column
from pyspark.sql import functions as F

from iceberg_ops.errors import OptionError
from iceberg_ops.serde.json.single_value_json import to_json_value
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import MISSING, NestedField, StructType
from spark_jobs.runners.spark_schema import spark_schema


def is_default(text: str) -> bool:
    """Whether an assignment is the keyword DEFAULT."""
    return text.strip().upper() == "DEFAULT"


def write_default(f: NestedField) -> Column:
    """The write default of a column, NULL if it has none; ``{}`` of a struct stands for its fields' write defaults. Raises
    OptionError for a default of a list or map."""
    if f.write_default is MISSING:
        return F.lit(None)
    if isinstance(f.type, StructType):
        return F.struct(*(_part(f, child) for child in f.type.fields))
    if f.type.is_nested:
        raise OptionError(f"the write default of {f.name!r} is of type {f.type}: assign a value")
    spark_type = spark_schema(Schema.of(f))[0].dataType
    literal = F.lit(to_json_value(f.type, f.write_default))
    return (F.unhex(literal) if spark_type.typeName() == "binary" else literal).cast(spark_type)


def _part(parent: NestedField, f: NestedField) -> Column:
    if f.required and f.write_default is MISSING:
        raise OptionError(f"the write default of {parent.name!r} has no value for its required field {f.name!r}: assign a value")
    return write_default(f).cast(spark_schema(Schema.of(f))[0].dataType).alias(f.name)


def left_out(schema: Schema, given: Collection[str]) -> dict[str, Column]:
    """Values of the columns that are not ``given`` (ignoring case) and have a write default."""
    named = {name.lower() for name in given}
    fields = [f for f in schema.fields if f.name.lower() not in named and f.write_default is not MISSING]
    return {f.name: write_default(f) for f in fields}
