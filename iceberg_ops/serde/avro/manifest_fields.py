"""The columns of manifests and manifest lists: ids, names, types and the format versions that contain them.

One table serves the readers (look-up and type checks by field id, GEN-10) and the writers (the Avro schema of each format version).
Spec: "Manifests", "Manifest Lists"; requirements MANIFEST-10..42, MLIST-01..15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ANY = "any"
"""Kind of a column whose type the caller checks: a partition field."""


@dataclass(frozen=True, slots=True)
class Column:
    """``kind`` is an Avro primitive, ``map`` (array of key/value records), ``array``, ``record`` or ANY.

    ``required_since``, ``since`` and ``until`` are the format versions that require (None: never) and that write the column.
    ``inner`` describes a map's (key id, value id, value kind), or an array's (element id, element kind).
    """

    field_id: int
    name: str
    kind: str
    required_since: int | None = None
    since: int = 1
    until: int = 99
    inner: tuple[int | str, ...] = ()

    def is_required(self, format_version: int) -> bool:
        return self.required_since is not None and format_version >= self.required_since

    def is_written(self, format_version: int) -> bool:
        return self.since <= format_version <= self.until


STATUS, SNAPSHOT_ID, SEQUENCE_NUMBER, FILE_SEQUENCE_NUMBER, DATA_FILE = 0, 1, 3, 4, 2
PARTITION = 102
PARTITIONS = 507

MANIFEST_ENTRY = (
    Column(STATUS, "status", "int", required_since=1),
    Column(SNAPSHOT_ID, "snapshot_id", "long"),
    Column(SEQUENCE_NUMBER, "sequence_number", "long", since=2),
    Column(FILE_SEQUENCE_NUMBER, "file_sequence_number", "long", since=2),
    Column(DATA_FILE, "data_file", "record", required_since=1),
)

CONTENT_FILE = (
    Column(134, "content", "int", required_since=2, since=2),
    Column(100, "file_path", "string", required_since=1),
    Column(101, "file_format", "string", required_since=1),
    Column(PARTITION, "partition", "record", required_since=1),
    Column(103, "record_count", "long", required_since=1),
    Column(104, "file_size_in_bytes", "long", required_since=1),
    Column(105, "block_size_in_bytes", "long", required_since=1, until=1),
    Column(108, "column_sizes", "map", inner=(117, 118, "long")),
    Column(109, "value_counts", "map", inner=(119, 120, "long")),
    Column(110, "null_value_counts", "map", inner=(121, 122, "long")),
    Column(137, "nan_value_counts", "map", inner=(138, 139, "long")),
    Column(125, "lower_bounds", "map", inner=(126, 127, "bytes")),
    Column(128, "upper_bounds", "map", inner=(129, 130, "bytes")),
    Column(131, "key_metadata", "bytes"),
    Column(132, "split_offsets", "array", inner=(133, "long")),
    Column(135, "equality_ids", "array", since=2, inner=(136, "int")),
    Column(140, "sort_order_id", "int"),
    Column(142, "first_row_id", "long", since=3),
    Column(143, "referenced_data_file", "string", since=2),
    Column(144, "content_offset", "long", since=3),
    Column(145, "content_size_in_bytes", "long", since=3),
)

MANIFEST_FILE = (
    Column(500, "manifest_path", "string", required_since=1),
    Column(501, "manifest_length", "long", required_since=1),
    Column(502, "partition_spec_id", "int", required_since=1),
    Column(517, "content", "int", required_since=2, since=2),
    Column(515, "sequence_number", "long", required_since=2, since=2),
    Column(516, "min_sequence_number", "long", required_since=2, since=2),
    Column(503, "added_snapshot_id", "long", required_since=1),
    Column(504, "added_files_count", "int", required_since=2),
    Column(505, "existing_files_count", "int", required_since=2),
    Column(506, "deleted_files_count", "int", required_since=2),
    Column(512, "added_rows_count", "long", required_since=2),
    Column(513, "existing_rows_count", "long", required_since=2),
    Column(514, "deleted_rows_count", "long", required_since=2),
    Column(PARTITIONS, "partitions", "array", inner=(508, "record")),
    Column(519, "key_metadata", "bytes"),
    Column(520, "first_row_id", "long", since=3),
)

FIELD_SUMMARY = (
    Column(509, "contains_null", "boolean", required_since=1),
    Column(518, "contains_nan", "boolean"),
    Column(510, "lower_bound", "bytes"),
    Column(511, "upper_bound", "bytes"),
)

OLD_NAMES: Mapping[str, int] = {
    "added_data_files_count": 504,
    "existing_data_files_count": 505,
    "deleted_data_files_count": 506,
}
"""Names that older writers gave to columns; used only if a file records no field ids."""

READ_AS_REQUIRED = frozenset({STATUS, DATA_FILE, 100, 101, 103, 104, 500, 501, 509})
"""Columns without which a file cannot be read. Other columns, required from today's writers, were optional once (GEN-06)."""


def avro_field(column: Column, type_: Any, required: bool) -> dict[str, Any]:
    """A field of an Avro record: optional ones are a union with null, null first and the default (AVRO-02)."""
    if required:
        return {"name": column.name, "type": type_, "field-id": column.field_id}
    return {"name": column.name, "type": ["null", type_], "default": None, "field-id": column.field_id}
