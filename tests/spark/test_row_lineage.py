"""Rows of v3 tables keep their ids when statements change or move them, and only changed rows get the new snapshot's sequence
number."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpgradeFormatVersion
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.runners import reading
from tests.catalog.wrappers import Meddles
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "city", STRING))
LINEAGE = ["id", "city", "_row_id", "_last_updated_sequence_number"]
UPSERT = [MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")]
ON = "target.id = source.id"


def rows(first: int, count: int, city: str = "old") -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int64()), "city": [city] * count})


@pytest.fixture(params=["spark reads", "arrow reads"])
def filled(place: Place, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Place:
    if request.param == "arrow reads":
        monkeypatch.setattr(reading, "native_paths", lambda *_: {})
    place.create("t", SCHEMA, format__version="3")
    for first in (0, 10, 20):
        place.fill("t", rows(first, 10))
    return place


def lineage(place: Place) -> dict[int, tuple[str, int, int]]:
    """City, row id and sequence number of the last change, by id."""
    found: list[dict[str, Any]] = scan_table(place.table("t"), columns=LINEAGE).to_pylist()
    numbers = [r["_row_id"] for r in found]
    assert len(set(numbers)) == len(numbers)
    return {r["id"]: (r["city"], r["_row_id"], r["_last_updated_sequence_number"]) for r in found}


def sequence_number(place: Place) -> int:
    return place.table("t").metadata.last_sequence_number


def test_updated_rows_keep_their_ids_and_are_of_the_new_snapshot(filled: Place, mode: str) -> None:
    before = lineage(filled)
    filled.run("update", "t", where="pmod(id, 3) = 0", change=RowChange(mode=mode, set={"city": "'new'"}))
    number = sequence_number(filled)
    assert lineage(filled) == {i: ("new", r, number) if i % 3 == 0 else (c, r, s) for i, (c, r, s) in before.items()}


def test_rows_keep_their_ids_through_one_statement_after_another(filled: Place, mode: str) -> None:
    before = lineage(filled)
    for factor in (2, 3, 5):
        filled.run("update", "t", where=f"pmod(id, {factor}) = 0", change=RowChange(mode=mode, set={"city": f"'{factor}'"}))
    last = {i: max((f for f in (2, 3, 5) if i % f == 0), default=None) for i in before}
    by_factor = dict(zip((2, 3, 5), range(4, 7), strict=True))
    expected = {i: (c, r, s) if last[i] is None else (str(last[i]), r, by_factor[last[i]]) for i, (c, r, s) in before.items()}
    assert lineage(filled) == expected


def test_merged_rows_keep_their_ids_and_new_ones_are_numbered_after_them(filled: Place, mode: str) -> None:
    before = lineage(filled)
    next_row_id = filled.table("t").metadata.next_row_id or 0
    filled.merge("t", filled.parquet(rows(25, 10, "new")), ON, UPSERT, mode)
    number, after = sequence_number(filled), lineage(filled)
    changed = {i: ("new", r, number) if i >= 25 else (c, r, s) for i, (c, r, s) in before.items()}
    assert {i: found for i, found in after.items() if i < 30} == changed
    assert {(city, at) for i, (city, _, at) in after.items() if i >= 30} == {("new", number)}
    assert min(row_id for i, (_, row_id, _) in after.items() if i >= 30) >= next_row_id


def test_what_a_merge_deletes_or_leaves_changes_no_other_row(filled: Place, mode: str) -> None:
    before = lineage(filled)
    clauses = [
        MergeClause(when="matched", action="delete", condition="target.id < 5"),
        MergeClause(when="matched", action="update", condition="target.id < 8", assignments={"city": "'new'"}),
        MergeClause(when="not-matched-by-source", action="update", condition="target.id > 27", assignments={"city": "'alone'"}),
    ]
    filled.merge("t", filled.parquet(rows(0, 20)), ON, clauses, mode)
    number = sequence_number(filled)
    expected = {i: found for i, found in before.items() if i >= 5}
    expected |= {i: ("new", before[i][1], number) for i in (5, 6, 7)} | {i: ("alone", before[i][1], number) for i in (28, 29)}
    assert lineage(filled) == expected


def test_deleted_rows_leave_the_ids_of_the_others(filled: Place, mode: str) -> None:
    before = lineage(filled)
    filled.run("delete", "t", where="pmod(id, 2) = 1", change=RowChange(mode=mode))
    assert lineage(filled) == {i: found for i, found in before.items() if i % 2 == 0}


def test_rows_written_before_the_table_numbered_rows_are_numbered_by_the_change(place: Place, mode: str) -> None:
    place.create("t", SCHEMA, format__version="2")
    place.fill("t", rows(0, 4))
    commit(place.catalog, place.table("t"), UpgradeFormatVersion(format_version=3))
    place.run("update", "t", where="id = 1", change=RowChange(mode=mode, set={"city": "'new'"}))
    after = lineage(place)
    moved = 2 if mode == "copy-on-write" else 1  # what had no lineage has none to keep
    found = {i: (city, at) for i, (city, _, at) in after.items()}
    assert found == {0: ("old", moved), 1: ("new", 2), 2: ("old", moved), 3: ("old", moved)}
    assert all(row_id is not None for _, row_id, _ in after.values())


def test_a_v2_table_has_no_lineage_columns(place: Place, mode: str) -> None:
    place.create("t", SCHEMA, format__version="2")
    place.fill("t", rows(0, 4))
    place.run("update", "t", where="id = 1", change=RowChange(mode=mode, set={"city": "'new'"}))
    for task in plan(place.table("t"), Scan()).tasks:
        assert pq.read_schema(task.file_path.removeprefix("file:")).names == ["id", "city"]


STATEMENTS = ("update", "merge")


@pytest.mark.parametrize("job", STATEMENTS)
@pytest.mark.parametrize("ids_are_given", [False, True], ids=["upgraded", "upgraded, and rows have their ids"])
def test_a_table_that_becomes_v3_right_before_the_swap_has_sane_row_ids(
    place: Place, mode: Any, job: str, ids_are_given: bool
) -> None:
    place.create("t", SCHEMA, format__version="2")
    for first in (0, 10):
        place.fill("t", rows(first, 10))
    given: dict[int, tuple[str, int, int]] = {}

    def upgrade() -> None:
        commit(place.catalog, place.table("t"), UpgradeFormatVersion(format_version=3))
        if ids_are_given:
            place.fill("t", rows(20, 5))
            given.update(lineage(place))

    if job == "update":
        spec = {"where": "pmod(id, 3) = 0 AND id < 20", "change": RowChange(mode=mode, set={"city": "'new'"})}
    else:
        spec = {"change": RowChange(mode=mode, on=ON, clauses=UPSERT)}
        spec["source"] = place.parquet(pa.table({"id": [*range(0, 20, 3), 100], "city": ["new"] * 8}), "merged.parquet")
    made = JobSpec(job=job, table="test.db.t", catalog=place.config, **spec)
    assert place.run_on(Meddles(place.catalog, upgrade), made).status == "committed"
    table = place.table("t")
    found = lineage(place)
    assert table.metadata.format_version == 3
    changed = {i for i in found if (i < 20 and i % 3 == 0) or i == 100}
    assert {i for i, (city, _, _) in found.items() if city == "new"} == changed
    assert len(found) == 20 + 5 * ids_are_given + (job == "merge")
    assert all(0 <= row_id < (table.metadata.next_row_id or 0) for _, row_id, _ in found.values())
    assert {i: found[i][1] for i in given} == {i: row_id for i, (_, row_id, _) in given.items()}, "ids that were given are kept"
    assert all(found[i] == given[i] for i in given if i not in changed)
    assert all(d.data_file.is_deletion_vector for task in plan(table, Scan()).tasks for d in task.deletes)
