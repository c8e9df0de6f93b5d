"""Encodes manifest entries one by one (the writing half of ``manifest_avro``).

Inherited values are not written (SEQ-02, LINEAGE-13): an ADDED entry's file sequence number and first row id never; its data
sequence number only if it is older than the commit's (SEQ-06). EXISTING and DELETED entries carry explicit values (SEQ-03).
Entries are packed into blocks of about 64 kB when they are added, so ``size`` is the current size of the file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.avro.avro_container import pack, write_packed
from iceberg_ops.serde.avro.avro_encoding import (
    NULL,
    PRIMITIVES,
    Encode,
    encode_bounds,
    encode_counts,
    encode_long,
    encode_longs,
    encode_optional_long,
    optional,
)
from iceberg_ops.serde.avro.manifest_fields import CONTENT_FILE, DATA_FILE, MANIFEST_ENTRY, PARTITION, Column, avro_field
from iceberg_ops.serde.avro.partition_avro import partition_encoder, partition_schema
from iceberg_ops.serde.json.partition_json import spec_fields_to_list
from iceberg_ops.serde.json.schema_json import schema_to_dict
from iceberg_ops.serde.manifests.manifest_splicing import EncodedFiles
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.manifests import UNASSIGNED, EntryStatus, FieldSummary, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.partitioning import PartitionSpec, lost_type
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import UNKNOWN, NestedField, PrimitiveType, StructType
from iceberg_ops.spec.values import to_bytes

_BLOCK_BYTES = 64_000
_BLOCK_SIZE_OF_V1 = 64 * 1024 * 1024
_FIRST_ROW_ID = 142


class EncodedFile(DataFile):
    """A data file that may still have its bytes in the manifest from which it was read."""

    __slots__ = ()

    def encoded_with(self, schema_text: str, partition_type: StructType) -> tuple[EncodedFiles | None, int]:
        """The bytes of all files of its manifest with that Avro schema (None: not available), and its index among them."""
        return None, 0

    __hash__ = DataFile.__hash__


class ManifestEncoder:
    """Builds one manifest of ``spec``'s files. Raises CorruptTableError for an entry that does not fit it, UnsupportedError for a
    live one whose partition value has an unknown type: the value would be lost, and deletes would not find their partition.

    ``partition_type`` is the spec's struct type; ``compression`` an Avro codec name. ``schema_text`` is the Avro schema in JSON.
    ``snapshot_id`` None: new entries inherit it.
    """

    def __init__(
        self,
        *,
        spec: PartitionSpec,
        schema: Schema,
        partition_type: StructType,
        format_version: int,
        content: ManifestContent,
        snapshot_id: int | None,
        compression: str = "deflate",
    ) -> None:
        if format_version < 2 and content is not ManifestContent.DATA:
            raise CorruptTableError("a format version 1 table cannot hold delete files")
        self._spec, self._schema, self.partition_type = spec, schema, partition_type
        self.version, self.content, self.snapshot_id, self._codec = format_version, content, snapshot_id, compression
        self.schema_text = json.dumps(self._avro_schema(), separators=(",", ":"))
        self._encode_file = _file_encoder(format_version, content, partition_encoder(partition_type))
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._blocks: list[tuple[int, bytes]] = []
        self._files = [0, 0, 0]
        self._rows = [0, 0, 0]
        self._lowest: int | None = None
        self._partitions: list[tuple[Any, ...]] = []
        self._seen: set[tuple[Any, ...]] = set()
        self._untyped = [place for place, f in enumerate(partition_type.fields) if f.type == UNKNOWN]
        self._keep_all = any(_is_floating(f) for f in partition_type.fields)
        self.size = 0

    @property
    def entry_count(self) -> int:
        return sum(self._files)

    def add(self, entry: ManifestEntry) -> None:
        """Append one unchanged entry (status, snapshot id, numbers)."""
        f = entry.data_file
        if (f.content is FileContent.DATA) is not (self.content is ManifestContent.DATA):
            raise CorruptTableError(f"{f.file_path}: {f.content.name} does not go into a manifest of {self.content.name}")
        for place in self._untyped if entry.is_live else ():
            if f.partition[place] is not None:
                raise lost_type(f"writing a manifest entry of {f.file_path}", self._spec.fields[place].name, self._spec.spec_id)
        try:
            head = self.head(entry.status, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
            raw = head + (self._as_read(f, entry.status) or self._encode_file(f, entry.status))
        except (TypeError, ValueError, OverflowError, AttributeError) as e:
            raise CorruptTableError(f"{f.file_path}: does not fit a manifest of spec {self._spec.spec_id}: {e}") from None
        self.count(entry.status, 1, f.record_count)
        if entry.status is not EntryStatus.DELETED and entry.sequence_number is not None:
            self.note_sequence_number(entry.sequence_number)
        self.note_partition(f.partition)
        self.add_encoded((raw,))

    def add_encoded(self, records: Iterable[bytes]) -> None:
        """Append encoded records. ``count`` and the ``note_`` methods fill the manifest's row."""
        for raw in records:
            self._pending.append(raw)
            self._pending_bytes += len(raw)
            if self._pending_bytes >= _BLOCK_BYTES:
                self.flush()

    def count(self, status: EntryStatus, files: int, rows: int) -> None:
        """Add the number of entries of one status, and of their rows."""
        self._files[status] += files
        self._rows[status] += rows

    def note_sequence_number(self, number: int) -> None:
        """Record the data sequence number of a live entry."""
        self._lowest = number if self._lowest is None else min(self._lowest, number)

    def note_partition(self, partition: tuple[Any, ...]) -> None:
        """Record the partition of an entry."""
        if self._keep_all or partition not in self._seen:
            self._seen.add(partition)
            self._partitions.append(partition)

    def finish(self, path: str) -> tuple[bytes, ManifestFile]:
        """The file's bytes, and its row for a manifest list (sequence number unassigned, length set)."""
        self.flush()
        data = write_packed(self._avro_schema(), self._metadata(), self._blocks, codec=self._codec)
        files, rows = self._files, self._rows
        return data, ManifestFile(
            manifest_path=path,
            manifest_length=len(data),
            partition_spec_id=self._spec.spec_id,
            content=self.content,
            sequence_number=UNASSIGNED if self.version > 1 else 0,
            min_sequence_number=UNASSIGNED if self._lowest is None and self.version > 1 else self._lowest or 0,
            added_snapshot_id=self.snapshot_id,
            added_files_count=files[EntryStatus.ADDED],
            existing_files_count=files[EntryStatus.EXISTING],
            deleted_files_count=files[EntryStatus.DELETED],
            added_rows_count=rows[EntryStatus.ADDED],
            existing_rows_count=rows[EntryStatus.EXISTING],
            deleted_rows_count=rows[EntryStatus.DELETED],
            partitions=_summaries(self.partition_type, self._partitions),
        )

    def flush(self) -> None:
        """Compress the pending entries as a block."""
        if self._pending:
            packed = pack(self._codec, b"".join(self._pending))
            self._blocks.append((len(self._pending), packed))
            self.size += len(packed)
            self._pending, self._pending_bytes = [], 0

    def head(self, status: EntryStatus, snapshot_id: int | None, sequence: int | None, file_sequence: int | None) -> bytes:
        """An entry's fields before its data file. Raises ValueError for an entry that is not new and has no number."""
        encoded = encode_long(int(status)) + encode_optional_long(self.snapshot_id if snapshot_id is None else snapshot_id)
        if self.version == 1:
            return encoded
        if status is EntryStatus.ADDED:
            file_sequence = None
        elif sequence is None:
            raise ValueError(f"{status.name} entry without a data sequence number")
        return b"".join((encoded, encode_optional_long(sequence), encode_optional_long(file_sequence)))

    def _as_read(self, f: DataFile, status: EntryStatus) -> bytes | None:
        """The struct data_file from the manifest from which the file was read, with its current first row id."""
        if not isinstance(f, EncodedFile):
            return None
        files, row = f.encoded_with(self.schema_text, self.partition_type)
        if files is None or files.tails is None:
            return None if files is None else files.bodies[row]
        without = status is EntryStatus.ADDED or self.content is ManifestContent.DELETES
        return b"".join((files.bodies[row], NULL if without else encode_optional_long(f.first_row_id), files.tails[row]))

    def _metadata(self) -> Mapping[str, str]:
        metadata = {
            "schema": json.dumps(schema_to_dict(self._schema)),
            "schema-id": str(self._schema.schema_id),
            "partition-spec": json.dumps(spec_fields_to_list(self._spec)),
            "partition-spec-id": str(self._spec.spec_id),
            "format-version": str(self.version),
        }
        if self.version > 1:
            metadata["content"] = self.content.name.lower()
        return metadata

    def _avro_schema(self) -> dict[str, Any]:
        version = self.version
        columns = [c for c in CONTENT_FILE if c.is_written(version)]
        fields = [avro_field(c, _avro_type(c, self.partition_type), c.is_required(version)) for c in columns]
        data_file = {"type": "record", "name": "r2", "fields": fields}
        entry = [
            avro_field(c, data_file if c.field_id == DATA_FILE else c.kind, c.is_required(version))
            for c in MANIFEST_ENTRY
            if c.is_written(version)
        ]
        return {"type": "record", "name": "manifest_entry", "fields": entry}


def write_manifest(
    entries: Iterable[ManifestEntry],
    *,
    path: str,
    spec: PartitionSpec,
    schema: Schema,
    partition_type: StructType,
    format_version: int,
    content: ManifestContent,
    snapshot_id: int,
    compression: str = "deflate",
) -> tuple[bytes, ManifestFile]:
    """One manifest of these entries, of any size: its bytes and its row for a manifest list."""
    encoder = ManifestEncoder(
        spec=spec,
        schema=schema,
        partition_type=partition_type,
        format_version=format_version,
        content=content,
        snapshot_id=snapshot_id,
        compression=compression,
    )
    for entry in entries:
        encoder.add(entry)
    return encoder.finish(path)


def _file_encoder(version: int, content: ManifestContent, encode_partition: Encode) -> Callable[[DataFile, EntryStatus], bytes]:
    """``encode(data_file, status)``: the struct r2 as bytes."""
    columns = [c for c in CONTENT_FILE if c.is_written(version)]
    steps = [(_GETTERS.get(c.field_id, attrgetter(c.name)), _column_encoder(c, version, encode_partition)) for c in columns]
    row_id_step = next((i for i, c in enumerate(columns) if c.field_id == _FIRST_ROW_ID), None)

    def encode(f: DataFile, status: EntryStatus) -> bytes:
        parts = [encode_column(get(f)) for get, encode_column in steps]
        if row_id_step is not None and (status is EntryStatus.ADDED or content is ManifestContent.DELETES):
            parts[row_id_step] = NULL
        return b"".join(parts)

    return encode


_GETTERS: Mapping[int, Callable[[DataFile], Any]] = {
    101: lambda f: f.file_format.value.upper(),
    105: lambda f: _BLOCK_SIZE_OF_V1,
    134: lambda f: int(f.content),
}


def _column_encoder(column: Column, version: int, encode_partition: Encode) -> Encode:
    if column.field_id == PARTITION:
        return encode_partition
    if column.kind == "map":
        return encode_bounds if column.inner[2] == "bytes" else encode_counts
    if column.kind == "array":
        return encode_longs
    encode = PRIMITIVES[column.kind]
    return encode if column.is_required(version) else optional(encode)


def _avro_type(column: Column, partition_type: StructType) -> Any:
    if column.field_id == PARTITION:
        return partition_schema(partition_type)
    if column.kind == "map":
        key_id, value_id, kind = column.inner
        pair = [
            {"name": "key", "type": "int", "field-id": key_id},
            {"name": "value", "type": kind, "field-id": value_id},
        ]
        return {
            "type": "array",
            "logicalType": "map",
            "items": {"type": "record", "name": f"k{key_id}_v{value_id}", "fields": pair},
        }
    if column.kind == "array":
        return {"type": "array", "items": column.inner[1], "element-id": column.inner[0]}
    return column.kind


def _is_floating(f: NestedField) -> bool:
    return isinstance(f.type, PrimitiveType) and f.type.name in ("float", "double")


def _summaries(partition_type: StructType, partitions: list[tuple[Any, ...]]) -> tuple[FieldSummary, ...]:
    """One summary per partition field, over all entries (MLIST-23, MLIST-26)."""
    return tuple(_summary(f, [p[i] for p in partitions]) for i, f in enumerate(partition_type.fields))


def _summary(f: NestedField, values: list[Any]) -> FieldSummary:
    present = [v for v in values if v is not None]
    contains_null = len(present) < len(values)
    contains_nan = False
    if _is_floating(f):
        ordered = [v for v in present if not math.isnan(v)]
        contains_nan = len(ordered) < len(present)
        ordered.sort(key=lambda v: (v, math.copysign(1, v)))
        present = ordered
    if not present or not isinstance(f.type, PrimitiveType) or f.type.name == "unknown":
        return FieldSummary(contains_null, contains_nan)
    lower, upper = (present[0], present[-1]) if _is_floating(f) else (min(present), max(present))
    return FieldSummary(contains_null, contains_nan, to_bytes(f.type, lower), to_bytes(f.type, upper))
