"""Deleting rows by a condition, from Python, while others change the same rows and files."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.actions.local.delete_rows import DeletedRows, DeleteRows
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.loop.statement import MOST_EVALUATIONS
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.errors import CommitStateUnknownError, UnsupportedError, ValidationError
from iceberg_ops.expressions.predicates import in_
from iceberg_ops.scan.planning import Scan
from tests.actions.lake import Lake, numbered
from tests.builders import make_catalog, make_table
from tests.catalog.wrappers import LosesTheAnswer, Meddles

MODES = [(2, "file"), (2, "partition"), (3, "file")]
modes = pytest.mark.parametrize(("version", "granularity"), MODES, ids=[f"v{v} {g}" for v, g in MODES])


def lake_of(version: int, granularity: str = "file") -> Lake:
    """30 rows in 3 files."""
    lake = Lake(make_catalog())
    make_table(lake.catalog, version=version, properties={"write.delete.granularity": granularity, "commit.retry.min-wait-ms": "1"})
    lake.append(*(numbered(10 * i, 10) for i in range(3)))
    return lake


def delete(lake: Lake, where: Any, *others: Callable[[], object], **fields: Any) -> DeletedRows:
    """Delete; each of ``others`` happens right before a swap of it."""
    return DeleteRows(where=where, **fields).run(Meddles(lake.catalog, *others), lake.table)


def ids(lake: Lake, scan: Scan | None = None) -> list[int]:
    return [row[0] for row in lake.rows(scan)]


def all_but(*gone: int) -> list[int]:
    return [i for i in range(30) if i not in gone]


def no_leftovers(lake: Lake) -> None:
    lake.run("expire_snapshots", older_than="2100-01-01T00:00:00", retain_last=1)
    report = lake.run("remove_orphan_files", older_than="2099-01-01T00:00:00", unsafe_allow_recent=True, dry_run=True)
    assert report.metrics.get("orphan-files-count", 0) == 0, report


@modes
def test_matching_rows_go(version: int, granularity: str) -> None:
    lake = lake_of(version, granularity)
    found = delete(lake, "id IN (3, 14, 15)")
    assert (found.rows, found.evaluations) == (3, 1)
    assert ids(lake) == all_but(3, 14, 15)
    assert delete(lake, in_("id", [3, 14])).committed is None
    assert delete(lake, "id < 2 OR id = 15").rows == 2
    assert ids(lake) == all_but(0, 1, 3, 14, 15)


@modes
def test_a_compaction_at_the_very_swap_costs_one_evaluation(version: int, granularity: str) -> None:
    lake = lake_of(version, granularity)
    delete(lake, "id = 4")
    found = delete(lake, "id IN (3, 14)", lambda: lake.run("rewrite_data_files", rewrite_all=True))
    assert (found.rows, found.evaluations) == (2, 2)
    assert ids(lake) == all_but(3, 4, 14)
    no_leftovers(lake)


@modes
def test_another_delete_at_the_very_swap_costs_nothing(version: int, granularity: str) -> None:
    lake = lake_of(version, granularity)
    found = delete(lake, "id IN (3, 14)", lambda: delete(lake, "id IN (3, 5, 25)"), lambda: delete(lake, "id = 6"))
    assert found.evaluations == 1
    assert ids(lake) == all_but(3, 5, 6, 14, 25)
    vectors = [d for task in lake.tasks() for d in task.deletes if d.is_deletion_vector]
    assert len({d.data_file.referenced_data_file for d in vectors}) == len(vectors) == (3 if version == 3 else 0)
    no_leftovers(lake)


@pytest.mark.parametrize(("isolation", "rows"), [("serializable", 2), ("snapshot", 1)])
def test_rows_that_came_meanwhile_are_deleted_too_where_that_was_asked_for(isolation: Any, rows: int) -> None:
    lake = lake_of(3)
    found = delete(lake, "data = 'seven' OR id = 7", lambda: lake.append([(107, "seven", "eu")]), isolation=isolation)
    assert (found.rows, found.evaluations) == (rows, rows)
    assert (107 in ids(lake)) is (isolation == "snapshot")


def test_a_delete_that_is_always_too_late_says_so_and_leaves_nothing() -> None:
    lake = lake_of(2)
    compactions = [lambda: lake.run("rewrite_data_files", rewrite_all=True)] * 99
    with pytest.raises(ValidationError, match=f"missing data files.*evaluated {MOST_EVALUATIONS} times") as refused:
        delete(lake, "id = 3", *compactions)
    assert refused.value.operation == "replace"
    assert ids(lake) == all_but()
    no_leftovers(lake)


def test_a_run_key_deletes_once_also_after_a_lost_answer() -> None:
    lake = lake_of(3)
    DeleteRows(where="id = 3", run_key="k").run(LosesTheAnswer(lake.catalog), lake.table)
    lake.append([(3, "again", "eu")])
    again = delete(lake, "id = 3", run_key="k")
    assert again.committed is not None
    assert again.committed.already_committed
    assert 3 in ids(lake)
    no_leftovers(lake)


@pytest.mark.usefixtures("without_pauses")
def test_after_an_unknown_outcome_nothing_is_tried_again_or_deleted() -> None:
    lake = lake_of(3)
    table = lake.table
    with pytest.raises(CommitStateUnknownError):
        DeleteRows(where="id = 3").run(LosesTheAnswer(Forgetful(lake), happens=False), table)
    assert [p for p in lake.paths() if p.endswith(".puffin")]


class Forgetful:
    """A catalog that always shows the same old state, so that an outcome cannot be determined."""

    def __init__(self, lake: Lake) -> None:
        self.table = lake.table

    def load_table(self, identifier: tuple[str, ...]) -> Any:
        return self.table


def test_a_branch_of_its_own() -> None:
    lake = lake_of(3)
    commit(lake.catalog, lake.table, SetRef(ref="dev", snapshot_id=lake.table.metadata.snapshots[-1].snapshot_id))
    delete(lake, "id = 3", branch="dev")
    assert ids(lake) == all_but()
    assert ids(lake, Scan(ref="dev")) == all_but(3)


@pytest.mark.parametrize(
    ("version", "where", "why"),
    [(1, "id = 1", "merge-on-read on a v1"), (2, "soundex(data) = 'x'", "evaluates function soundex")],
)
def test_what_can_not_be_done_is_refused_by_name(version: int, where: str, why: str) -> None:
    with pytest.raises(UnsupportedError, match=why):
        delete(lake_of(version), where)
