"""Checks for columns that a new data file cannot store.

A column of type unknown is not stored: its rows are null. A struct, list or map that holds nothing else would be left out with it,
and its own nulls, its lengths and its required rows would be lost (Parquet has no empty groups). So it is refused before anything
is written."""

from __future__ import annotations

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.content_files import FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import UNKNOWN, ListType, MapType, NestedField, StructType, child_fields


def check_storable(schema: Schema, file_format: FileFormat) -> None:
    """Raise UnsupportedError if a file of that format cannot store rows of that schema without loss."""
    for f in schema.fields:
        _check(f, f.name, file_format)
    if file_format is FileFormat.PARQUET and all(f.type == UNKNOWN for f in schema.fields):
        names = ", ".join(f.name for f in schema.fields) or "none"
        raise UnsupportedError(
            f"not supported: writing Parquet files of no stored column (columns: {names}), because rows without values are not "
            "counted: add a column of another type than unknown"
        )


def _check(f: NestedField, path: str, file_format: FileFormat) -> None:
    """One column and its content. Avro has records without fields, so it can store an otherwise empty struct."""
    if isinstance(f.type, ListType | MapType):
        if unknown := [c.name for c in child_fields(f.type) if c.type == UNKNOWN]:
            raise _refused(path, f, file_format, f"its {unknown[0]} of type unknown is not stored: update its type")
    elif isinstance(f.type, StructType) and file_format is FileFormat.PARQUET and all(c.type == UNKNOWN for c in f.type.fields):
        raise _refused(path, f, file_format, "none of its fields is stored: drop the column, or add a field to it")
    for child in child_fields(f.type):
        _check(child, f"{path}.{child.name}", file_format)


def _refused(path: str, f: NestedField, file_format: FileFormat, why: str) -> UnsupportedError:
    kind = "struct" if isinstance(f.type, StructType) else "list" if isinstance(f.type, ListType) else "map"
    return UnsupportedError(f"not supported: writing {kind} column {path!r} to {file_format.value} files, because {why}")
