"""A report counts the rows and files that its run committed, and none of a refused evaluation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_ops.actions.local.delete_rows import DeleteRows
from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.actions.rows_place import RowsPlace

ARROW = pa.schema({"k": pa.int64(), "s": pa.string()})
MODES = ("merge-on-read", "copy-on-write")


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    made = RowsPlace.at(tmp_path)
    made.create(Schema.of(NestedField(1, "k", LONG), NestedField(2, "s", STRING)), format__version="2")
    made.run("append", source=made.source([{"k": 1, "s": "a"}, {"k": 2, "s": "b"}], ARROW))
    return made


def remove_the_row(place: RowsPlace) -> Callable[[], object]:
    return lambda: DeleteRows(where=parse_where("k = 1")).run(place.catalog, place.table())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("job", ["update", "merge"])
def test_a_statement_that_finds_nothing_any_more_counts_nothing(place: RowsPlace, mode: str, job: str) -> None:
    if job == "update":
        change = RowChange(mode=mode, set={"s": "'x'"})  # type: ignore[arg-type]
        report = place.run("update", remove_the_row(place), where="k = 1", change=change)
    else:
        clause = MergeClause(when="matched", action="update")
        source = place.source([{"k": 1, "s": "n"}], ARROW)
        report = place.merge(mode, source, "target.k = source.k", clause, others=(remove_the_row(place),))
    assert (report.status, report.snapshot_ids) == ("nothing-to-do", [])
    assert report.metrics == {"evaluations-count": 2, "deleted-records": 0, "added-records": 0}


def test_a_delete_of_whole_files_counts_those_that_it_removed(place: RowsPlace) -> None:
    def append() -> None:
        place.run("append", source=place.source([{"k": 3, "s": "c"}], ARROW))

    more = place.run("delete", append, where="k > 0")
    assert (more.status, more.metrics["deleted-data-files"], place.rows()) == ("committed", 2, [])
    append()
    none = place.run("delete", lambda: place.run("delete", where="true"), where="k > 0")
    assert (none.status, none.metrics["deleted-data-files"]) == ("committed", 0)


@pytest.mark.parametrize("job", ["append", "overwrite", "upsert"])
def test_rows_that_another_process_committed_first_are_not_counted(place: RowsPlace, job: str) -> None:
    source, options = place.source([{"k": 7, "s": "c"}], ARROW), {"upsert-keys": "k"} if job == "upsert" else {}
    first = lambda: place.run(job, source=source, options=options, run_key="one")  # noqa: E731
    report = place.run(job, first, source=source, options=options, run_key="one")
    assert report.status == "already-committed"
    assert report.metrics.keys() <= {"evaluations-count"}


@pytest.mark.usefixtures("without_pauses")
def test_a_failed_job_counts_no_file(place: RowsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    reports = []
    monkeypatch.setattr("iceberg_ops.actions.dispatch.write_report", lambda job, report: reports.append(report))

    def fail() -> None:
        raise IcebergOpsError("no swap")

    with pytest.raises(IcebergOpsError, match="no swap"):
        place.run("append", fail, source=place.source([{"k": 7, "s": "c"}], ARROW))
    assert (reports[0].status, reports[0].metrics) == ("failed", {})
