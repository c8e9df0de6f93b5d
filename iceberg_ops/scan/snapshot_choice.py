"""Chooses the snapshot and the schema of a scan.

A snapshot id, a tag and a time are read with the schema that snapshot recorded; a branch, ``main`` included, with the table's
current schema (spec: "Point in Time Reads", SCHEMA-14; Iceberg Java does the same). A time is looked up in the snapshot log, not
along the parents, so that a rolled-back snapshot is found while it was current (SNAP-26).
"""

from __future__ import annotations

from iceberg_ops.errors import CorruptTableError, NoSuchSnapshotError, OptionError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import TIMESTAMPTZ
from iceberg_ops.spec.values import human


def choose_snapshot(
    metadata: TableMetadata, *, snapshot_id: int | None = None, ref: str | None = None, as_of_ms: int | None = None
) -> tuple[Snapshot | None, Schema]:
    """The snapshot and the schema to read it with; no snapshot for an empty table. At most one of the three may be given.

    Raises NoSuchSnapshotError for an unknown id or ref or a time before the log begins, CorruptTableError if a ref or the log
    names a snapshot that the metadata does not have, OptionError for two choices at once.
    """
    if sum(choice is not None for choice in (snapshot_id, ref, as_of_ms)) > 1:
        raise OptionError("a snapshot id, a ref and a time were given: at most one of them may be")
    if snapshot_id is not None:
        snapshot = metadata.snapshot(snapshot_id)
        return snapshot, metadata.schema_of(snapshot)
    if as_of_ms is not None:
        snapshot = snapshot_as_of(metadata, as_of_ms)
        return snapshot, metadata.schema_of(snapshot)
    if ref is None:
        return metadata.current_snapshot, metadata.schema
    return _at_ref(metadata, ref)


def _at_ref(metadata: TableMetadata, name: str) -> tuple[Snapshot | None, Schema]:
    ref = metadata.ref(name)
    if ref is None:
        if name == MAIN_BRANCH:
            return None, metadata.schema
        known = ", ".join(sorted(metadata.refs)) or "none"
        raise NoSuchSnapshotError(f"table {metadata.location} has no branch or tag {name!r}: it has {known}")
    snapshot = metadata.snapshots_by_id.get(ref.snapshot_id)
    if snapshot is None:
        raise CorruptTableError(
            f"table {metadata.location}: {ref.type} {name!r} names snapshot {ref.snapshot_id}, which is not in the metadata"
        )
    return snapshot, metadata.schema if ref.is_branch else metadata.schema_of(snapshot)


def snapshot_as_of(metadata: TableMetadata, as_of_ms: int) -> Snapshot:
    """The snapshot that was current at that time (milliseconds since the epoch): the last log entry at or before it, in the log's
    order."""
    entries = [entry for entry in metadata.snapshot_log if entry.timestamp_ms <= as_of_ms]
    if not entries:
        when = human(TIMESTAMPTZ, as_of_ms * 1000)
        raise NoSuchSnapshotError(
            f"table {metadata.location} has no snapshot as of {when}: its snapshot log begins later or is empty"
        )
    return metadata.snapshot(entries[-1].snapshot_id)
