"""Deletes files of a table after it is proven that the current table does not refer to them.

The table is loaded again from its catalog for every deletion. The proof fails, and nothing is deleted, if

- the name now belongs to another table (also to a copy of the table) or to none (two tables may swap names while a job runs);
- a lease in force covers the file, or names a snapshot that the table no longer has: its job may still read it;
- the catalog's answer is older than the state that the caller has already seen;
- any retained snapshot, statistics entry or metadata log entry refers to the file (``references``);
- the outcome of a commit of these files is unknown: the commit may still take effect.

Many files are deleted in batches. Before each batch the leases are read again and the deletion note is renewed; if the note had
expired, the whole proof is repeated. Files that stay are returned with the reason. The store does the deletion; a file that is
already gone counts as deleted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from iceberg_ops.deletion.bulk import Delete
from iceberg_ops.deletion.leases import Lease, active_leases
from iceberg_ops.deletion.notes import DeletionNote, deletion_noted
from iceberg_ops.deletion.references import references, without_referenced
from iceberg_ops.errors import CommitFailedError, CommitStateUnknownError, IcebergOpsError, NoSuchTableError, ValidationError
from iceberg_ops.io.file_io import DeleteFailure, FileIO
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.same_table import difference
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

Reload = Callable[[], Table]
"""Loads the table from its catalog. Raises NoSuchTableError, CatalogUnavailableError, CorruptTableError."""

DELETED_BETWEEN_LOOKS = 250
"""Files deleted between two reads of the leases. If each delete takes 28 seconds, the deletion note expires in this time."""


def in_bulk(io: FileIO, locations: Sequence[str]) -> list[DeleteFailure]:
    """Delete in the way that is best for the store."""
    return io.delete_many(locations)


@dataclass(frozen=True, slots=True)
class KeptFile:
    """A file that was not deleted because the proof failed, and why."""

    location: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """The result for each candidate: it is in exactly one of the first three fields. ``undone_by``: for a table that was dropped
    without its files, the metadata file that brings it back if it is registered; None if the catalog does not say it."""

    deleted: tuple[str, ...] = ()
    kept: tuple[KeptFile, ...] = ()
    failures: tuple[DeleteFailure, ...] = ()
    undone_by: str | None = None

    @property
    def left(self) -> tuple[str, ...]:
        """Files that still exist, for the orphan job."""
        return (*(k.location for k in self.kept), *(f.location for f in self.failures))

    def __add__(self, other: Deletion) -> Deletion:
        return Deletion(
            deleted=(*self.deleted, *other.deleted), kept=(*self.kept, *other.kept), failures=(*self.failures, *other.failures)
        )


NOTHING = Deletion()


def delete_unreferenced(
    table: Table,
    reload: Reload,
    candidates: Iterable[str],
    *,
    proven_for: TableMetadata | None = None,
    delete: Delete = in_bulk,
) -> Deletion:
    """Delete those ``candidates`` that the current table does not refer to.

    ``table`` is the table as the caller last saw it. ``proven_for`` is a state of it that is known not to refer to any candidate.
    Raises CorruptTableError and CatalogUnavailableError if the proof cannot be made; nothing is deleted then.
    """
    locations = list(candidates)
    return _deleted(locations, _Proof(table, reload, proven_for, ""), delete, noted=True) if locations else NOTHING


def discard_staged(
    table: Table,
    reload: Reload,
    staged: Iterable[str],
    *,
    mark: str = "",
    after: BaseException | None = None,
    seen: Table | None = None,
) -> Deletion:
    """Delete files that a run wrote for a commit that did not happen. No other run uses their names.

    ``table`` is the table before the files were written. ``seen`` is the table as the run last saw it, if the run has committed
    since: an older answer of the catalog proves nothing about files that it committed. ``mark`` is in the run's own lease.
    ``after`` is the error that ended the run; after an unknown outcome every file stays. An error of the proof is not raised,
    because it would hide the first error: the files stay."""
    locations = list(dict.fromkeys(staged))
    if not locations:
        return NOTHING
    if (unknown := outcome_unknown(after)) is not None:
        return Deletion(kept=tuple(_kept(locations, f"the outcome of its commit is unknown: {unknown}")))
    try:
        return _deleted(locations, _Proof(seen or table, reload, table.metadata, mark), in_bulk, noted=False)
    except Exception as e:  # noqa: BLE001 - whatever prevents the proof, the files stay; the caller's own error is the one to see
        log.warning("%d files of an uncommitted run on %s are left for remove_orphan_files: %s", len(locations), table.name, e)
        return Deletion(kept=tuple(_kept(locations, f"it could not be checked whether the table refers to it: {e}")))


def check_same_table(table: Table, now: Table) -> None:
    """Raise ValidationError if ``now``, which was loaded under the name of ``table``, is another table (two tables swapped
    names)."""
    if (why := difference(table, now)) is not None:
        raise ValidationError(f"{_another_table(table, why)}; no file was deleted")


def _another_table(table: Table, why: str) -> str:
    return f"{table.name} is now a different table: {why}"


def outcome_unknown(error: BaseException | None) -> CommitStateUnknownError | None:
    """The unknown outcome that ``error`` is or was caused by. None if there is none, or if the committer has later proven that the
    swap did nothing: it then raises a CommitFailedError whose cause is the unknown outcome."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, CommitStateUnknownError):
            return error
        if isinstance(error, CommitFailedError) and isinstance(error.__cause__, CommitStateUnknownError):
            return None
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


@dataclass(slots=True)
class _Proof:
    """The proof of one call that files may be deleted. ``table`` is the table as last seen. ``mark`` is in the caller's own lease,
    which does not count."""

    table: Table
    reload: Reload
    proven_for: TableMetadata | None
    mark: str

    def of(self, locations: Sequence[str]) -> tuple[list[str], list[KeptFile]]:
        """Files that may be deleted, and the others; the table is loaded again."""
        try:
            now = self.reload()
        except NoSuchTableError as e:
            return [], _kept(locations, f"the table is gone: {e}")
        if (why := difference(self.table, now)) is not None:
            return [], _kept(locations, _another_table(self.table, why))
        if is_older(now, self.table):
            return [], _kept(locations, "the catalog answered with an older state of the table")
        self.table = now  # The folders of leases may have changed as well.
        leases = self.leases()
        if (reader := _reader_of_lost_snapshot(leases, now, self.proven_for)) is not None:
            return [], _kept(locations, reader)
        free, covered = _not_covered(locations, leases, self.table.io)
        unreferenced, referenced = without_referenced(free, references(now, self.proven_for), self.table.io)
        return unreferenced, [*covered, *(KeptFile(location, reason) for location, reason in referenced)]

    def of_rest(self, rest: Sequence[str], note: DeletionNote | None) -> tuple[list[str], list[KeptFile]]:
        """The same for files whose proof is older than the deletion of others. Only the leases are checked again; if an import
        could have missed the deletion note, everything is. An error keeps the files and is not raised: other files are deleted
        already, and the caller must report them."""
        try:
            if note is not None and not note.renew():
                return self.of(rest)
            return _not_covered(rest, self.leases(), self.table.io)
        except (IcebergOpsError, OSError) as e:
            return [], _kept(rest, f"it could not be checked whether it is still unreferenced: {e}")

    def leases(self) -> list[Lease]:
        return [lease for lease in active_leases(self.table) if not self.mark or self.mark not in lease.marks]


def _deleted(locations: Sequence[str], proof: _Proof, delete: Delete, *, noted: bool) -> Deletion:
    """``noted``: other jobs may know these locations, so a deletion note is written before the leases are read."""
    with deletion_noted(proof.table) if noted else nullcontext() as note:
        rest, kept = proof.of(locations)
        done: list[str] = []
        failures: list[DeleteFailure] = []
        while rest:
            batch, rest = rest[:DELETED_BETWEEN_LOOKS], rest[DELETED_BETWEEN_LOOKS:]
            failures += delete(proof.table.io, batch)
            done += batch
            if rest:
                rest, more = proof.of_rest(rest, note)
                kept += more
    failed = {failure.location for failure in failures}
    return Deletion(deleted=tuple(x for x in done if x not in failed), kept=tuple(kept), failures=tuple(failures))


def is_older(now: Table, known: Table) -> bool:
    """Prevents a proof by a stale answer (a cache, a replica): timestamps and sequence numbers of a table never decrease."""
    a, b = now.metadata, known.metadata
    return a.last_updated_ms < b.last_updated_ms or a.last_sequence_number < b.last_sequence_number


def _reader_of_lost_snapshot(leases: Iterable[Lease], now: Table, proven_for: TableMetadata | None) -> str | None:
    """Prevents deleting files of a job whose snapshot expired while the job took its lease: it is no longer known which files that
    snapshot refers to. Files that no snapshot up to ``proven_for`` refers to are safe."""
    for lease in leases:
        lost = lease.snapshot_id
        if lost is None or lost in now.metadata.snapshots_by_id or (proven_for and lost in proven_for.snapshots_by_id):
            continue
        return f"run {lease.holder} holds a lease on snapshot {lost}, which has expired"
    return None


def _not_covered(locations: Sequence[str], leases: Sequence[Lease], io: FileIO) -> tuple[list[str], list[KeptFile]]:
    if not leases:
        return list(locations), []
    free: list[str] = []
    covered: list[KeptFile] = []
    for location in locations:
        holder = next((lease.holder for lease in leases if lease.covers(location, io)), None)
        if holder is None:
            free.append(location)
        else:
            covered.append(KeptFile(location, f"run {holder} is working on it"))
    return free, covered


def _kept(locations: Iterable[str], reason: str) -> list[KeptFile]:
    return [KeptFile(location, reason) for location in locations]
