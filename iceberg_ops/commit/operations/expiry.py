"""A complete expiry: write a note, swap, delete the files, delete the note; and finish what a crash left half done.

Before the swap a note names the snapshots that may be removed, with everything needed to find their files after the metadata no
longer has them. After the swap the table is loaded again, the files that only the removed snapshots reached are found, and the gate
(``iceberg_ops.deletion``) deletes them. A run that dies in between leaves the note: the next run finishes it. If the gate keeps
files (a job holds a lease on a removed snapshot), the note stays as well, so that the next expiry deletes them."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.outcomes import incomplete_if_interrupted
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry_notes import ExpiryNote, read_expiry_note
from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.deletion.bulk import Delete
from iceberg_ops.deletion.expired import UnreachedFiles, unreached_files
from iceberg_ops.deletion.gate import (
    NOTHING,
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
from iceberg_ops.errors import (
    BadInputError,
    CommitStateUnknownError,
    CorruptTableError,
    IcebergOpsError,
    IncompleteError,
    RetryableError,
    ValidationError,
)
from iceberg_ops.io.locations import folder_identity, identity_under, is_within
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.updates import RemoveSnapshots
from iceberg_ops.table.metadata_files import ledger_files
from iceberg_ops.table.own_folders import folders_of, former_folders
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

FOLDER = "iceberg-ops/expiry"
ABANDONED_AFTER_MS = 24 * 3600 * 1000
Cleanup = Literal["all", "metadata-only", "none"]


OnClean = Callable[[UnreachedFiles, Deletion], object]
"""Receives the files that an interrupted expiry had left, and the result of their deletion."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedExpiries:
    """The number of earlier runs that were finished, and the notes of those that cannot be."""

    finished: int = 0
    kept: tuple[KeptFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiryResult:
    """``files`` are those that only expired snapshots reached; ``deletion`` is the result of their deletion (empty if ``clean`` was
    none). ``resumed`` is the result for earlier runs that had died."""

    committed: Committed
    files: UnreachedFiles
    deletion: Deletion = field(default_factory=Deletion)
    resumed: ResumedExpiries = ResumedExpiries()


def expire(
    catalog: Catalog,
    table: Table,
    operation: ExpireSnapshots,
    *,
    clean: Cleanup = "all",
    delete: Delete = in_bulk,
    on_commit: Callable[[Committed], object] = lambda _: None,
    on_resumed: OnClean = lambda *_: None,
) -> ExpiryResult:
    """Expire, and delete with ``delete``. ``on_commit`` receives the commit before any file is deleted, because deletion may still
    fail; ``on_resumed`` receives the deletions for earlier runs, before the commit.

    Raises the errors of ``commit``, and CorruptTableError if a damaged retained snapshot hides which files may be deleted (then
    none is deleted). Damaged files of expired snapshots are kept and reported. After the commit, an interrupt, a store that does
    not answer and a table that was renamed, dropped or swapped become an IncompleteError: the next expiry deletes the files."""
    resumed = resume_expiry(catalog, table, delete=delete, on_clean=on_resumed) if clean == "all" else ResumedExpiries()
    before = _reloaded(catalog, table)
    note = write_intent(before, operation)
    try:
        committed = commit(catalog, before, operation, just_loaded=True, on_commit=on_commit)
    except CommitStateUnknownError:
        raise
    except IcebergOpsError:
        delete_note(table.io, note)
        raise
    with _incomplete_once_expired(before, committed):
        return _cleaned(catalog, before, committed, clean, delete, note, resumed)


@contextmanager
def _incomplete_once_expired(before: Table, committed: Committed) -> Iterator[None]:
    """Prevents that an error after the commit says that nothing was changed."""
    if committed.already_committed or committed.table is before:
        yield
        return
    done = (
        f"snapshots of table {before.name} have expired, but not all of their files are deleted; the next expiry deletes the rest"
    )
    with incomplete_if_interrupted(done):
        try:
            yield
        except (RetryableError, BadInputError, ValidationError) as e:
            raise IncompleteError(f"{done}: {e}") from e


def _cleaned(
    catalog: Catalog,
    before: Table,
    committed: Committed,
    clean: Cleanup,
    delete: Delete,
    note: str | None,
    resumed: ResumedExpiries,
) -> ExpiryResult:
    """Delete the files that only the expired snapshots reached, and the ``note`` after all of them are deleted."""
    after = _reloaded(catalog, committed.table)
    gone = [s for s in before.metadata.snapshots if s.snapshot_id not in after.metadata.snapshots_by_id]
    statistics = [path for _, path in _statistics_files(before, {s.snapshot_id for s in gone})]
    files = unreached_files(after, gone, statistics)
    reload = partial(catalog.load_table, before.identifier[1:])
    deletion = _delete(after, reload, files, clean, delete)
    delete_unreferenced(after, reload, _outlived_ledgers(before, after), proven_for=after.metadata)
    if not deletion.left and clean != "metadata-only":
        delete_note(before.io, note)
    return ExpiryResult(committed=committed, files=files, deletion=deletion, resumed=resumed)


def _outlived_ledgers(before: Table, after: Table) -> list[str]:
    """Ledger files of the table that its metadata no longer names. A file outside the table's folders may belong to another table,
    of which this table is a copy."""
    identity = identity_under(after.io)
    folder_ids = [folder_identity(identity, folder) for folder in (*folders_of(before), *folders_of(after), *former_folders(after))]
    gone = set(ledger_files(before.metadata)) - set(ledger_files(after.metadata))
    return sorted(file for file in gone if any(is_within(identity(file), folder) for folder in folder_ids))


def _reloaded(catalog: Catalog, table: Table) -> Table:
    """The current table; ``table`` itself if the catalog's answer is older (a cache, a replica): snapshots missing in an older
    answer have not expired, but the gate would believe so. Raises ValidationError if another table has its name."""
    now = catalog.load_table(table.identifier[1:])
    check_same_table(table, now)
    return table if is_older(now, table) else now


def write_intent(table: Table, operation: ExpireSnapshots) -> str | None:
    """Write a note of the snapshots that are about to be removed; None if there are none. If a later attempt removes one more, its
    files are left to orphan removal."""
    ids = {i for update in operation.removals(table) if isinstance(update, RemoveSnapshots) for i in update.snapshot_ids}
    if not ids:
        return None
    metadata = table.metadata
    note = ExpiryNote(
        created_at_ms=time.time_ns() // 1_000_000,
        table_uuid=metadata.table_uuid,
        metadata_location=table.metadata_location,
        last_updated_ms=metadata.last_updated_ms,
        last_sequence_number=metadata.last_sequence_number,
        snapshots=tuple(s for s in metadata.snapshots if s.snapshot_id in ids),
        statistics=tuple(_statistics_files(table, ids)),
        table_location=table.location,
        metadata_log=tuple((entry.metadata_file, entry.timestamp_ms) for entry in metadata.metadata_log),
    )
    location = f"{notes_folder(table, FOLDER)}/{uuid.uuid4()}.json"
    table.io.write(location, note.to_json())
    return location


def resume_expiry(
    catalog: Catalog, table: Table, *, now_ms: int | None = None, delete: Delete = in_bulk, on_clean: OnClean = lambda *_: None
) -> ResumedExpiries:
    """Delete the files that expired snapshots of earlier runs left behind; ``on_clean`` receives the result for each run. A note
    stays while a damaged retained snapshot hides which files may be deleted: that snapshot may be about to expire. A damaged note
    causes no deletion, and stays as well.

    A note whose snapshots are all still there belongs to a run that has not swapped yet; it is deleted after a day. A note that is
    later than the catalog's answer waits for the next run. A note of another table in the same place is left to that table."""
    finished, kept, after = 0, list[KeptFile](), table
    now = time.time_ns() // 1_000_000 if now_ms is None else now_ms
    notes = [info.location for info in noted(table, FOLDER)]
    for location in notes:
        after = _reloaded(catalog, after)
        try:
            note = read_expiry_note(table.io, location)
            if note is None or not note.belongs_to(after) or _is_later(note, after):
                continue
            gone, statistics = _gone(after, note)
            files = unreached_files(after, gone, statistics) if gone else None
        except CorruptTableError as e:
            log.warning("%s: files of snapshots that expired earlier are kept, because something is damaged: %s", table.name, e)
            kept.append(KeptFile(location, f"the expiry that it records cannot be finished: {e}"))
            continue
        if files is not None:
            deletion = _delete(after, partial(catalog.load_table, table.identifier[1:]), files, "all", delete)
            on_clean(files, deletion)
            if not deletion.left:
                delete_note(table.io, location)
                finished += 1
        elif now - note.created_at_ms > ABANDONED_AFTER_MS:
            delete_note(table.io, location)
    return ResumedExpiries(finished=finished, kept=tuple(kept))


def _delete(after: Table, reload: Reload, files: UnreachedFiles, clean: Cleanup, delete: Delete) -> Deletion:
    """Content first. While any of it stays, the files that lead to it stay too: only through them it is found again."""
    phases = {"all": (files.content, files.metadata), "metadata-only": (files.metadata,), "none": ()}
    done = NOTHING
    for phase in phases[clean]:
        done += delete_unreferenced(after, reload, phase, proven_for=after.metadata, delete=delete)
        if done.left:
            break
    return done + Deletion(kept=tuple(KeptFile(location, f"it is damaged: {error}") for location, error in files.damaged))


def _is_later(note: ExpiryNote, table: Table) -> bool:
    """Prevents treating snapshots as expired that ``table`` does not have yet: it is older than the state that the note's writer
    saw."""
    known = table.metadata
    return note.last_updated_ms > known.last_updated_ms or note.last_sequence_number > known.last_sequence_number


def _gone(after: Table, note: ExpiryNote) -> tuple[list[Snapshot], list[str]]:
    """The note's snapshots that are no longer in the table, and their statistics files."""
    known = after.metadata.snapshots_by_id
    gone = [s for s in note.snapshots if s.snapshot_id not in known]
    return gone, [path for snapshot_id, path in note.statistics if snapshot_id not in known]


def _statistics_files(table: Table, snapshot_ids: set[int]) -> list[tuple[int, str]]:
    """(snapshot id, location) of the statistics files of those snapshots."""
    files = [(s.snapshot_id, s.statistics_path) for s in table.metadata.statistics if s.snapshot_id in snapshot_ids]
    return files + [
        (s.snapshot_id, s.statistics_path) for s in table.metadata.partition_statistics if s.snapshot_id in snapshot_ids
    ]
