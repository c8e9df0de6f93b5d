"""How deep columns may be nested: a Parquet file of a deeper one is written, and cannot be read (Arrow: at most 100 levels)."""

from __future__ import annotations

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import IcebergType, StructType, child_fields

MOST_LEVELS = 64


def check_nesting(schema: Schema) -> None:
    """Raise SchemaError for a column of more than 64 levels; a list or map counts twice, as in Parquet."""
    for field in schema.fields:
        if (levels := _levels(field.type)) > MOST_LEVELS:
            raise SchemaError(
                f"column {field.name}: is nested {levels} levels deep: {MOST_LEVELS} at most, lists and maps count twice"
            )


def _levels(type_: IcebergType) -> int:
    """Levels of the type; counted with a stack of its own, since a type may be deeper than Python's."""
    most, todo = 0, [(type_, 1)]
    while todo:
        found, level = todo.pop()
        most = max(most, level)
        step = 1 if isinstance(found, StructType) else 2
        todo += [(child.type, level + step) for child in child_fields(found)]
    return most
