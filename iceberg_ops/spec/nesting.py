"""Limits the depth of nested columns: a deeper Parquet file can be written but not read (Arrow: at most 100 levels)."""

from __future__ import annotations

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import IcebergType, StructType, child_fields

MOST_LEVELS = 64


def check_nesting(schema: Schema, before: Schema | None = None) -> None:
    """Raise SchemaError for a column of more than 64 levels; a list or map counts twice, as in Parquet. ``before``: the previous
    schema, in which another writer may have created deeper columns; the table must remain changeable."""
    known = {} if before is None else {f.field_id: _levels(f.type) for f in before.fields}
    for f in schema.fields:
        levels = _levels(f.type)
        if levels > max(MOST_LEVELS, known.get(f.field_id, 0)):
            raise _too_deep(f.name, levels)


def check_type_nesting(name: str, type_: IcebergType) -> None:
    """The same for a new column ``name``."""
    if (levels := _levels(type_)) > MOST_LEVELS:
        raise _too_deep(name, levels)


def _too_deep(name: str, levels: int) -> SchemaError:
    return SchemaError(f"column {name}: is nested {levels} levels deep: {MOST_LEVELS} at most, lists and maps count twice")


def _levels(type_: IcebergType) -> int:
    """Levels of the type; computed without recursion, because a type may be deeper than Python's stack."""
    most, todo = 0, [(type_, 1)]
    while todo:
        nested_type, level = todo.pop()
        most = max(most, level)
        step = 1 if isinstance(nested_type, StructType) else 2
        todo += [(child.type, level + step) for child in child_fields(nested_type)]
    return most
