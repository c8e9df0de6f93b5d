"""The quarantine holds rows that are in no table: it stays if the commit of the other rows exists, or may exist, and a repeated run
creates no second one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.manifests import staged_files
from iceberg_ops.errors import CommitStateUnknownError, IncompleteInterruptedError, ValidationError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, STRING, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", INT), NestedField(2, "v", STRING))
ROWS = pa.table({"id": pa.array([1, 2, 2**40], pa.int64()), "v": ["a", "b", "too large"]})
ALL_BAD = pa.table({"id": pa.array([2**40], pa.int64()), "v": ["too large"]})


def quarantine(place: Place) -> list[Path]:
    return [p for p in (place.folder / "quarantine").rglob("*") if p.is_file()]


def ingest(place: Place, rows: pa.Table, job: str = "append", **parts: Any) -> Any:
    options = {"bad-records": "quarantine", "quarantine-path": str(place.folder / "quarantine")}
    report = str(place.folder / "report.json")
    return place.run(job, "t", source=place.parquet(rows), options=options, report=report, **parts)


@pytest.mark.parametrize("job", ["append", "overwrite"])
def test_an_interrupt_after_the_commit_leaves_the_quarantine(place: Place, monkeypatch: pytest.MonkeyPatch, job: str) -> None:
    place.create("t", SCHEMA)

    def stops(*_: object, **__: object) -> object:
        raise KeyboardInterrupt

    monkeypatch.setattr(staged_files, "discard", stops)
    with pytest.raises(IncompleteInterruptedError, match=r"the work is committed \(snapshot \d+\), only clean-up is left"):
        ingest(place, ROWS, job)
    assert [r["id"] for r in place.rows("t")] == [1, 2]
    (left,) = quarantine(place)
    assert json.loads(left.read_text())["record"].startswith('{"id":1099511627776')
    error = json.loads((place.folder / "report.json").read_text())["error"]
    assert error["code"] == "INCOMPLETE"
    assert "do not run the job again without its run key" in error["next-step"]


def test_an_interrupt_right_after_a_commit_leaves_the_quarantine(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create("t", SCHEMA)
    commit = staged_files.commit

    def stops(*args: Any, **named: Any) -> object:
        commit(*args, **named)
        raise KeyboardInterrupt

    monkeypatch.setattr(staged_files, "commit", stops)
    with pytest.raises(IncompleteInterruptedError):
        ingest(place, ROWS)
    assert [r["id"] for r in place.rows("t")] == [1, 2]
    assert len(quarantine(place)) == 1


@pytest.mark.parametrize(("error", "left"), [(ValidationError("refused"), 0), (CommitStateUnknownError("no answer"), 1)])
def test_the_quarantine_goes_only_where_the_commit_is_known_not_to_be(
    place: Place, monkeypatch: pytest.MonkeyPatch, error: Exception, left: int
) -> None:
    place.create("t", SCHEMA)

    def refuses(*_: object, **__: object) -> object:
        raise error

    monkeypatch.setattr(staged_files, "commit", refuses)
    with pytest.raises(type(error)):
        ingest(place, ROWS)
    assert len(quarantine(place)) == left


@pytest.mark.parametrize("job", ["append", "overwrite"])
@pytest.mark.parametrize("rows", [ROWS, ALL_BAD], ids=["some", "all"])
def test_a_repeated_run_makes_no_second_quarantine(place: Place, job: str, rows: pa.Table) -> None:
    place.create("t", SCHEMA)
    first = ingest(place, rows, job, run_key="events-1")
    assert len(first.failures) == len(quarantine(place)) == 1
    again = ingest(place, rows, job, run_key="events-1")
    assert again.status == "already-committed"
    assert len(quarantine(place)) == 1


def test_a_run_without_rows_to_commit_has_nothing_to_do_and_no_key_is_needed(place: Place) -> None:
    place.create("t", SCHEMA)
    before = place.table("t").metadata_location
    report = ingest(place, ALL_BAD)
    assert (report.status, len(report.failures)) == ("nothing-to-do", 1)
    assert place.table("t").metadata_location == before
    assert ingest(place, ALL_BAD, run_key="events-1").status == "nothing-to-do"
    assert place.table("t").metadata.snapshots == ()
