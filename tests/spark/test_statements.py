"""A statement on Spark whose files are rewritten, or whose rows change, right before its swap is re-evaluated and still correct."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.local.delete_rows import DeleteRows
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.commit.loop.statement import MOST_EVALUATIONS
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange
from iceberg_ops.config.report import ActionReport
from iceberg_ops.deletion.leases import active_leases
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.catalog.wrappers import Meddles
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "city", STRING))
CITIES: dict[int, str | None] = {i: ["Oslo", "Rome", None][i % 3] for i in range(12)}
JOBS = ("delete", "update", "merge")


def filled(place: Place, version: str) -> Place:
    place.create("t", SCHEMA, format__version=version)
    for ids in (range(6), range(6, 12)):
        place.fill("t", pa.table({"id": list(ids), "city": [CITIES[i] for i in ids]}))
    return place


def statement(place: Place, job: str, mode: Any, *others: Callable[[], object], **parts: Any) -> ActionReport:
    """The job, while each of ``others`` comes right before one of its swaps."""
    if job == "merge":
        rows = pa.table({"id": [1, 100], "city": ["Paris", "Bonn"]})
        clauses = [
            MergeClause(when="matched", action="update", assignments={"city": "source.city"}),
            MergeClause(when="not-matched", action="insert"),
        ]
        parts["source"] = place.parquet(rows)
        change = RowChange(mode=mode, on="target.id = source.id", clauses=clauses)
    else:
        change = RowChange(mode=mode, set={"city": "'Paris'"} if job == "update" else {})
        parts["where"] = "id = 1"
    spec = JobSpec(job=job, table="test.db.t", catalog=place.config, change=change, **parts)
    report = place.run_on(Meddles(place.catalog, *others), spec)
    assert active_leases(place.table("t"), 0) == []
    return report


def compaction(place: Place) -> Callable[[], object]:
    job = JobSpec(job="rewrite_data_files", table="test.db.t", catalog=place.config, options={"rewrite-all": "true"})
    return lambda: run_job(job, runner=LocalRunner(workers=1))


def expected(job: str) -> dict[int, str | None]:
    rows = dict(CITIES)
    if job == "delete":
        del rows[1]
        return rows
    return rows | {1: "Paris"} | ({100: "Bonn"} if job == "merge" else {})


def rows_of(place: Place) -> dict[int, str | None]:
    return {row["id"]: row["city"] for row in place.rows("t")}


def nothing_is_left_over(place: Place) -> None:
    for action, options in (
        ("expire_snapshots", {"older-than": "2100-01-01T00:00:00", "retain-last": "1"}),
        ("remove_orphan_files", {"older-than": "2099-01-01T00:00:00", "unsafe-allow-recent": "true"}),
    ):
        report = run_job(JobSpec(job=action, table="test.db.t", catalog=place.config, options=options))
    assert report.metrics["orphan-files-count"] == 0, report


@pytest.mark.parametrize("job", JOBS)
def test_a_compaction_right_before_the_swap_costs_one_evaluation(place: Place, version: str, mode: str, job: str) -> None:
    report = statement(filled(place, version), job, mode, compaction(place))
    assert (report.status, report.metrics["evaluations-count"]) == ("committed", 2)
    assert rows_of(place) == expected(job)
    assert report.before is not None
    assert report.before.data_files == 2
    nothing_is_left_over(place)


@pytest.mark.parametrize("job", JOBS)
def test_a_delete_of_another_row_of_the_file_costs_nothing_in_v3(place: Place, job: str) -> None:
    filled(place, "3")
    other = DeleteRows(where="id = 2")
    report = statement(place, job, "merge-on-read", lambda: other.run(place.catalog, place.table("t")))
    assert report.metrics["evaluations-count"] == 1
    assert rows_of(place) == {i: city for i, city in expected(job).items() if i != 2}
    nothing_is_left_over(place)


@pytest.mark.parametrize("job", ["update", "merge"])
def test_a_row_that_was_deleted_meanwhile_does_not_come_back(place: Place, version: str, job: str) -> None:
    filled(place, version)
    other = DeleteRows(where="id = 1")
    report = statement(place, job, "merge-on-read", lambda: other.run(place.catalog, place.table("t")))
    rest = {i: city for i, city in expected(job).items() if i != 1}
    if job == "merge":  # re-evaluated, the source row finds no target row any more and is inserted
        assert rows_of(place) == rest | {1: "Paris"}
    else:
        assert report.status == "nothing-to-do"
        assert rows_of(place) == rest
    nothing_is_left_over(place)


@pytest.mark.parametrize("where", ["city = 'Oslo'", None], ids=["filter", "partitions"])
def test_an_overwrite_whose_files_are_compacted_meanwhile_is_done_again(place: Place, version: str, where: str | None) -> None:
    by_city = PartitionSpec(0, (PartitionField((2,), 1000, IDENTITY, "city"),))
    place.create("t", SCHEMA, by_city, format__version=version)
    for ids in (range(6), range(6, 12)):
        place.fill("t", pa.table({"id": list(ids), "city": [CITIES[i] for i in ids]}))
    source = place.parquet(pa.table({"id": [100, 101], "city": ["Oslo", "Oslo"]}))
    options = {"isolation-level": "snapshot"}
    spec = JobSpec(job="overwrite", table="test.db.t", catalog=place.config, source=source, where=where, options=options)
    report = place.run_on(Meddles(place.catalog, compaction(place)), spec)
    assert (report.status, report.metrics["evaluations-count"], report.metrics["added-records"]) == ("committed", 2, 2)
    kept = {i: city for i, city in CITIES.items() if city != "Oslo"}
    assert rows_of(place) == kept | {100: "Oslo", 101: "Oslo"}
    nothing_is_left_over(place)


def test_who_is_always_late_is_told_and_leaves_nothing(place: Place) -> None:
    filled(place, "2")
    with pytest.raises(ValidationError, match=f"evaluated {MOST_EVALUATIONS} times"):
        statement(place, "delete", "merge-on-read", *[compaction(place)] * MOST_EVALUATIONS)
    assert rows_of(place) == CITIES
    nothing_is_left_over(place)


def test_the_same_run_key_committed_by_another_process_ends_it(place: Place) -> None:
    filled(place, "2")

    def others() -> None:
        compaction(place)()
        DeleteRows(where="id = 5", run_key="k").run(place.catalog, place.table("t"))

    report = statement(place, "delete", "merge-on-read", others, **{"run_key": "k"})
    assert report.status == "already-committed"
    assert 1 in rows_of(place)
    nothing_is_left_over(place)
