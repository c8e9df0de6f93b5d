"""Forms in which Parquet files hold values that this package reads, and Iceberg Java does not, or as other values.

Iceberg's specification has none of them. Iceberg Java 1.11 fails on unsigned and on 16-bit floating point numbers, or makes them
negative. In columns outside structs, lists and maps, which Spark reads in batches, it takes timestamps in milliseconds for
microseconds if they are in a dictionary, and fails on long columns of 32-bit numbers whose footer notes their width, as that of
DuckDB does.
"""

from __future__ import annotations

import json

import pyarrow.parquet as pq

from iceberg_ops.data.formats.parquet_reader import DICTIONARY_ENCODINGS
from iceberg_ops.spec.types import LONG, IcebergType


def misread_form(footer: pq.FileMetaData, leaf: int, target: IcebergType, *, is_inside: bool) -> str | None:
    """What a leaf of the table's type ``wanted`` holds, if Iceberg Java does not read it correctly. ``is_inside``: in a nested
    column."""
    column = footer.schema.column(leaf)
    form = json.loads(column.logical_type.to_json())
    if form["Type"] == "Int" and not form["isSigned"]:
        return "unsigned numbers"
    if form["Type"] == "Float16":
        return "numbers of 16 bits"
    if is_inside:
        return None
    if form["Type"] == "Int" and column.physical_type == "INT32" and target == LONG:
        return f"numbers noted as {form['bitWidth']} bits wide, in a column of type long"
    if form["Type"] == "Timestamp" and form["timeUnit"] == "milliseconds" and _has_dictionary(footer, leaf):
        return "timestamps in milliseconds in a dictionary"
    return None


def _has_dictionary(footer: pq.FileMetaData, leaf: int) -> bool:
    chunks = (footer.row_group(g).column(leaf) for g in range(footer.num_row_groups))
    return any(DICTIONARY_ENCODINGS & set(chunk.encodings) for chunk in chunks)
