"""Statements on Spark change both copies of the rows of a file that is live twice, and no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.scan.planning import Scan, plan
from tests.spark.conftest import Place
from tests.spark.test_row_operations import ROWS, SCHEMA, by_id, table_of

pytestmark = pytest.mark.spark


@pytest.fixture
def twice(place: Place, version: str) -> Place:
    """The first of two files is live twice."""
    place.create("t", SCHEMA, **{"format__version": version})
    place.fill("t", table_of(ROWS[:5]))
    files = tuple(replace(task.data_file, first_row_id=None) for task in plan(place.table("t"), Scan()).tasks)
    commit(place.catalog, place.table("t"), AppendFiles(added=files, merge=False))
    place.fill("t", table_of(ROWS[5:]))
    return place


TWICE = by_id([*ROWS[:5], *ROWS])


def test_delete_takes_both_rows(twice: Place, mode: str) -> None:
    report = twice.run("delete", "t", where="id in (1, 3, 8)", change=RowChange(mode=mode))
    assert by_id(twice.rows("t")) == [r for r in TWICE if r["id"] not in (1, 3, 8)]
    assert report.metrics["deleted-records"] == 5


def test_update_changes_both_rows(twice: Place, mode: str) -> None:
    twice.run("update", "t", where="id in (2, 9)", change=RowChange(mode=mode, set={"city": "'new'"}))
    assert by_id(twice.rows("t")) == [r | {"city": "new"} if r["id"] in (2, 9) else r for r in TWICE]


def test_merge_changes_both_rows_and_takes_neither_for_a_second_match(twice: Place, mode: str) -> None:
    source = twice.parquet(table_of([ROWS[2] | {"city": "new"}, ROWS[3] | {"id": 77}]))
    clauses = [
        MergeClause(when="matched", action="update", assignments={"city": "source.city"}),
        MergeClause(when="not-matched", action="insert"),
    ]
    twice.merge("t", source, "target.id = source.id", clauses, mode)
    wanted = [r | {"city": "new"} if r["id"] == 2 else r for r in TWICE]
    assert by_id(twice.rows("t")) == [*wanted, ROWS[3] | {"id": 77}]
