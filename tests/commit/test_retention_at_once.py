"""What a branch is told to keep is kept, whatever is committed to the branch at the same moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.cherry_pick import CherryPick
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.operation import Operation
from iceberg_ops.commit.refs import FastForward, RemoveRef, RenameBranch, RollBack, SetCurrentSnapshot, SetRef
from iceberg_ops.commit.rewrite_manifests import RewriteManifests
from iceberg_ops.commit.transaction import Transaction
from iceberg_ops.errors import BadInputError
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, data_file, make_catalog, make_table
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
