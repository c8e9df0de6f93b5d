"""The base of a commit may be gone when the commit takes effect: expired, rolled back, removed. Each case lost rows, or a branch
whose files were deleted, before it was refused or retried."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import expire
from iceberg_ops.commit.operations.refs import FastForward, RemoveRef, RollBack, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.errors import CommitStateUnknownError, IcebergOpsError, ValidationError
from iceberg_ops.table.reachable import reachable_files
from tests.builders import IDENTIFIER, data_file, live_paths, make_catalog, make_table, position_deletes
from tests.catalog.wrappers import LosesTheAnswer, Meddles


def files_of(table: Any, *names: str) -> tuple[Any, ...]:
    found = []
    for name in names:
        path = f"{table.location}/data/{name}"
        table.io.write(path, b"rows")
        found.append(data_file(path))
    return tuple(found)


def head(catalog: Any, branch: str = "main") -> int:
    found = catalog.load_table(IDENTIFIER).metadata.branch_head(branch)
    assert found is not None
    return found.snapshot_id  # type: ignore[no-any-return]


def expire_all(catalog: Any) -> None:
    expire(catalog, catalog.load_table(IDENTIFIER), ExpireSnapshots(older_than_ms=2**60, retain_last=1))


def nothing_is_missing(catalog: Any) -> bool:
    table = catalog.load_table(IDENTIFIER)
    return all(table.io.exists(path) for path in reachable_files(table))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_pick_by_wap_id_takes_what_stands_for_it_on_the_attempt_that_is_accepted(version: int) -> None:
    """The first attempt picks a snapshot that replaces partition a; then it expires, and another under the same id replaces b."""
    catalog = make_catalog()
    table = make_table(catalog, version=version, partitioned=True)
    a, b, c, x, y = (data_file(name, partition=(name[0],)) for name in ("a", "b", "c", "ax", "by"))
    table = commit(catalog, table, AppendFiles(added=(a, b))).table

    def staged(f: Any) -> int:
        wap: dict[str, Any] = {"staged": True, "summary": {"wap.id": "w"}}
        done = commit(catalog, table, ReplacePartitions(added=(f,), starting_snapshot_id=head(catalog), **wap))
        assert done.snapshot is not None
        return done.snapshot.snapshot_id

    first = staged(x)

    def meanwhile() -> None:
        commit(catalog, table, ExpireSnapshots(snapshot_ids=(first,)))
        staged(y)
        commit(catalog, table, AppendFiles(added=(c,), merge=False))

    table = commit(
        catalog, catalog.load_table(IDENTIFIER), AppendFiles(added=(data_file("c0", partition=("c",)),), merge=False)
    ).table
    commit(Meddles(catalog, meanwhile), table, CherryPick(wap_id="w"), sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "by", "c", "c0"}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_snapshot_that_expires_while_it_is_picked_is_not_published_without_its_files(version: int) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=version)
    a, b, c = files_of(table, "a", "b", "c")
    table = commit(catalog, table, AppendFiles(added=(a,))).table
    table = commit(catalog, table, AppendFiles(added=(b,), staged=True, summary={"wap.id": "w"})).table
    table = commit(catalog, table, AppendFiles(added=(c,))).table
    with pytest.raises(IcebergOpsError, match="snapshot"):
        commit(Meddles(catalog, lambda: expire_all(catalog)), table, CherryPick(wap_id="w"), sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {a.file_path, c.file_path}
    assert nothing_is_missing(catalog)


def test_a_pick_by_fast_forward_keeps_the_branchs_retention_and_is_remembered_by_its_run_key() -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    first = commit(catalog, table, AppendFiles(added=(data_file("a"),))).snapshot
    assert first is not None
    table = commit(catalog, table, SetRef(ref="b", snapshot_id=first.snapshot_id, min_snapshots_to_keep=7)).table
    staged = commit(catalog, table, AppendFiles(added=(data_file("b"),), staged=True, branch="b")).snapshot
    assert staged is not None
    pick = CherryPick(snapshot_id=staged.snapshot_id, branch="b", run_key="publish/1")
    table = commit(LosesTheAnswer(catalog), table, pick, sleep=lambda _: None).table
    ref = table.metadata.refs["b"]
    assert (ref.snapshot_id, ref.min_snapshots_to_keep) == (staged.snapshot_id, 7)
    assert commit(catalog, table, pick).already_committed


@pytest.mark.parametrize("staged", [False, True])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_commit_that_moves_no_branch_of_its_own_is_done_again_when_its_base_goes(version: int, staged: bool) -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=version)
    a, b, d = files_of(table, "a", "b", "d")
    table = commit(catalog, table, AppendFiles(added=(a,))).table
    first = head(catalog)
    table = commit(catalog, table, AppendFiles(added=(b,))).table

    def others() -> None:
        """The head goes; in v2 and v3 without a new sequence number that would tell of it."""
        commit(catalog, table, RollBack(snapshot_id=first))
        expire_all(catalog)

    operation = AppendFiles(added=(d,), branch="main" if staged else "new", staged=staged)
    done = commit(Meddles(catalog, others), table, operation, sleep=lambda _: None)
    assert done.attempts == 2
    assert nothing_is_missing(catalog)


@pytest.mark.parametrize("operation", [RewriteFiles, RowDelta])
def test_deletes_that_applied_to_nothing_are_kept_where_a_rollback_made_them_count_again(operation: Any) -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    a, b, c = files_of(table, "a", "b", "c")
    commit(catalog, table, AppendFiles(added=(a, b)))
    deletes = position_deletes("d", a.file_path)
    commit(catalog, table, RowDelta(added_deletes=(deletes,), isolation=None))
    before = head(catalog)
    table = commit(catalog, table, RewriteFiles(removed_data=(a,), added_data=(c,), starting_snapshot_id=before)).table
    removal = operation(removed_deletes=(deletes,), starting_snapshot_id=head(catalog))
    commit(catalog, table, RollBack(snapshot_id=before))
    with pytest.raises(ValidationError, match="Cannot determine history"):
        commit(catalog, table, removal)
    assert "d" in live_paths(catalog.load_table(IDENTIFIER))


@pytest.mark.parametrize("staged", [False, True])
def test_a_branch_that_was_removed_meanwhile_does_not_come_back(staged: bool) -> None:
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("a"),))).table
    table = commit(catalog, table, SetRef(ref="audit", snapshot_id=head(catalog))).table
    commit(catalog, table, RemoveRef(ref="audit"))
    with pytest.raises(ValidationError, match=r"branch audit of table test\.ns\.t: it was removed concurrently"):
        commit(catalog, table, AppendFiles(added=(data_file("b"),), branch="audit", staged=staged))
    assert "audit" not in catalog.load_table(IDENTIFIER).metadata.refs


def test_a_commit_that_expired_before_its_answer_was_looked_for_is_not_done_again() -> None:
    catalog = make_catalog()
    table = commit(catalog, make_table(catalog), AppendFiles(added=(data_file("a"),))).table
    numbers = itertools.count()

    class Overtaken(LosesTheAnswer):
        def load_table(self, identifier: Any) -> Any:
            if self.left == 0:
                self.left = -1
                others = AppendFiles(added=(data_file(f"other {next(numbers)}"),))
                commit(catalog, catalog.load_table(identifier), others)
                ids = tuple(s.snapshot_id for s in catalog.load_table(identifier).metadata.snapshots)[:-1]
                commit(catalog, catalog.load_table(identifier), ExpireSnapshots(snapshot_ids=ids))
            return catalog.load_table(identifier)

    remembered = commit(Overtaken(catalog), table, AppendFiles(added=(data_file("b"),), run_key="r"), sleep=lambda _: None)
    assert remembered.attempts == 1
    with pytest.raises(CommitStateUnknownError):
        commit(Overtaken(catalog), table, AppendFiles(added=(data_file("d"),)), sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "b", "d", "other 0", "other 1"}


def test_in_v1_a_lost_answer_is_found_but_a_missing_one_stays_unknown() -> None:
    catalog = make_catalog()
    table = make_table(catalog, version=1)
    assert commit(LosesTheAnswer(catalog), table, AppendFiles(added=(data_file("a"),)), sleep=lambda _: None).attempts == 1

    class Overtaken(LosesTheAnswer):
        def commit_table(self, *arguments: Any) -> Any:
            commit(catalog, table, AppendFiles(added=(data_file("other"),)))
            return super().commit_table(*arguments)

    with pytest.raises(CommitStateUnknownError, match="nothing was deleted"):
        commit(Overtaken(catalog, happens=False), table, AppendFiles(added=(data_file("b"),)), sleep=lambda _: None)
    assert live_paths(catalog.load_table(IDENTIFIER)) == {"a", "other"}


@pytest.mark.parametrize(
    "follow", [FastForward(to="audit"), SetCurrentSnapshot(ref="audit"), FastForward(to="audit", branch="new")]
)
def test_a_branch_does_not_follow_another_to_what_is_rolled_back_meanwhile(follow: Any) -> None:
    catalog = make_catalog()
    table = make_table(catalog)
    table = commit(catalog, table, AppendFiles(added=files_of(table, "a"))).table
    table = commit(catalog, table, SetRef(ref="audit", snapshot_id=head(catalog))).table
    good = commit(catalog, table, AppendFiles(added=files_of(table, "good"), branch="audit")).table
    commit(catalog, good, AppendFiles(added=files_of(table, "bad"), branch="audit"))
    start = catalog.load_table(IDENTIFIER)

    def takes_it_back() -> None:
        commit(catalog, start, RollBack(branch="audit", snapshot_id=good.metadata.refs["audit"].snapshot_id))

    done = commit(Meddles(catalog, takes_it_back), start, follow)
    assert {path.rpartition("/")[2] for path in live_paths(done.table, follow.branch)} == {"a", "good"}
    assert done.attempts == 2
