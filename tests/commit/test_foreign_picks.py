"""A picked snapshot of another engine: its manifests decide what it added and removed, not its counts and not its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.refs import SetCurrentSnapshot
from iceberg_ops.commit.operations.replace_partitions import REPLACE_PARTITIONS
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.changed_entries import snapshot_changes
from iceberg_ops.errors import NotPublishableError
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.updates import AddSnapshot
from iceberg_ops.table.manifests import manifests_of, write_manifest_list
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, equality_deletes, live_paths, make_catalog, make_table

EU = ("eu",)
A, LATE, NEW = data_file("a", partition=EU), data_file("late", partition=("us",)), data_file("new", partition=EU)
DELETES = equality_deletes("d", partition=EU)


def staged_by_another(catalog: Any, table: Table, operation: Any, change: Callable[[Table, AddSnapshot], Any]) -> int:
    """The id of a snapshot that ``operation`` stages, changed on its way to the catalog; main then gets another file."""
    ours = catalog.commit_table

    def theirs(seen: Table, needed: Any, updates: Any) -> Any:
        return ours(seen, needed, [change(seen, u) if isinstance(u, AddSnapshot) else u for u in updates])

    catalog.commit_table = theirs
    made = commit(catalog, table, replace(operation, staged=True)).snapshot
    catalog.commit_table = ours
    assert made is not None
    commit(catalog, table, AppendFiles(added=(LATE,)))
    return made.snapshot_id


def with_a_count_too_many(table: Table, update: AddSnapshot) -> AddSnapshot:
    snapshot = update.snapshot
    listed = [
        replace(m, added_files_count=(m.added_files_count or 0) + 1) if m.added_snapshot_id == snapshot.snapshot_id else m
        for m in manifests_of(table, snapshot)
    ]
    again = write_manifest_list(
        table.metadata,
        table.io,
        listed,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
    )
    return replace(update, snapshot=replace(snapshot, manifest_list=again.location))


def named(**summary: str) -> Callable[[Table, AddSnapshot], AddSnapshot]:
    return lambda table, update: replace(update, snapshot=replace(update.snapshot, summary=summary))


def begun(version: int) -> tuple[Any, Table]:
    catalog = make_catalog()
    table = make_table(catalog, version=version, partitioned=True)
    return catalog, commit(catalog, table, AppendFiles(added=(A,))).table


@pytest.mark.parametrize("version", [1, 2, 3])
def test_an_append_that_counts_a_file_too_many_is_picked_once(version: int) -> None:
    catalog, table = begun(version)
    picked = staged_by_another(catalog, table, AppendFiles(added=(NEW,)), with_a_count_too_many)
    done = commit(catalog, table, CherryPick(snapshot_id=picked))
    assert added_by(done.table, done.snapshot) == ["new"]
    assert live_paths(done.table) == {"a", "late", "new"}


def added_by(table: Table, snapshot: Snapshot | None) -> list[str]:
    assert snapshot is not None
    return [e.data_file.file_path for e in snapshot_changes(table, snapshot, ManifestContent.DATA, EntryStatus.ADDED)]


MISNAMED: dict[str, tuple[Any, dict[str, str], str]] = {
    "an append of deletes": (RowDelta(added_deletes=(DELETES,), isolation=None), {"operation": "append"}, "added deletes, d"),
    "an append with rows and deletes": (
        RowDelta(added_data=(NEW,), added_deletes=(DELETES,), isolation=None), {"operation": "append"}, "added deletes, d",
    ),
    "an append that replaces a file": (
        OverwriteFiles(removed=(A,), added=(NEW,), isolation=None), {"operation": "append"}, "called an append, and removed a",
    ),
    "a partition overwrite with deletes": (
        RowDelta(removed_data=(A,), added_data=(NEW,), added_deletes=(DELETES,), isolation=None),
        {"operation": "overwrite", REPLACE_PARTITIONS: "true"}, "added deletes, d",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISNAMED)
def test_what_is_more_than_an_append_or_overwrite_is_not_picked_whatever_it_is_called(name: str) -> None:
    """Its deletes would be lost, and rows of the replaced file that were deleted since would come back."""
    operation, summary, why = MISNAMED[name]
    catalog, table = begun(2)
    picked = staged_by_another(catalog, table, operation, named(**summary))
    before = catalog.load_table(IDENTIFIER)
    with pytest.raises(NotPublishableError, match=why):
        commit(catalog, before, CherryPick(snapshot_id=picked))
    assert live_paths(catalog.load_table(IDENTIFIER)) == live_paths(before)


@pytest.mark.parametrize("name", MISNAMED)
def test_it_is_published_where_the_branch_has_not_moved(name: str) -> None:
    operation, summary, _ = MISNAMED[name]
    catalog, table = begun(2)
    picked = staged_by_another(catalog, table, operation, named(**summary))
    commit(catalog, table, SetCurrentSnapshot(snapshot_id=table.metadata.current_snapshot_id))
    done = commit(catalog, table, CherryPick(snapshot_id=picked)).table
    assert done.metadata.current_snapshot_id == picked
