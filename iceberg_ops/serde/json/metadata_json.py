"""Table metadata files: JSON of format versions 1, 2 and 3 <-> TableMetadata (spec: "Table Metadata", Appendix C).

Reading accepts everything that the spec allows and refuses invalid tables: an unknown format version, a missing current schema,
spec, order or snapshot, refs that disagree with ``current-snapshot-id``. Unknown keys are kept at every level. v1 is
read in its oldest form (only ``schema`` and ``partition-spec``) and written with both old and new keys.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import Any

import msgspec

from iceberg_ops.errors import BadInputError, CorruptTableError, SchemaError, UnsupportedError
from iceberg_ops.serde.json.json_objects import JsonObject, as_int, as_list, as_long, as_text, as_text_map, parse_json
from iceberg_ops.serde.json.partition_json import spec_fields_from_list, spec_fields_to_list, spec_from_dict, spec_to_dict
from iceberg_ops.serde.json.schema_json import schema_from_dict, schema_to_dict
from iceberg_ops.serde.json.snapshot_json import (
    metadata_log_entry_from_dict,
    metadata_log_entry_to_dict,
    partition_statistics_from_dict,
    partition_statistics_to_dict,
    ref_from_dict,
    ref_to_dict,
    snapshot_from_dict,
    snapshot_log_entry_from_dict,
    snapshot_log_entry_to_dict,
    snapshot_to_dict,
    statistics_from_dict,
    statistics_to_dict,
)
from iceberg_ops.serde.json.sort_json import sort_order_from_dict, sort_order_to_dict
from iceberg_ops.spec.partitioning import FIRST_PARTITION_FIELD_ID, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot, SnapshotRef
from iceberg_ops.spec.sorting import UNSORTED, SortOrder
from iceberg_ops.spec.table_metadata import SUPPORTED_FORMAT_VERSIONS, TableMetadata

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MAX_METADATA_BYTES = 1 << 30
"""A metadata file that decompresses to more is refused: 1 GiB is some millions of snapshots."""


def metadata_from_json(data: bytes, name: str) -> TableMetadata:
    """Table metadata from a metadata file's bytes, gzip and zstd detected by their magic; ``name`` is for messages.

    Raises CorruptTableError for metadata that breaks the spec, UnsupportedError for an unknown format version.
    """
    try:
        return metadata_from_dict(parse_json(_unpacked(data), "the document"))
    except (CorruptTableError, SchemaError) as e:
        raise CorruptTableError(f"table metadata {name}: {e}") from None
    except UnsupportedError as e:
        raise UnsupportedError(f"table metadata {name}: {e}") from None
    except RecursionError:
        raise CorruptTableError(f"table metadata {name}: types are nested too deeply") from None


class MetadataHead(msgspec.Struct, rename="kebab", frozen=True):
    """The fields that distinguish metadata files in one place. ``table_uuid`` is as written; empty if a v1 file has none."""

    table_uuid: str = ""
    last_updated_ms: int = 0


def metadata_head_from_json(data: bytes, name: str) -> MetadataHead:
    """Only these fields of a metadata file. Raises CorruptTableError."""
    try:
        return msgspec.json.decode(_unpacked(data), type=MetadataHead)
    except (CorruptTableError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as e:
        raise CorruptTableError(f"table metadata {name}: {e}") from None


class _Marks(msgspec.Struct, rename="kebab"):
    """The fields that every version of the format requires, and few other documents have."""

    format_version: int
    location: str


def is_metadata(data: bytes) -> bool:
    """Whether these bytes are a table's metadata, plain or compressed, as far as the required fields show."""
    try:
        msgspec.json.decode(_unpacked(data), type=_Marks)
    except (CorruptTableError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def _unpacked(data: bytes) -> bytes:
    if data[:4] == _ZSTD_MAGIC:
        return _unzstd(data)
    if data[:2] != _GZIP_MAGIC:
        return data
    try:
        unpacker = zlib.decompressobj(wbits=31)
        plain = unpacker.decompress(data, MAX_METADATA_BYTES)
    except zlib.error as e:
        raise CorruptTableError(f"the gzip stream is damaged: {e}") from None
    if not unpacker.eof:
        rule = f"unpacks to more than {MAX_METADATA_BYTES} bytes" if unpacker.unconsumed_tail else "is cut short"
        raise CorruptTableError(f"the gzip stream {rule}")
    return plain


def _unzstd(data: bytes) -> bytes:
    """Iceberg Go writes such metadata."""
    import pyarrow  # noqa: PLC0415 - a codec chosen by name

    try:
        with pyarrow.input_stream(pyarrow.BufferReader(data), compression="zstd") as stream:
            plain: bytes = stream.read(MAX_METADATA_BYTES + 1)
    except OSError as e:
        raise CorruptTableError(f"the zstd stream is damaged: {e}") from None
    if len(plain) > MAX_METADATA_BYTES:
        raise CorruptTableError(f"the zstd stream unpacks to more than {MAX_METADATA_BYTES} bytes")
    return plain


def metadata_to_json(metadata: TableMetadata, *, compress: bool = False) -> bytes:
    """The metadata file's bytes in the form of its format version, gzipped if ``compress``. Raises BadInputError, which names
    the place, for text that is not valid Unicode: then nothing is written."""
    document = metadata_to_dict(metadata)
    try:
        data = msgspec.json.encode(document)
    except UnicodeEncodeError:
        place = ".".join(next(_not_unicode(document), ()))
        raise BadInputError(
            f"table metadata: {place} is not Unicode text (half of a surrogate pair): nothing was written"
        ) from None
    return gzip.compress(data, mtime=0) if compress else data


def _not_unicode(value: Any, *above: str) -> Iterator[tuple[str, ...]]:
    """Where a JSON value contains text that UTF-8 cannot encode."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            yield above
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from _not_unicode(key, *above, "a key")
            yield from _not_unicode(part, *above, ascii(key)[1:-1])
    elif isinstance(value, list):
        for i, part in enumerate(value):
            yield from _not_unicode(part, *above, str(i))


def metadata_from_dict(value: Any) -> TableMetadata:
    """``metadata_from_json`` of a parsed document (a REST answer). Raises CorruptTableError, UnsupportedError."""
    document = JsonObject(value, "the document")
    document.what = "table metadata"
    if isinstance(value, dict) and "view-uuid" in value:
        raise UnsupportedError("not supported: a view, because only tables are read and maintained")
    version = document.get("format-version", as_int)
    if version not in SUPPORTED_FORMAT_VERSIONS:
        raise UnsupportedError(f"not supported: format-version {version}, because only {SUPPORTED_FORMAT_VERSIONS} are known")
    schemas, current_schema_id = _schemas(document, version)
    specs, default_spec_id, last_partition_id = _specs(document, version)
    orders, default_order_id = _sort_orders(document, version)
    snapshots = document.optional_array("snapshots", snapshot_from_dict)
    current = document.maybe("current-snapshot-id", as_long)
    current = None if current == -1 else current
    metadata = TableMetadata(
        format_version=version,
        table_uuid=document.get("table-uuid", as_text) if version > 1 else document.maybe("table-uuid", as_text) or "",
        location=document.get("location", as_text),
        last_sequence_number=document.get("last-sequence-number", as_long)
        if version > 1
        else _skip(document, "last-sequence-number", 0),
        last_updated_ms=document.get("last-updated-ms", as_long),
        last_column_id=document.get("last-column-id", as_int),
        current_schema_id=current_schema_id,
        schemas=schemas,
        default_spec_id=default_spec_id,
        partition_specs=specs,
        last_partition_id=last_partition_id,
        default_sort_order_id=default_order_id,
        sort_orders=orders,
        properties=document.maybe("properties", as_text_map) or {},
        current_snapshot_id=current,
        snapshots=snapshots,
        snapshot_log=document.optional_array("snapshot-log", snapshot_log_entry_from_dict),
        metadata_log=document.optional_array("metadata-log", metadata_log_entry_from_dict),
        refs=_refs(document, current),
        statistics=document.optional_array("statistics", statistics_from_dict),
        partition_statistics=document.optional_array("partition-statistics", partition_statistics_from_dict),
        next_row_id=_next_row_id(document, snapshots) if version > 2 else _skip(document, "next-row-id", None),
        encryption_keys=document.optional_array("encryption-keys", _key),
        extra=document.extra(),
    )
    _validate(metadata)
    return metadata


def _skip(document: JsonObject, key: str, value: Any) -> Any:
    document.drop(key)
    return value


def _next_row_id(document: JsonObject, snapshots: tuple[Snapshot, ...]) -> int:
    """Required in v3. A writer that omitted it (DuckDB did) has assigned no row ids beyond those of its snapshots. A lower number
    than that is ignored: the next commit would assign ids that rows already have."""
    given = (s.first_row_id + (s.added_rows or 0) for s in snapshots if s.first_row_id is not None)
    return max(document.maybe("next-row-id", as_long) or 0, *given, 0)


def _key(value: Any) -> dict[str, Any]:
    document = JsonObject(value, "an entry of encryption-keys")
    document.get("key-id", as_text)
    return dict(value)


def _schemas(document: JsonObject, version: int) -> tuple[tuple[Schema, ...], int]:
    document.drop("schema", "schemas", "current-schema-id")
    if version == 1 and not document.has("schemas"):
        schema = document.get("schema", lambda v, _: schema_from_dict(v))
        return (schema,), schema.schema_id
    schemas = tuple(schema_from_dict(s) for s in document.get("schemas", as_list))
    current = document.get("current-schema-id", as_int)
    if current not in {s.schema_id for s in schemas}:
        raise CorruptTableError(f"current-schema-id {current} is not in schemas")
    return schemas, current


def _specs(document: JsonObject, version: int) -> tuple[tuple[PartitionSpec, ...], int, int]:
    document.drop("partition-spec", "partition-specs", "default-spec-id", "last-partition-id")
    if version == 1 and not document.has("partition-specs"):
        specs: tuple[PartitionSpec, ...] = (PartitionSpec(0, document.get("partition-spec", spec_fields_from_list)),)
        default: int | None = 0
    else:
        specs = tuple(spec_from_dict(s) for s in document.get("partition-specs", as_list))
        default = document.get("default-spec-id", as_int)
    if default not in {s.spec_id for s in specs}:
        raise CorruptTableError(f"default-spec-id {default} is not in partition-specs")
    if version > 1 or document.has("last-partition-id"):
        return specs, default, document.get("last-partition-id", as_int)
    return specs, default, max((s.last_assigned_field_id for s in specs), default=FIRST_PARTITION_FIELD_ID - 1)


def _sort_orders(document: JsonObject, version: int) -> tuple[tuple[SortOrder, ...], int]:
    document.drop("sort-orders", "default-sort-order-id")
    if version == 1 and not document.has("sort-orders"):
        return (UNSORTED,), 0
    orders = tuple(sort_order_from_dict(o) for o in document.get("sort-orders", as_list))
    default = document.get("default-sort-order-id", as_int)
    if default not in {o.order_id for o in orders}:
        if default != 0:
            raise CorruptTableError(f"default-sort-order-id {default} is not in sort-orders")
        orders = (UNSORTED, *orders)
    return orders, default


def _refs(document: JsonObject, current: int | None) -> dict[str, SnapshotRef]:
    refs = document.maybe("refs", lambda v, w: {name: ref_from_dict(ref, name) for name, ref in _object(v, w).items()})
    if refs is None or (MAIN_BRANCH not in refs and current is not None):
        main = {} if current is None else {MAIN_BRANCH: SnapshotRef(snapshot_id=current)}
        return main | (refs or {})
    return refs


def _object(value: Any, what: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CorruptTableError(f"{what} must be an object")
    return value


def _validate(metadata: TableMetadata) -> None:
    """The checks of Java's TableMetadata."""
    current, known = metadata.current_snapshot_id, metadata.snapshots_by_id
    if current is not None and current not in known:
        raise CorruptTableError(f"current-snapshot-id {current} is not in snapshots")
    for name, ref in metadata.refs.items():
        if ref.snapshot_id not in known:
            raise CorruptTableError(f"ref {name!r}: snapshot {ref.snapshot_id} does not exist in snapshots")
    main = metadata.refs.get(MAIN_BRANCH)
    if main is not None:
        if current is None:
            raise CorruptTableError("the current snapshot is not set, but the main branch exists")
        if main.snapshot_id != current:
            raise CorruptTableError(f"current-snapshot-id {current} does not match the main branch's {main.snapshot_id}")
        if not main.is_branch:
            raise CorruptTableError("ref 'main' is a tag: it must be a branch")
    if metadata.format_version > 1:
        _validate_sequence_numbers(metadata.snapshots, metadata.last_sequence_number)


def _validate_sequence_numbers(snapshots: tuple[Snapshot, ...], last: int) -> None:
    for snapshot in snapshots:
        if snapshot.sequence_number > last:
            number = snapshot.sequence_number
            raise CorruptTableError(
                f"snapshot {snapshot.snapshot_id} has sequence number {number}, above last-sequence-number {last}"
            )


def metadata_to_dict(metadata: TableMetadata) -> dict[str, Any]:
    """The JSON object of the metadata's format version, keys in Java's order."""
    version = metadata.format_version
    document: dict[str, Any] = {"format-version": version}
    if metadata.table_uuid:
        document["table-uuid"] = metadata.table_uuid
    document["location"] = metadata.location
    if version > 1:
        document["last-sequence-number"] = metadata.last_sequence_number
    document |= {"last-updated-ms": metadata.last_updated_ms, "last-column-id": metadata.last_column_id}
    if version == 1:
        document["schema"] = schema_to_dict(metadata.schema)
    document |= {"current-schema-id": metadata.current_schema_id, "schemas": [schema_to_dict(s) for s in metadata.schemas]}
    if version == 1:
        document["partition-spec"] = spec_fields_to_list(metadata.spec)
    document |= {
        "default-spec-id": metadata.default_spec_id,
        "partition-specs": [spec_to_dict(s) for s in metadata.partition_specs],
        "last-partition-id": metadata.last_partition_id,
        "default-sort-order-id": metadata.default_sort_order_id,
        "sort-orders": [sort_order_to_dict(o) for o in metadata.sort_orders],
        "properties": dict(metadata.properties),
    }
    document |= _history_to_dict(metadata)
    return document | {key: value for key, value in metadata.extra.items() if key not in document}


def _history_to_dict(metadata: TableMetadata) -> dict[str, Any]:
    version, current = metadata.format_version, metadata.current_snapshot_id
    document: dict[str, Any] = {"current-snapshot-id": -1 if current is None and version < 3 else current}
    if version > 2:
        document["next-row-id"] = metadata.next_row_id or 0
    if metadata.encryption_keys:
        document["encryption-keys"] = [dict(k) for k in metadata.encryption_keys]
    document |= {
        "refs": {name: ref_to_dict(ref) for name, ref in metadata.refs.items()},
        "snapshots": [snapshot_to_dict(s, version) for s in metadata.snapshots],
        "statistics": [statistics_to_dict(s) for s in metadata.statistics],
        "partition-statistics": [partition_statistics_to_dict(s) for s in metadata.partition_statistics],
        "snapshot-log": [snapshot_log_entry_to_dict(e) for e in metadata.snapshot_log],
        "metadata-log": [metadata_log_entry_to_dict(e) for e in metadata.metadata_log],
    }
    return document
