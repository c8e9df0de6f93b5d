"""Rows that do not fit the table are in the quarantine once, however many runs use the same run key."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.local.local_engine import LocalEvaluator
from iceberg_ops.actions.rows import source_commits
from iceberg_ops.actions.rows.row_engine import WrittenSource
from iceberg_ops.actions.run.context import Run
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ActionReport, SkippedFile
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.errors import BadInputError, IncompleteError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.actions.rows_place import RowsPlace
from tests.catalog.wrappers import LosesTheAnswer, Meddles


class _OnlyBadRows(LocalEvaluator):
    """Writes a source without a row that fits; ``meanwhile`` happens before."""

    name = "bad"
    summary: ClassVar[Mapping[str, str]] = {"engine-name": "bad"}

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._meanwhile = meanwhile

    def check(self, job: JobSpec) -> None: ...

    def opened(self, job: JobSpec) -> AbstractContextManager[LocalEvaluator]:
        return nullcontext(self)

    def write_source(self, run: Run, options: WriteOptions) -> WrittenSource:
        self._meanwhile()
        assert options.quarantine is not None
        bad = Path(options.quarantine, f"{run.operation_id}.json")
        bad.write_text(json.dumps({"id": "x"}))
        found = [SkippedFile(file_path=str(bad), reason="id is not a number")]
        return WrittenSource(schema=run.table.schema, files=(), quarantined=found, rows_quarantined=1)


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    made = RowsPlace.at(tmp_path)
    made.create(Schema.of(NestedField(1, "id", LONG)), format__version="2")
    (tmp_path / "bad").mkdir()
    return made


def append(
    place: RowsPlace,
    meanwhile: Callable[[], object] = lambda: None,
    said: str = "quarantine",
    report: str | None = None,
    catalog: Any = None,
) -> ActionReport:
    options = {"bad-records": said, "quarantine-path": str(place.folder / "bad")}
    job = JobSpec(job="append", table="test.db.t", catalog=place.config, run_key="one", options=options, report=report)
    return run_job(job, catalog=catalog, engine=_OnlyBadRows(meanwhile))


def test_of_two_runs_at_once_one_has_the_quarantine(place: RowsPlace) -> None:
    first: list[ActionReport] = []
    second = append(place, lambda: first.append(append(place)))
    assert (first[0].status, second.status) == ("nothing-to-do", "already-committed")
    assert (second.failures, second.metrics) == ([], {})
    assert [str(p) for p in (place.folder / "bad").iterdir()] == [f.file_path for f in first[0].failures]
    assert append(place).status == "already-committed"


def test_of_two_runs_whose_commits_meet_one_has_the_quarantine(place: RowsPlace) -> None:
    first: list[ActionReport] = []
    second = append(place, catalog=Meddles(place.catalog, lambda: first.append(append(place))))
    assert (first[0].status, second.status) == ("nothing-to-do", "already-committed")
    assert (second.failures, second.metrics) == ([], {})
    assert [str(p) for p in (place.folder / "bad").iterdir()] == [f.file_path for f in first[0].failures]


def test_of_two_runs_whose_commits_meet_one_has_the_quarantine_also_after_a_lost_answer(place: RowsPlace) -> None:
    first: list[ActionReport] = []
    silent = LosesTheAnswer(place.catalog, happens=False)
    second = append(place, catalog=Meddles(silent, lambda: first.append(append(place))))
    assert (first[0].status, second.status) == ("nothing-to-do", "already-committed")
    assert (second.failures, second.metrics) == ([], {})
    assert [str(p) for p in (place.folder / "bad").iterdir()] == [f.file_path for f in first[0].failures]


def test_rows_are_counted_however_the_option_is_spelled(place: RowsPlace) -> None:
    assert append(place, said="Quarantine").metrics["quarantined-records"] == 1


def test_a_report_of_what_came_after_the_commit_names_the_quarantine(place: RowsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    report = place.folder / "report.json"
    with monkeypatch.context() as patched:
        patched.setattr(source_commits, "nothing_to_do", _interrupted)
        with pytest.raises(IncompleteError):
            append(place, report=str(report))
    kept = [str(p) for p in (place.folder / "bad").iterdir()]
    assert [f["file-path"] for f in json.loads(report.read_text())["failures"]] == kept
    assert (append(place).status, [str(p) for p in (place.folder / "bad").iterdir()]) == ("already-committed", kept)


def test_a_report_of_a_commit_that_did_not_happen_names_no_quarantine(place: RowsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    report = place.folder / "report.json"
    monkeypatch.setattr(source_commits, "commit", _interrupted)
    with pytest.raises(KeyboardInterrupt):
        append(place, report=str(report))
    assert list((place.folder / "bad").iterdir()) == []
    assert json.loads(report.read_text()).get("failures", []) == []


def _interrupted(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("job", ["append", "overwrite"])
@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("quarantine", "why"),
    [
        ("{table}/rejected", "lies in .*, where the files of table test.db.t lie: write it elsewhere"),
        ("file:{table}/../t/data", "lies in .*, where the files of table test.db.t lie: write it elsewhere"),
        ("rejected", "is relative: it would mean another place in every working folder"),
    ],
)
def test_a_quarantine_that_a_later_job_would_empty_is_refused(
    place: RowsPlace, job: str, dry_run: bool, quarantine: str, why: str
) -> None:
    """Orphan removal took its files for orphans, and deleted the rows that no table has."""
    options = {"bad-records": "quarantine", "quarantine-path": quarantine.format(table=place.table().location)}
    spec = JobSpec(job=job, table="test.db.t", catalog=place.config, options=options, dry_run=dry_run)
    with pytest.raises(BadInputError, match=why):
        run_job(spec, engine=_OnlyBadRows(lambda: pytest.fail("rows were written")))
