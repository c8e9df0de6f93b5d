"""A file that another writer can add as well (an import adds files in their place) is added to a table once, on whatever branch.

An import checks every retained snapshot of the table when it begins (``actions.add_files``); this module checks later commits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iceberg_ops.commit.protocol.changed_entries import snapshot_changes
from iceberg_ops.commit.protocol.history import ANY_OPERATION, Change, History, conflict
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent
from iceberg_ops.table.table import Table


def no_file_added_meanwhile(table: Table, history: History, added: Sequence[DataFile]) -> None:
    """Prevents rows that are there twice, now or after a branch is published: another commit added one of the files concurrently,
    to this branch or to another (two imports of one folder at once; Java checks only the table's state when the import begins)."""
    identities = {history.identity(f.file_path) for f in added}
    for snapshot, entry in _added(table, history):
        if history.identity(entry.data_file.file_path) in identities:
            path = entry.data_file.file_path
            raise conflict(f"Cannot add a file that was added concurrently: {path}", snapshot, entry.data_file, (path,))


def _added(table: Table, history: History) -> Iterator[Change]:
    yield from history.added_data(ANY_OPERATION, lambda m: True)
    start = None if history.start is None else history.start.snapshot_id
    known = {s.snapshot_id for s in (*history.snapshots, *table.metadata.ancestors(start))}
    for snapshot in table.metadata.snapshots:
        if snapshot.snapshot_id not in known and snapshot.snapshot_id not in history.callers.snapshots_by_id:
            for entry in snapshot_changes(table, snapshot, ManifestContent.DATA, EntryStatus.ADDED):
                yield snapshot, entry
