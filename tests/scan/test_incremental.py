"""Changes between snapshots: SNAP-20, MANIFEST-50, SCAN-09 to SCAN-11 on both sides of a change."""

from __future__ import annotations

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.errors import NoSuchSnapshotError
from iceberg_ops.expressions.predicates import gt
from iceberg_ops.scan.incremental import ChangelogTask, plan_appends, plan_changelog, snapshots_between, with_deletes_after
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.table.table import Table
from tests.builders import data_file, make_catalog, make_table, position_deletes
from tests.scan.test_planning import append


def current(table: Table) -> int:
    return table.metadata.current_snapshot_id or 0


def history() -> tuple[Table, list[int]]:
    """append /a; append /b; delete rows of /a; rewrite /b to /b2; overwrite /a by /c. The snapshot ids."""
    catalog = make_catalog()
    table = append(catalog, make_table(catalog), "/a", ids=(1, 5))
    ids = [current(table)]
    table = append(catalog, table, "/b", ids=(6, 9))
    ids.append(current(table))
    table = commit(catalog, table, RowDelta(added_deletes=(position_deletes("/p", "/a"),), starting_snapshot_id=ids[-1])).table
    ids.append(current(table))
    live = {t.file_path: t.data_file for t in plan(table, Scan()).tasks}
    rewrite = RewriteFiles(removed_data=(live["/b"],), added_data=(data_file("/b2", ids=(6, 9)),), starting_snapshot_id=ids[-1])
    table = commit(catalog, table, rewrite).table
    ids.append(current(table))
    change = OverwriteFiles(added=(data_file("/c", ids=(1, 5)),), removed=(live["/a"],), starting_snapshot_id=ids[-1])
    table = commit(catalog, table, change).table
    return table, [*ids, current(table)]


def told(changes: list[ChangelogTask]) -> list[tuple[int, str, str, list[str]]]:
    return [(c.ordinal, c.kind.value, c.task.file_path, [d.file_path for d in c.task.deletes]) for c in changes]


def test_a_range_leaves_its_start_out_and_takes_its_end_in() -> None:
    table, ids = history()
    assert [s.snapshot_id for s in snapshots_between(table, ids[0], ids[2])] == ids[1:3]
    assert [s.snapshot_id for s in snapshots_between(table, None)] == ids
    assert snapshots_between(table, ids[-1]) == []
    with pytest.raises(NoSuchSnapshotError, match="is not an ancestor"):
        snapshots_between(table, ids[3], ids[1])


def test_a_beginning_that_has_expired_is_no_beginning_without_rows() -> None:
    """Also where the oldest snapshot that is left is a rewrite, which changes no rows: those before it added them."""
    catalog = make_catalog()
    table = append(catalog, make_table(catalog), "/a", ids=(1, 5))
    first = current(table)
    (live,) = [t.data_file for t in plan(table, Scan()).tasks]
    rewrite = RewriteFiles(removed_data=(live,), added_data=(data_file("/a2", ids=(1, 5)),), starting_snapshot_id=first)
    table = commit(catalog, table, rewrite).table
    second = current(table)
    table = append(catalog, table, "/b", ids=(6, 9))
    assert [t.task.file_path for t in plan_changelog(table, from_snapshot_id=None)] == ["/a", "/b"]
    table = commit(catalog, table, ExpireSnapshots(snapshot_ids=(first,))).table
    for plan_changes in (plan_changelog, plan_appends):
        with pytest.raises(NoSuchSnapshotError, match=f"snapshot {first} of table .* has been expired: what snapshot {second}"):
            plan_changes(table, from_snapshot_id=None)
    assert [t.task.file_path for t in plan_changelog(table, from_snapshot_id=first)] == ["/b"]
    assert [t.file_path for t in plan_appends(table, from_snapshot_id=second)] == ["/b"]


def test_appends_are_the_files_of_append_snapshots_only() -> None:
    table, ids = history()
    assert [t.file_path for t in plan_appends(table, from_snapshot_id=None)] == ["/a", "/b"]
    assert [t.file_path for t in plan_appends(table, from_snapshot_id=ids[0])] == ["/b"]
    assert [t.file_path for t in plan_appends(table, from_snapshot_id=None, where=gt("id", 5))] == ["/b"]


def test_a_changelog_has_added_files_changed_deletes_and_removed_files_but_no_rewrites() -> None:
    table, ids = history()
    found = plan_changelog(table, from_snapshot_id=None)
    assert told(found[:3]) == [(0, "added-file", "/a", []), (1, "added-file", "/b", []), (2, "changed-deletes", "/a", [])]
    assert [d.file_path for d in with_deletes_after(found[2]).deletes] == ["/p"]
    assert sorted(told(found[3:])) == [(3, "added-file", "/c", []), (3, "removed-file", "/a", ["/p"])]
    assert [c.snapshot_id for c in found] == [ids[0], ids[1], ids[2], ids[4], ids[4]]
    assert told(plan_changelog(table, from_snapshot_id=ids[2], to_snapshot_id=ids[3])) == []


@pytest.mark.parametrize("merge", [False, True])
def test_a_path_that_becomes_live_a_second_time_is_added(merge: bool) -> None:
    catalog = make_catalog()
    table = make_table(catalog, properties={"commit.manifest.min-count-to-merge": "2"})
    file = data_file("/a", ids=(1, 5))
    for times in (1, 2, 3):
        before = table.metadata.current_snapshot_id
        table = commit(catalog, table, AppendFiles(added=(file,), merge=merge)).table
        assert told(plan_changelog(table, from_snapshot_id=before)) == [(0, "added-file", "/a", [])]
        assert [t.file_path for t in plan(table, Scan()).tasks] == ["/a"] * times


def test_a_path_removed_and_added_again_in_one_snapshot_is_both() -> None:
    """Its deletes no longer apply to it: the rows that they removed are there again."""
    catalog = make_catalog()
    table = append(catalog, make_table(catalog), "/a", ids=(1, 5))
    start = current(table)
    table = commit(catalog, table, RowDelta(added_deletes=(position_deletes("/p", "/a"),), starting_snapshot_id=start)).table
    start = current(table)
    (live,) = [t.data_file for t in plan(table, Scan()).tasks]
    change = OverwriteFiles(added=(data_file("/a", ids=(1, 5)),), removed=(live,), starting_snapshot_id=start)
    table = commit(catalog, table, change).table
    found = plan_changelog(table, from_snapshot_id=start)
    assert sorted(told(found)) == [(0, "added-file", "/a", []), (0, "removed-file", "/a", ["/p"])]
