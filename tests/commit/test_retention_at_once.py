"""A branch's retention setting holds, even for commits to the branch at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.commit.operations.refs import FastForward, RemoveRef, RenameBranch, RollBack, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.errors import BadInputError, IcebergOpsError, NoSuchSnapshotError, ValidationError
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, live_files, make_catalog, make_table
from tests.catalog.wrappers import Meddles

LATE: dict[str, Callable[[str, dict[str, int]], Operation]] = {
    "append": lambda branch, _: AppendFiles(added=(data_file("late"),), branch=branch),
    "rewrite of manifests": lambda branch, _: RewriteManifests(branch=branch),
    "transaction": lambda branch, _: Transaction(operations=(AppendFiles(added=(data_file("late"),), branch=branch),)),
    "another setting": lambda branch, at: SetRef(
        ref=branch, snapshot_id=at["head"], max_snapshot_age_ms=10**12, replace_existing=True
    ),
    "set current": lambda branch, at: SetCurrentSnapshot(snapshot_id=at["staged"], branch=branch),
    "rollback": lambda branch, at: RollBack(snapshot_id=at["first"], branch=branch),
    "publication": lambda branch, at: CherryPick(snapshot_id=at["staged"], branch=branch),
    "fast-forward": lambda branch, _: FastForward(branch=branch, to="ahead"),
    "rename": lambda branch, _: RenameBranch(old=branch, new="renamed"),
}


def begun(catalog: Any, version: int, branch: str) -> tuple[Table, dict[str, int]]:
    """A table with a branch of two snapshots, one that is staged on it, and one ahead of it; and the snapshots' ids."""
    table = commit(catalog, make_table(catalog, version=version), AppendFiles(added=(data_file("a"),))).table
    at = {"first": table.metadata.current_snapshot_id or 0}
    if branch != "main":
        table = commit(catalog, table, SetRef(ref=branch, snapshot_id=at["first"])).table
    for name, target in (("head", branch), ("staged", branch), ("ahead", "ahead")):
        if name == "ahead":
            table = commit(catalog, table, SetRef(ref="ahead", snapshot_id=at["head"])).table
        append = AppendFiles(added=(data_file(name),), branch=target, staged=name == "staged")
        table = commit(catalog, table, append).table
        at[name] = table.metadata.snapshots[-1].snapshot_id
    return table, at


@pytest.mark.parametrize("version", [1, 3])
@pytest.mark.parametrize(
    ("late", "branch"), [(late, b) for late in LATE for b in ("main", "audit") if (late, b) != ("rename", "main")]
)
def test_retention_that_is_set_while_a_commit_is_under_way_stays(late: str, branch: str, version: int) -> None:
    catalog = make_catalog()
    table, at = begun(catalog, version, branch)
    keeping = SetRef(ref=branch, snapshot_id=at["head"], min_snapshots_to_keep=100, replace_existing=True)
    meddling = Meddles(catalog, lambda: commit(catalog, table, keeping))
    commit(meddling, table, LATE[late](branch, at), sleep=lambda _: None)
    refs = catalog.load_table(IDENTIFIER).metadata.refs
    assert refs["renamed" if late == "rename" else branch].min_snapshots_to_keep == 100


def test_a_branch_that_became_a_tag_while_a_commit_was_under_way_stays_one() -> None:
    catalog = make_catalog()
    table, at = begun(catalog, 2, "audit")

    def meddle() -> None:
        commit(catalog, table, RemoveRef(ref="audit"))
        commit(catalog, catalog.load_table(IDENTIFIER), SetRef(ref="audit", snapshot_id=at["head"], type="tag"))

    with pytest.raises(BadInputError, match="audit is a tag, not a branch"):
        commit(Meddles(catalog, meddle), table, LATE["append"]("audit", at), sleep=lambda _: None)
    ref = catalog.load_table(IDENTIFIER).metadata.refs["audit"]
    assert (ref.type, ref.snapshot_id) == ("tag", at["head"])


def test_a_transaction_appends_to_the_branch_whose_retention_it_sets() -> None:
    catalog = make_catalog()
    table, at = begun(catalog, 2, "audit")
    keeping = SetRef(ref="audit", snapshot_id=at["head"], min_snapshots_to_keep=100, replace_existing=True)
    done = commit(catalog, table, Transaction(operations=(keeping, LATE["append"]("audit", at))), sleep=lambda _: None)
    ref = done.table.metadata.refs["audit"]
    assert (done.attempts, ref.min_snapshots_to_keep, ref.snapshot_id) == (1, 100, done.table.metadata.snapshots[-1].snapshot_id)


SETTINGS: dict[str, Callable[[str, int], Operation]] = {
    "where it is": lambda branch, _: SetRef(ref=branch, min_snapshots_to_keep=100, replace_existing=True),
    "at its head": lambda branch, head: SetRef(ref=branch, snapshot_id=head, min_snapshots_to_keep=100, replace_existing=True),
    "in a transaction": lambda branch, _: Transaction(
        operations=(SetRef(ref=branch, min_snapshots_to_keep=100, replace_existing=True), RewriteManifests(branch="ahead"))
    ),
}


@pytest.mark.parametrize("when", ["before its first attempt", "between its stage and its swap"])
@pytest.mark.parametrize("branch", ["main", "audit"])
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_commit_that_comes_while_retention_is_set_stays_on_the_branch(setting: str, branch: str, when: str) -> None:
    catalog = make_catalog()
    table, at = begun(catalog, 2, branch)
    operation, refused = SETTINGS[setting](branch, at["head"]), ""

    def append() -> None:
        commit(catalog, catalog.load_table(IDENTIFIER), LATE["append"](branch, at))

    others = [append] if when == "between its stage and its swap" else []
    if not others:
        append()
    try:
        commit(Meddles(catalog, *others), table, operation, sleep=lambda _: None)
    except ValidationError as e:
        refused = str(e)
    after = catalog.load_table(IDENTIFIER)
    assert "late" in live_files(after, branch)
    assert (f"was at snapshot {at['head']} when it was read" in refused) is (setting == "at its head"), refused
    assert after.metadata.refs[branch].min_snapshots_to_keep == (None if refused else 100)


@pytest.mark.parametrize("gone", [RemoveRef(ref="audit"), RenameBranch(old="audit", new="other")], ids=["removed", "renamed"])
@pytest.mark.parametrize(
    "late",
    [
        lambda at: SetRef(ref="audit", min_snapshots_to_keep=100, replace_existing=True),
        lambda at: SetRef(ref="audit", snapshot_id=at["first"], replace_existing=True),
        lambda at: SetCurrentSnapshot(snapshot_id=at["first"], branch="audit"),
        lambda at: RollBack(snapshot_id=at["first"], branch="audit"),
        lambda at: FastForward(branch="audit", to="ahead"),
    ],
    ids=["retention", "replacement", "set current", "rollback", "fast-forward"],
)
def test_a_branch_that_goes_while_it_is_set_or_moved_does_not_come_back(
    late: Callable[[dict[str, int]], Operation], gone: Operation
) -> None:
    catalog = make_catalog()
    table, at = begun(catalog, 2, "audit")
    with pytest.raises(IcebergOpsError, match=r"was removed or renamed since it was read|a branch with snapshots"):
        commit(Meddles(catalog, lambda: commit(catalog, table, gone)), table, late(at), sleep=lambda _: None)
    assert "audit" not in catalog.load_table(IDENTIFIER).metadata.refs


def test_a_new_branch_or_tag_without_a_place_begins_at_mains_head() -> None:
    catalog = make_catalog()
    table, at = begun(catalog, 2, "main")
    for ref, type_ in (("new", "branch"), ("noon", "tag")):
        commit(catalog, table, SetRef(ref=ref, type=type_))
        assert catalog.load_table(IDENTIFIER).metadata.refs[ref].snapshot_id == at["head"]
    empty = make_catalog()
    with pytest.raises(NoSuchSnapshotError, match="has no snapshot yet"):
        commit(empty, make_table(empty), SetRef(ref="new"))
