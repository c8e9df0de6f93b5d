"""Snapshots, refs, logs and registered statistics files <-> JSON (spec: "Snapshots", "Snapshot References", "Table Statistics")."""

from __future__ import annotations

from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.json.json_objects import JsonObject, as_int, as_list, as_long, as_text, as_text_map, without_none
from iceberg_ops.spec.snapshots import MetadataLogEntry, Snapshot, SnapshotLogEntry, SnapshotRef
from iceberg_ops.spec.statistics import BlobMetadata, PartitionStatisticsFile, StatisticsFile


def snapshot_to_dict(snapshot: Snapshot, format_version: int = 2) -> dict[str, Any]:
    """The snapshot's JSON object in the form of ``format_version``: v1 omits a sequence number of 0."""
    return without_none(
        snapshot.extra,
        sequence_number=snapshot.sequence_number if format_version > 1 or snapshot.sequence_number else None,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        timestamp_ms=snapshot.timestamp_ms,
        summary=dict(snapshot.summary) if snapshot.summary else None,
        manifest_list=snapshot.manifest_list,
        manifests=None if snapshot.manifests is None else list(snapshot.manifests),
        schema_id=snapshot.schema_id,
        first_row_id=snapshot.first_row_id,
        added_rows=snapshot.added_rows,
        key_id=snapshot.key_id,
    )


def snapshot_from_dict(value: Any) -> Snapshot:
    """The snapshot of a JSON object; a missing sequence number is 0 (v1), and a parent below 0 is none (ClickHouse writes -1 for
    the first snapshot). Raises CorruptTableError."""
    document = JsonObject(value, "a snapshot")
    snapshot_id = document.get("snapshot-id", as_long)
    document.what = f"snapshot {snapshot_id}"
    manifest_list = document.maybe("manifest-list", as_text)
    manifests = document.maybe("manifests", as_list)
    parent = document.maybe("parent-snapshot-id", as_long)
    if manifest_list is None and manifests is None:
        raise CorruptTableError(f"{document.what} has neither manifest-list nor manifests")
    return Snapshot(
        snapshot_id=snapshot_id,
        parent_snapshot_id=None if parent is None or parent < 0 else parent,
        sequence_number=document.maybe("sequence-number", as_long) or 0,
        timestamp_ms=document.get("timestamp-ms", as_long),
        manifest_list=manifest_list,
        manifests=None if manifests is None else tuple(as_text(m, f"{document.what}.manifests") for m in manifests),
        summary=document.maybe("summary", as_text_map) or {},
        schema_id=document.maybe("schema-id", as_int),
        first_row_id=document.maybe("first-row-id", as_long),
        added_rows=document.maybe("added-rows", as_long),
        key_id=document.maybe("key-id", as_text),
        extra=document.extra(),
    )


def ref_to_dict(ref: SnapshotRef) -> dict[str, Any]:
    """The ref's JSON object, without its name."""
    return without_none(
        ref.extra,
        snapshot_id=ref.snapshot_id,
        type=ref.type,
        min_snapshots_to_keep=ref.min_snapshots_to_keep,
        max_snapshot_age_ms=ref.max_snapshot_age_ms,
        max_ref_age_ms=ref.max_ref_age_ms,
    )


def ref_from_dict(value: Any, name: str = "") -> SnapshotRef:
    """The ref of a JSON object. Raises CorruptTableError."""
    document = JsonObject(value, f"snapshot ref {name!r}" if name else "snapshot ref")
    snapshot_id, kind = document.get("snapshot-id", as_long), document.get("type", as_text).lower()
    if kind not in ("branch", "tag"):
        raise CorruptTableError(f"{document.what}.type is {kind!r}: must be branch or tag")
    ref = SnapshotRef(
        snapshot_id=snapshot_id,
        type=kind,
        min_snapshots_to_keep=document.maybe("min-snapshots-to-keep", as_int),
        max_snapshot_age_ms=document.maybe("max-snapshot-age-ms", as_long),
        max_ref_age_ms=document.maybe("max-ref-age-ms", as_long),
        extra=document.extra(),
    )
    for key in ("min_snapshots_to_keep", "max_snapshot_age_ms", "max_ref_age_ms"):
        if (number := getattr(ref, key)) is not None and number <= 0:
            raise CorruptTableError(f"{document.what}.{key.replace('_', '-')} is {number}: must be above 0")
    return ref


def snapshot_log_entry_to_dict(entry: SnapshotLogEntry) -> dict[str, Any]:
    return without_none(entry.extra, timestamp_ms=entry.timestamp_ms, snapshot_id=entry.snapshot_id)


def snapshot_log_entry_from_dict(value: Any) -> SnapshotLogEntry:
    """The log entry of a JSON object. Raises CorruptTableError."""
    document = JsonObject(value, "an entry of snapshot-log")
    return SnapshotLogEntry(document.get("timestamp-ms", as_long), document.get("snapshot-id", as_long), document.extra())


def metadata_log_entry_to_dict(entry: MetadataLogEntry) -> dict[str, Any]:
    return without_none(entry.extra, timestamp_ms=entry.timestamp_ms, metadata_file=entry.metadata_file)


def metadata_log_entry_from_dict(value: Any) -> MetadataLogEntry:
    """The log entry of a JSON object. Raises CorruptTableError."""
    document = JsonObject(value, "an entry of metadata-log")
    return MetadataLogEntry(document.get("timestamp-ms", as_long), document.get("metadata-file", as_text), document.extra())


def statistics_to_dict(statistics: StatisticsFile) -> dict[str, Any]:
    """The registered statistics file's JSON object."""
    return without_none(
        statistics.extra,
        snapshot_id=statistics.snapshot_id,
        statistics_path=statistics.statistics_path,
        file_size_in_bytes=statistics.file_size_in_bytes,
        file_footer_size_in_bytes=statistics.file_footer_size_in_bytes,
        key_metadata=statistics.key_metadata,
        blob_metadata=[_blob_to_dict(b) for b in statistics.blob_metadata],
    )


def _blob_to_dict(blob: BlobMetadata) -> dict[str, Any]:
    return without_none(
        blob.extra,
        type=blob.type,
        snapshot_id=blob.snapshot_id,
        sequence_number=blob.sequence_number,
        fields=list(blob.fields),
        properties=dict(blob.properties) if blob.properties else None,
    )


def statistics_from_dict(value: Any) -> StatisticsFile:
    """The registered statistics file of a JSON object. Raises CorruptTableError."""
    document = JsonObject(value, "an entry of statistics")
    return StatisticsFile(
        snapshot_id=document.get("snapshot-id", as_long),
        statistics_path=document.get("statistics-path", as_text),
        file_size_in_bytes=document.get("file-size-in-bytes", as_long),
        file_footer_size_in_bytes=document.get("file-footer-size-in-bytes", as_long),
        key_metadata=document.maybe("key-metadata", as_text),
        blob_metadata=document.optional_array("blob-metadata", _blob_from_dict),
        extra=document.extra(),
    )


def _blob_from_dict(value: Any) -> BlobMetadata:
    document = JsonObject(value, "an entry of blob-metadata")
    return BlobMetadata(
        type=document.get("type", as_text),
        snapshot_id=document.get("snapshot-id", as_long),
        sequence_number=document.get("sequence-number", as_long),
        fields=document.optional_array("fields", lambda v: as_int(v, "blob-metadata.fields")),
        properties=document.maybe("properties", as_text_map) or {},
        extra=document.extra(),
    )


def partition_statistics_to_dict(statistics: PartitionStatisticsFile) -> dict[str, Any]:
    return without_none(
        statistics.extra,
        snapshot_id=statistics.snapshot_id,
        statistics_path=statistics.statistics_path,
        file_size_in_bytes=statistics.file_size_in_bytes,
    )


def partition_statistics_from_dict(value: Any) -> PartitionStatisticsFile:
    """The registered partition statistics file of a JSON object. Raises CorruptTableError."""
    document = JsonObject(value, "an entry of partition-statistics")
    return PartitionStatisticsFile(
        snapshot_id=document.get("snapshot-id", as_long),
        statistics_path=document.get("statistics-path", as_text),
        file_size_in_bytes=document.get("file-size-in-bytes", as_long),
        extra=document.extra(),
    )
