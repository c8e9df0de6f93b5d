"""Manifests <-> bytes (spec: "Manifests"; requirements MANIFEST-*, SEQ-*, LINEAGE-12/13, UPG-02/03).

Reading accepts any format version in a table of any version (GEN-11), finds columns by field id, takes content and spec from the
manifest list (some writers do not record them in the file) and resolves inheritance: snapshot id, both sequence numbers and
first row ids. ``manifest_encoding`` writes, entry by entry. The ``table`` package decides locations and when files roll.

A DELETED entry without a first row id gets none: the ids of a manifest cover only its added and existing rows, and the
reference implementation skips such entries too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from iceberg_ops.config.whole_numbers import whole_number
from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.serde.avro.avro_container import Container, read_container, read_header
from iceberg_ops.serde.avro.avro_names import sanitized
from iceberg_ops.serde.avro.avro_records import decode, decoder_schema
from iceberg_ops.serde.avro.avro_schema import SchemaReader, field_key
from iceberg_ops.serde.avro.manifest_fields import ANY, CONTENT_FILE, DATA_FILE, MANIFEST_ENTRY, PARTITION, Column
from iceberg_ops.serde.avro.partition_avro import Convert, partition_converter
from iceberg_ops.serde.json.schema_json import schema_from_json
from iceberg_ops.serde.manifests.manifest_encoding import ManifestEncoder, write_manifest
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import StructType

__all__ = [
    "DecodingPlan",
    "ManifestEncoder",
    "ManifestHeader",
    "decoding_plan",
    "entries_in",
    "file_format",
    "opened_manifest",
    "read_live_paths",
    "read_manifest",
    "read_manifest_header",
    "read_table_schema",
    "refuse_encrypted",
    "write_manifest",
]

_NO_PARTITION = StructType(())
_STATUSES = tuple(EntryStatus)
_CONTENTS = tuple(FileContent)
_FORMATS: dict[str, FileFormat] = {text: f for f in FileFormat for text in (f.value, f.value.upper())}
_ENCRYPTED = b"AGS1"


@dataclass(frozen=True, slots=True)
class ManifestHeader:
    """A manifest's own metadata (MANIFEST-03): None or the default if a value is not recorded."""

    format_version: int
    content: ManifestContent
    partition_spec_id: int | None
    schema_id: int | None


def read_manifest_header(data: bytes, path: str) -> ManifestHeader:
    """The key/value metadata of a manifest. Raises CorruptTableError."""
    metadata = read_header(data, path)
    content = metadata.get("content", "data").lower()
    if content not in ("data", "deletes"):
        raise CorruptTableError(f"{path}: manifest content is {content!r}, must be data or deletes")
    return ManifestHeader(
        format_version=_number(metadata, "format-version", path) or 1,
        content=ManifestContent.DATA if content == "data" else ManifestContent.DELETES,
        partition_spec_id=_number(metadata, "partition-spec-id", path),
        schema_id=_number(metadata, "schema-id", path),
    )


def read_table_schema(data: bytes, path: str) -> Schema | None:
    """The schema that the table had when the manifest was written (MANIFEST-03); None if it is not recorded. Raises
    CorruptTableError."""
    text = read_header(data, path).get("schema")
    return None if text is None else schema_from_json(text, f"{path}: schema")


def read_manifest(data: bytes, manifest: ManifestFile, partition_type: StructType) -> list[ManifestEntry]:
    """All entries in file order, inheritance resolved.

    ``partition_type`` is the struct type of the spec that the list names for this manifest (``PartitionSpec.partition_type``);
    partition tuples have its field order, with None for a field that the file does not have. Raises CorruptTableError,
    UnsupportedError (encrypted, unknown codec).
    """
    return entries_in(opened_manifest(data, manifest), manifest, partition_type)


def opened_manifest(data: bytes, manifest: ManifestFile) -> Container:
    """A manifest's container. Raises CorruptTableError, UnsupportedError."""
    refuse_encrypted(data, manifest.manifest_path)
    return read_container(data, manifest.manifest_path)


def entries_in(container: Container, manifest: ManifestFile, partition_type: StructType) -> list[ManifestEntry]:
    """The result of ``read_manifest`` for an open container."""
    name = manifest.manifest_path
    plan = decoding_plan(container, partition_type, name)
    records = decode(container, plan.schema, name)
    with _types_checked(name):
        return list(_entries(records, plan, manifest))


def read_live_paths(data: bytes, manifest: ManifestFile) -> list[tuple[str, FileContent]]:
    """Only path and content of each live entry, in file order: the partition spec need not be known. Raises
    CorruptTableError, UnsupportedError."""
    name = manifest.manifest_path
    container = opened_manifest(data, manifest)
    records = decode(container, decoding_plan(container, _NO_PARTITION, name).schema, name)
    with _types_checked(name):
        return list(_live_paths(records, name))


def _live_paths(records: list[dict[str, Any]], name: str) -> Iterator[tuple[str, FileContent]]:
    for record in records:
        status, d = _within(record["f0"], 3, "status", name), record["f2"]
        path, content = d["f100"], _within(d.get("f134") or 0, 3, "content", name)
        if path is None:
            raise CorruptTableError(f"{name}: entry without a path")
        if status != EntryStatus.DELETED:
            yield path, _CONTENTS[content]


@contextmanager
def _types_checked(name: str) -> Iterator[None]:
    try:
        yield
    except (KeyError, TypeError, ValueError, IndexError, OverflowError) as e:
        raise CorruptTableError(f"{name}: a manifest entry has a value of a wrong type: {type(e).__name__} {e}") from None


def refuse_encrypted(data: bytes, name: str) -> None:
    """Raise UnsupportedError for a file of Iceberg's AES-GCM stream format (ENC-02)."""
    if data[:4] == _ENCRYPTED:
        raise UnsupportedError(f"not supported: {name}, because it is encrypted")


def _number(metadata: Mapping[str, str], key: str, path: str) -> int | None:
    text = metadata.get(key)
    if text is None:
        return None
    if (number := whole_number(text)) is None:
        raise CorruptTableError(f"{path}: Avro metadata {key} is {text!r}, must be a whole number")
    return number


@dataclass(frozen=True, slots=True)
class DecodingPlan:
    """How to decode one writer's schema: its inlined form (``avro_schema``), fastavro's form of that, and for each partition field
    the record's key and the conversion of its values."""

    node: Any
    schema: Any
    partition: tuple[tuple[str | None, Convert | None], ...]


_PLANS: dict[tuple[str, StructType], DecodingPlan] = {}
_MOST_PLANS = 256


def decoding_plan(container: Container, partition_type: StructType, name: str) -> DecodingPlan:
    """The plan for a container's schema, cached for the next manifest with the same schema. Raises CorruptTableError."""
    key = (container.schema_text, partition_type)
    plan = _PLANS.get(key)
    if plan is None:
        plan = _make_plan(container.schema_text, partition_type, name)
        if len(_PLANS) >= _MOST_PLANS:
            _PLANS.clear()
        _PLANS[key] = plan
    return plan


def _make_plan(schema_text: str, partition_type: StructType, name: str) -> DecodingPlan:
    reader = SchemaReader(name)
    root = reader.inline_text(schema_text)
    entry = reader.record_schema(root, "manifest entry")
    leaves = reader.rename(entry, MANIFEST_ENTRY, {})
    data_file = leaves[DATA_FILE].node
    partition = reader.rename(data_file, CONTENT_FILE, {}).get(PARTITION)
    fields: list[tuple[str | None, Convert | None]] = [(None, None)] * len(partition_type)
    if partition is not None and partition.base == "record":
        columns = tuple(Column(f.field_id, f.name, ANY) for f in partition_type.fields)
        names = {sanitized(f.name): f.field_id for f in partition_type.fields}
        renamed_leaves = reader.rename(partition.node, columns, names)
        for index, f in enumerate(partition_type.fields):
            if f.field_id in renamed_leaves:
                fields[index] = (
                    field_key(f.field_id),
                    partition_converter(f.type, renamed_leaves[f.field_id], f"{name}: {f.name}"),
                )
    return DecodingPlan(root, decoder_schema(root, name), tuple(fields))


def _entries(records: list[dict[str, Any]], plan: DecodingPlan, manifest: ManifestFile) -> Iterator[ManifestEntry]:
    name = manifest.manifest_path
    inherited_sequence = manifest.sequence_number
    next_row_id = manifest.first_row_id if manifest.content is ManifestContent.DATA else None
    for record in records:
        status = _STATUSES[_within(record["f0"], 3, "status", name)]
        d = record["f2"]
        sequence, file_sequence = record.get("f3"), record.get("f4")
        if status is EntryStatus.ADDED or inherited_sequence == 0:
            sequence = inherited_sequence if sequence is None else sequence
            file_sequence = inherited_sequence if file_sequence is None else file_sequence
        elif sequence is None:
            raise CorruptTableError(f"{name}: entry {d['f100']} is {status.name} and has no data sequence number")
        first_row_id = None
        if next_row_id is not None:
            first_row_id = d.get("f142")
            if first_row_id is None and status is not EntryStatus.DELETED:
                first_row_id, next_row_id = next_row_id, next_row_id + d["f103"]
        snapshot_id = record.get("f1")
        yield ManifestEntry(
            status,
            manifest.added_snapshot_id if snapshot_id is None else snapshot_id,
            sequence,
            file_sequence,
            _data_file(d, plan.partition, manifest.partition_spec_id, first_row_id, name),
        )


def _data_file(
    d: Mapping[str, Any],
    partition: Sequence[tuple[str | None, Callable[[Any], Any] | None]],
    spec_id: int,
    first_row_id: int | None,
    name: str,
) -> DataFile:
    get = d.get
    path, text, record_count, size = d["f100"], d["f101"], d["f103"], d["f104"]
    if path is None or record_count is None or size is None or record_count < 0:
        raise CorruptTableError(f"{name}: entry {path!r} has record count {record_count} and size {size}")
    offsets, equality_ids = get("f132"), get("f135")
    return DataFile(
        content=_CONTENTS[_within(get("f134") or 0, 3, "content", name)],
        file_path=path,
        file_format=_FORMATS.get(text) or file_format(text, name),
        spec_id=spec_id,
        partition=_tuple(get("f102"), partition) if partition else (),
        record_count=record_count,
        file_size_in_bytes=size,
        column_sizes=_map(get("f108")),
        value_counts=_map(get("f109")),
        null_value_counts=_map(get("f110")),
        nan_value_counts=_map(get("f137")),
        lower_bounds=_map(get("f125")),
        upper_bounds=_map(get("f128")),
        key_metadata=get("f131"),
        split_offsets=None if offsets is None else tuple(offsets),
        equality_ids=None if equality_ids is None else tuple(equality_ids),
        sort_order_id=get("f140"),
        first_row_id=first_row_id,
        referenced_data_file=get("f143"),
        content_offset=get("f144"),
        content_size_in_bytes=get("f145"),
    )


def _tuple(record: Mapping[str, Any] | None, fields: Sequence[tuple[str | None, Convert | None]]) -> tuple[Any, ...]:
    if record is None:
        return (None,) * len(fields)
    values = []
    for key, convert in fields:
        value = None if key is None else record[key]
        values.append(value if convert is None or value is None else convert(value))
    return tuple(values)


def _map(items: Any) -> dict[int, Any] | None:
    if items is None:
        return None
    if isinstance(items, dict):
        return {int(k): v for k, v in items.items() if v is not None}
    return {item["key"]: item["value"] for item in items if item["value"] is not None}


def _within(value: int, limit: int, what: str, name: str) -> int:
    if not 0 <= value < limit:
        raise CorruptTableError(f"{name}: {what} is {value}, must be from 0 to {limit - 1}")
    return value


def file_format(text: str, name: str) -> FileFormat:
    """The format with that name, ignoring case. Raises CorruptTableError."""
    try:
        return FileFormat(text.lower())
    except (ValueError, AttributeError):
        known = ", ".join(f.value for f in FileFormat)
        raise CorruptTableError(f"{name}: file format is {text!r}, must be one of {known}") from None
