"""The changes between two snapshots, as tasks: appended files, or a changelog of added and removed rows.

A range of snapshots is ``(from, to]`` along the parents of ``to``; ``from`` None means from the beginning. ``replace`` snapshots
change files and no rows, so they are left out (SNAP-20). Unlike in Iceberg Java, deletes are part of the changelog: a file whose
deletes changed appears with the deletes before and after, and its removed rows are those live before and not after. Rows that a
copy-on-write rewrite carried over appear as removed and as added; their values are needed to detect them (``iceberg_ops.data.
changelog``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from iceberg_ops.errors import NoSuchSnapshotError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.scan.planning import delete_index, matching_entries
from iceberg_ops.scan.spec_filter import SpecFilters
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot, SnapshotOperation
from iceberg_ops.table.former_columns import table_with_schema
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table


class ChangeKind(str, Enum):
    """The kind of change in a changelog task."""

    ADDED_FILE = "added-file"
    REMOVED_FILE = "removed-file"
    CHANGED_DELETES = "changed-deletes"


@dataclass(frozen=True, slots=True)
class ChangelogTask:
    """Rows that one snapshot added or removed. ``ordinal`` counts snapshots from 0, oldest first.

    ADDED_FILE: the live rows of ``task`` were added. REMOVED_FILE: they were removed. CHANGED_DELETES: rows live under
    ``task.deletes`` and not under ``deletes_after`` were removed; in the opposite case they were added.
    """

    kind: ChangeKind
    ordinal: int
    snapshot_id: int
    task: FileScanTask
    deletes_after: tuple[DeleteFile, ...] = ()


def snapshots_between(table: Table, from_snapshot_id: int | None, to_snapshot_id: int | None = None) -> list[Snapshot]:
    """The snapshots in ``(from, to]``, oldest first; ``from`` None is the beginning, ``to`` None the current one.

    Raises NoSuchSnapshotError if ``from`` is not an ancestor of ``to``, or if history between them, or from the beginning, has
    expired.
    """
    metadata = table.metadata
    to = metadata.current_snapshot_id if to_snapshot_id is None else metadata.snapshot(to_snapshot_id).snapshot_id
    newest_first: list[Snapshot] = []
    for snapshot in metadata.ancestors(to):
        if snapshot.snapshot_id == from_snapshot_id:
            return newest_first[::-1]
        newest_first.append(snapshot)
    # A start that has itself expired is valid as long as everything after it exists. (The first snapshot of all has no parent.)
    if (newest_first[-1].parent_snapshot_id if newest_first else None) == from_snapshot_id:
        return newest_first[::-1]
    if from_snapshot_id is None:
        oldest = newest_first[-1]
        raise NoSuchSnapshotError(
            f"snapshot {oldest.parent_snapshot_id} of table {metadata.location} has been expired: what snapshot "
            f"{oldest.snapshot_id} and those before it changed is not known; only changes after it are"
        )
    if to is None:
        raise NoSuchSnapshotError(f"table {metadata.location} has no snapshot {from_snapshot_id}: it has no snapshot yet")
    raise NoSuchSnapshotError(
        f"snapshot {from_snapshot_id} is not an ancestor of {to} in table {metadata.location}, or has been expired"
    )


def plan_appends(
    table: Table, *, from_snapshot_id: int | None, to_snapshot_id: int | None = None, where: Expression = ALWAYS_TRUE
) -> list[FileScanTask]:
    """Files that ``append`` snapshots of the range added (Java: IncrementalAppendScan); no deletes are attached."""
    filters = SpecFilters(bind(table.schema, where), table)
    tasks = []
    for snapshot in snapshots_between(table, from_snapshot_id, to_snapshot_id):
        if snapshot.operation == SnapshotOperation.APPEND:
            tasks += [_task(e, (), filters) for e in _changed(table, snapshot, filters) if e.status is EntryStatus.ADDED]
    return tasks


def plan_changelog(
    table: Table,
    *,
    from_snapshot_id: int | None,
    to_snapshot_id: int | None = None,
    where: Expression = ALWAYS_TRUE,
    schema: Schema | None = None,
) -> list[ChangelogTask]:
    """Everything the snapshots of the range added and removed, oldest first. ``where`` (bound to ``schema``, None: the current
    one) selects files, and rows by residuals. Raises NoSuchSnapshotError if needed history has expired."""
    table = table_with_schema(table, schema or table.schema)
    filters = SpecFilters(bind(schema or table.schema, where), table)
    chosen = [s for s in snapshots_between(table, from_snapshot_id, to_snapshot_id) if s.operation != SnapshotOperation.REPLACE]
    tasks: list[ChangelogTask] = []
    for ordinal, snapshot in enumerate(chosen):
        tasks += _changes(table, snapshot, ordinal, filters)
    return tasks


def _changes(table: Table, snapshot: Snapshot, ordinal: int, filters: SpecFilters) -> Iterator[ChangelogTask]:
    """Compares files and deletes with the parent's, whatever the statuses of the entries are: not every writer keeps removed files
    as DELETED entries."""
    old, new = manifests_of(table, _parent_snapshot(table, snapshot)), manifests_of(table, snapshot)
    before, after = delete_index(table, old, filters), delete_index(table, new, filters)
    only_old, only_new = _live_entries(table, _only_in(old, new), filters), _live_entries(table, _only_in(new, old), filters)
    removed, added = _without(only_old, only_new), _without(only_new, only_old)
    for kind, index, entries in ((ChangeKind.REMOVED_FILE, before, removed), (ChangeKind.ADDED_FILE, after, added)):
        for entry in entries:
            deletes = index.for_data_file(entry.data_file, entry.sequence_number or 0)
            yield ChangelogTask(kind, ordinal, snapshot.snapshot_id, _task(entry, deletes, filters))
    if any(m.content is ManifestContent.DELETES for m in (*_only_in(old, new), *_only_in(new, old))):
        for entry in _without(_live_entries(table, new, filters), added):
            number = entry.sequence_number or 0
            olds, news = before.for_data_file(entry.data_file, number), after.for_data_file(entry.data_file, number)
            if _keys(olds) != _keys(news):
                task = _task(entry, olds, filters)
                yield ChangelogTask(ChangeKind.CHANGED_DELETES, ordinal, snapshot.snapshot_id, task, news)


def _parent_snapshot(table: Table, snapshot: Snapshot) -> Snapshot | None:
    parent = table.metadata.snapshots_by_id.get(snapshot.parent_snapshot_id or 0)
    if parent is None and snapshot.parent_snapshot_id is not None:
        raise NoSuchSnapshotError(
            f"snapshot {snapshot.parent_snapshot_id} of table {table.metadata.location} has been expired: what snapshot "
            f"{snapshot.snapshot_id} changed is not known"
        )
    return parent


def _only_in(these: Iterable[ManifestFile], others: Iterable[ManifestFile]) -> list[ManifestFile]:
    known = {m.manifest_path for m in others}
    return [m for m in these if m.manifest_path not in known]


def _live_entries(table: Table, manifests: Iterable[ManifestFile], filters: SpecFilters) -> list[ManifestEntry]:
    return list(matching_entries(table, manifests, ManifestContent.DATA, filters))


def _without(these: Iterable[ManifestEntry], others: Iterable[ManifestEntry]) -> list[ManifestEntry]:
    """``these``, with each of ``others`` removed once: the rows of a path that is live twice exist twice, and the deletes that
    apply to an entry depend on its data sequence number."""
    left = Counter((e.data_file.file_path, e.sequence_number or 0) for e in others)
    kept = []
    for entry in these:
        key = entry.data_file.file_path, entry.sequence_number or 0
        if left[key]:
            left[key] -= 1
        else:
            kept.append(entry)
    return kept


def _keys(deletes: Iterable[DeleteFile]) -> set[tuple[str, int | None]]:
    return {(d.file_path, d.data_file.content_offset) for d in deletes}


def _is_change_of(entry: ManifestEntry, snapshot: Snapshot) -> bool:
    return entry.status is not EntryStatus.EXISTING and entry.snapshot_id == snapshot.snapshot_id


def _changed(table: Table, snapshot: Snapshot, filters: SpecFilters) -> Iterator[ManifestEntry]:
    """Data files that the snapshot itself added or removed, by its own manifests."""
    for manifest in manifests_of(table, snapshot):
        if manifest.content is not ManifestContent.DATA or manifest.added_snapshot_id != snapshot.snapshot_id:
            continue
        judge = filters.of_manifest(manifest)
        for entry in entries_of(table, manifest):
            if _is_change_of(entry, snapshot) and judge.keeps(entry.data_file):
                yield entry


def _task(entry: ManifestEntry, deletes: tuple[DeleteFile, ...], filters: SpecFilters) -> FileScanTask:
    file = entry.data_file
    left = filters.of(file.spec_id).residual(file.partition)
    return FileScanTask(file, entry.sequence_number or 0, entry.file_sequence_number, deletes, left)


def with_deletes_after(change: ChangelogTask) -> FileScanTask:
    """The task that reads the rows that a CHANGED_DELETES task left alive."""
    return replace(change.task, deletes=change.deletes_after)
