"""Expiry as a whole: note the intent, swap, delete the files, take the note away; and finish what a crash left half done.

Before the swap a note names the snapshots that may go, with all that is needed to find their files once the metadata has forgotten
them. After it, files are told against the table *as it is then*, leases are looked at once more, and deleted in bulk with a
result per file. A run that dies in between leaves the note: the next one finishes it. The rule upheld: a file goes only when no
snapshot of the current metadata reaches it and the metadata no longer has the snapshot it belonged to.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.expired_files import UnreachedFiles, unreached_files
from iceberg_ops.commit.operation import Committed
from iceberg_ops.errors import CommitStateUnknownError, IcebergOpsError
from iceberg_ops.io.file_io import DeleteFailure, FileIO
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.updates import RemoveSnapshots
from iceberg_ops.table.leases import active_leases
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.table import Table

FOLDER = "iceberg-ops/expiry"
ABANDONED_AFTER_MS = 24 * 3600 * 1000
Cleanup = Literal["all", "metadata-only", "none"]
Delete = Callable[[FileIO, Sequence[str]], list[DeleteFailure]]


def in_bulk(io: FileIO, locations: Sequence[str]) -> list[DeleteFailure]:
    """Delete as the store does it best."""
    return io.delete_many(locations)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryResult:
    """``files`` are those that only expired snapshots reached; all but ``failures`` are deleted (none where ``clean`` was none).
    ``resumed`` counts notes of earlier runs that were finished."""

    committed: Committed
    files: UnreachedFiles
    failures: tuple[DeleteFailure, ...] = ()
    resumed: int = 0


def expire(
    catalog: Catalog, table: Table, operation: ExpireSnapshots, *, clean: Cleanup = "all", delete: Delete = in_bulk
) -> ExpiryResult:
    """Expire, and delete with ``delete``.

    Raises what ``commit`` raises; CorruptTableError where files can not be told (then none is deleted)."""
    resumed = resume_expiry(catalog, table, delete=delete) if clean == "all" else 0
    table = catalog.load_table(table.identifier[1:])
    note = write_intent(table, operation)
    try:
        committed = commit(catalog, table, operation, just_loaded=True)
    except CommitStateUnknownError:
        raise
    except IcebergOpsError:
        _delete_notes(table, note)
        raise
    after = catalog.load_table(table.identifier[1:])
    gone = [s for s in table.metadata.snapshots if s.snapshot_id not in after.metadata.snapshots_by_id]
    files = unreached_files(after, gone, [path for _, path in _statistics_of(table, {s.snapshot_id for s in gone})])
    failures = _delete(after, files, clean, delete)
    if not failures and not _leased(after):
        _delete_notes(table, note)
    return ExpiryResult(committed=committed, files=files, failures=tuple(failures), resumed=resumed)


def write_intent(table: Table, operation: ExpireSnapshots) -> str | None:
    """Note which snapshots are about to go; None where none is. A snapshot that an attempt adds to them later is left to
    orphans."""
    staged = operation.stage(operation.prepare(table), table)
    ids = {i for update in staged.updates if isinstance(update, RemoveSnapshots) for i in update.snapshot_ids}
    if not ids:
        return None
    metadata = table.metadata
    note = {
        "created-at-ms": time.time_ns() // 1_000_000,
        "table-uuid": metadata.table_uuid,
        "snapshots": [
            {
                "snapshot-id": s.snapshot_id,
                "timestamp-ms": s.timestamp_ms,
                "manifest-list": s.manifest_list,
                "manifests": s.manifests,
            }
            for s in metadata.snapshots
            if s.snapshot_id in ids
        ],
        "statistics": [[snapshot_id, path] for snapshot_id, path in _statistics_of(table, ids)],
    }
    location = f"{metadata_folder(metadata)}/{FOLDER}/{uuid.uuid4()}.json"
    table.io.write(location, json.dumps(note).encode())
    return location


def resume_expiry(catalog: Catalog, table: Table, *, now_ms: int | None = None, delete: Delete = in_bulk) -> int:
    """Delete what expired snapshots of earlier runs left behind; the number of notes finished.

    A note whose snapshots are all still there belongs to a run that has not swapped yet; after a day it is thrown away."""
    finished = 0
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    notes = [info.location for info in table.io.list_prefix(f"{metadata_folder(table.metadata)}/{FOLDER}")]
    for location in notes:
        note = _read_note(table, location)
        after = catalog.load_table(table.identifier[1:])
        gone, statistics = _gone(after, note)
        if gone and not _leased(after):
            if not _delete(after, unreached_files(after, gone, statistics), "all", delete):
                _delete_notes(table, location)
                finished += 1
        elif not gone and now - int(note.get("created-at-ms", 0)) > ABANDONED_AFTER_MS:
            _delete_notes(table, location)
    return finished


def _delete(table: Table, files: UnreachedFiles, clean: Cleanup, delete: Delete) -> list[DeleteFailure]:
    """Bulk deletion, content first. While a lease is in force, content stays: the job that holds it may still read it."""
    if clean == "none":
        return []
    content = () if clean == "metadata-only" or _leased(table) else (*files.data, *files.position_deletes, *files.equality_deletes)
    metadata = () if clean == "all" and _leased(table) else (*files.manifests, *files.manifest_lists, *files.statistics)
    return delete(table.io, content) or delete(table.io, metadata)


def _leased(table: Table) -> bool:
    """Whether a lease names a snapshot that is gone: it was taken while the swap was under way."""
    now = time.time_ns() // 1_000_000
    known = table.metadata.snapshots_by_id
    return any(lease.snapshot_id is not None and lease.snapshot_id not in known for lease in active_leases(table, now))


def _read_note(table: Table, location: str) -> dict[str, Any]:
    try:
        found = json.loads(table.io.read(location))
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) and found.get("table-uuid") == table.metadata.table_uuid else {}


def _gone(after: Table, note: dict[str, Any]) -> tuple[list[Snapshot], list[str]]:
    """The note's snapshots that are no longer in the table, and their statistics files."""
    known = after.metadata.snapshots_by_id
    gone = [
        Snapshot(
            snapshot_id=s["snapshot-id"],
            timestamp_ms=s["timestamp-ms"],
            manifest_list=s["manifest-list"],
            manifests=None if s["manifests"] is None else tuple(s["manifests"]),
        )
        for s in note.get("snapshots", ())
        if s["snapshot-id"] not in known
    ]
    return gone, [path for snapshot_id, path in note.get("statistics", ()) if snapshot_id not in known]


def _statistics_of(table: Table, snapshot_ids: set[int]) -> list[tuple[int, str]]:
    """(snapshot id, location) of the statistics files of those snapshots."""
    found = [(s.snapshot_id, s.statistics_path) for s in table.metadata.statistics if s.snapshot_id in snapshot_ids]
    return found + [
        (s.snapshot_id, s.statistics_path) for s in table.metadata.partition_statistics if s.snapshot_id in snapshot_ids
    ]


def _delete_notes(table: Table, *locations: str | None) -> None:
    table.io.delete_many([location for location in locations if location is not None])
