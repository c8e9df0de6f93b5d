"""Expiry as a whole: note the intent, swap, delete the files, take the note away; and finish what a crash left half done.

Before the swap a note names the snapshots that may go, with all that is needed to find their files once the metadata has forgotten
them. After it, the table is loaded afresh, the files that only the removed snapshots reached are found, and the gate
(``iceberg_ops.deletion``) deletes them. A run that dies in between leaves the note: the next one finishes it. What the gate keeps
(a job holds a lease on a snapshot that is gone) keeps the note as well, so that the next expiry takes it up."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operation import Committed
from iceberg_ops.deletion.expired import UnreachedFiles, unreached_files
from iceberg_ops.deletion.gate import (
    NOTHING,
    Delete,
    Deletion,
    KeptFile,
    Reload,
    check_same_table,
    delete_unreferenced,
    in_bulk,
    is_older,
)
from iceberg_ops.deletion.notes import delete_note
from iceberg_ops.deletion.places import noted, notes_folder
from iceberg_ops.errors import CommitStateUnknownError, CorruptTableError, IcebergOpsError
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.updates import RemoveSnapshots
from iceberg_ops.table.metadata_files import ledger_files
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

FOLDER = "iceberg-ops/expiry"
ABANDONED_AFTER_MS = 24 * 3600 * 1000
Cleanup = Literal["all", "metadata-only", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryResult:
    """``files`` are those that only expired snapshots reached; ``deletion`` says what became of them (nothing where ``clean`` was
    none). ``resumed`` counts notes of earlier runs that were finished."""

    committed: Committed
    files: UnreachedFiles
    deletion: Deletion = field(default_factory=Deletion)
    resumed: int = 0


def expire(
    catalog: Catalog,
    table: Table,
    operation: ExpireSnapshots,
    *,
    clean: Cleanup = "all",
    delete: Delete = in_bulk,
    on_commit: Callable[[Committed], object] = lambda _: None,
) -> ExpiryResult:
    """Expire, and delete with ``delete``. ``on_commit`` gets the commit before a file is deleted, which may fail still.

    Raises what ``commit`` raises; CorruptTableError where it cannot be told which files may go, because a retained snapshot is
    damaged (then none is deleted). Damaged files of expired snapshots are among those that are kept."""
    resumed = resume_expiry(catalog, table, delete=delete) if clean == "all" else 0
    before = _reloaded(catalog, table)
    note = write_intent(before, operation)
    try:
        committed = commit(catalog, before, operation, just_loaded=True)
    except CommitStateUnknownError:
        raise
    except IcebergOpsError:
        delete_note(table.io, note)
        raise
    on_commit(committed)
    after = _reloaded(catalog, committed.table)
    gone = [s for s in before.metadata.snapshots if s.snapshot_id not in after.metadata.snapshots_by_id]
    statistics = [path for _, path in _statistics_of(before, {s.snapshot_id for s in gone})]
    files = unreached_files(after, gone, statistics)
    reload = partial(catalog.load_table, table.identifier[1:])
    deletion = _delete(after, reload, files, clean, delete)
    outlived = set(ledger_files(before.metadata)) - set(ledger_files(after.metadata))
    delete_unreferenced(after, reload, sorted(outlived), proven_for=after.metadata)
    if not deletion.left and clean != "metadata-only":
        delete_note(table.io, note)
    return ExpiryResult(committed=committed, files=files, deletion=deletion, resumed=resumed)


def _reloaded(catalog: Catalog, table: Table) -> Table:
    """The table as it is now; ``table`` itself where the catalog's answer is older (a cache, a replica): what that lacks has not
    expired, and the gate would believe it. Raises ValidationError where another table has its name."""
    now = catalog.load_table(table.identifier[1:])
    check_same_table(table, now)
    return table if is_older(now, table) else now


def write_intent(table: Table, operation: ExpireSnapshots) -> str | None:
    """Note which snapshots are about to go; None where none is. A snapshot that an attempt adds to them later is left to
    orphans."""
    ids = {i for update in operation.removals(table) if isinstance(update, RemoveSnapshots) for i in update.snapshot_ids}
    if not ids:
        return None
    metadata = table.metadata
    note = {
        "created-at-ms": time.time_ns() // 1_000_000,
        "table-uuid": metadata.table_uuid,
        "last-updated-ms": metadata.last_updated_ms,
        "last-sequence-number": metadata.last_sequence_number,
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
    location = f"{notes_folder(table, FOLDER)}/{uuid.uuid4()}.json"
    table.io.write(location, json.dumps(note).encode())
    return location


def resume_expiry(catalog: Catalog, table: Table, *, now_ms: int | None = None, delete: Delete = in_bulk) -> int:
    """Delete what expired snapshots of earlier runs left behind; the number of notes finished. A note stays while a retained
    snapshot is damaged, so that it cannot be told which files may go: that snapshot may be about to expire.

    A note whose snapshots are all still there belongs to a run that has not swapped yet; after a day it is thrown away. One that
    is later than the catalog's answer waits for the next run."""
    finished = 0
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    notes = [info.location for info in noted(table, FOLDER)]
    for location in notes:
        note = _read_note(table, location)
        after = _reloaded(catalog, table)
        if _is_later(note, after):
            continue
        gone, statistics = _gone(after, note)
        if gone:
            try:
                files = unreached_files(after, gone, statistics)
            except CorruptTableError as e:
                log.warning("%s: files of snapshots that expired earlier stay, because of a damaged table: %s", table.name, e)
                continue
            if not _delete(after, partial(catalog.load_table, table.identifier[1:]), files, "all", delete).left:
                delete_note(table.io, location)
                finished += 1
        elif now - int(note.get("created-at-ms", 0)) > ABANDONED_AFTER_MS:
            delete_note(table.io, location)
    return finished


def _delete(after: Table, reload: Reload, files: UnreachedFiles, clean: Cleanup, delete: Delete) -> Deletion:
    """Content first. While any of it stays, what leads to it stays too: only through that it is found again."""
    phases = {"all": (files.content, files.metadata), "metadata-only": (files.metadata,), "none": ()}
    done = NOTHING
    for phase in phases[clean]:
        done += delete_unreferenced(after, reload, phase, proven_for=after.metadata, delete=delete)
        if done.left:
            break
    return done + Deletion(kept=tuple(KeptFile(location, f"it is damaged: {error}") for location, error in files.damaged))


def _read_note(table: Table, location: str) -> dict[str, Any]:
    """The note; without its snapshots where it is another table's, empty where it cannot be read."""
    try:
        found = json.loads(table.io.read(location))
    except (FileNotFoundError, ValueError):
        return {}
    if not isinstance(found, dict):
        return {}
    own = found.get("table-uuid") == table.metadata.table_uuid
    return found if own else {"created-at-ms": found.get("created-at-ms", 0)}


def _is_later(note: dict[str, Any], table: Table) -> bool:
    """Prevents taking snapshots for expired that ``table`` has not got yet: it is older than what the note's writer saw. Notes
    of earlier releases say only when their snapshots were made."""
    stamps = [s["timestamp-ms"] for s in note.get("snapshots", ())]
    known = table.metadata
    at_ms, number = int(note.get("last-updated-ms", max(stamps, default=0))), int(note.get("last-sequence-number", 0))
    return at_ms > known.last_updated_ms or number > known.last_sequence_number


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
