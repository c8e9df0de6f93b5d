"""The local lane gives the same answers in this process and in worker processes, and a lost worker is an answer too."""

from __future__ import annotations

import errno
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.groups.group_works import even_parts, make_group_works
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.progress import Meter, run_group_works
from iceberg_ops.actions.workers.runner import GroupFailure, Progress, work_bytes
from iceberg_ops.actions.workers.stage_answers import answer_of_stage, attempt_stage
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.options import rewrite_data_files_options
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.errors import CorruptTableError, RetryableError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.planning.rewrite_data_files import plan_rewrite_data_files
from tests.actions.lake import Lake, numbered
from tests.builders import make_table
from tests.planning.planning_cases import task


def works(tmp_path: Path) -> tuple[Lake, list[GroupWork]]:
    """A table of three partitions on disk, and its works."""
    catalog = FileSystemCatalog("test", LocalFileIO(), warehouse=str(tmp_path))
    catalog.create_namespace(("ns",))
    make_table(catalog, partitioned=True)
    lake = Lake(catalog)
    for i, region in enumerate("abc"):
        lake.append(*(numbered(1000 * i + 10 * j, 10, region) for j in range(5)))
    table = lake.table
    options = rewrite_data_files_options({}, table.properties)
    plan = plan_rewrite_data_files(table, options)
    return lake, make_group_works(plan.groups, table.metadata, table.io, order=plan.order, sizes=options.sizes, operation_id="op")


def rows_out(answers: list[GroupResult | GroupFailure]) -> dict[str, int]:
    assert all(isinstance(answer, GroupResult) for answer in answers), answers
    return {answer.group_id: answer.rows_out for answer in answers if isinstance(answer, GroupResult)}


def test_worker_processes_give_the_same_answers_as_this_process(tmp_path: Path) -> None:
    _, found = works(tmp_path)
    seen: list[Progress] = []
    bytes_ = sum(map(work_bytes, found))
    meter = Meter("rewriting", 15, bytes_, unit="files", subject="test", callback=seen.append)
    there = rows_out(list(run_group_works(LocalRunner(workers=2, inline_bytes=0), found, meter)))
    assert there == {"g0001/1": 50, "g0002/1": 50, "g0003/1": 50}
    assert (seen[-1].works_done, seen[-1].bytes_done, seen[-1].bytes) == (15, bytes_, bytes_)
    assert seen[-1].seconds_left == 0


def test_a_work_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    lake, found = works(tmp_path)
    broken = next(t for t in lake.tasks() if t.data_file.partition == ("b",)).file_path
    lake.table.io.write(broken, b"broken", overwrite=True)
    answers = list(LocalRunner(workers=1).run(found))
    (failure,) = [a for a in answers if isinstance(a, GroupFailure)]
    assert (failure.group_id, failure.code) == ("g0002/1", "CORRUPT_TABLE")
    assert len(answers) == 3


def test_a_sort_is_done_by_several_processes_and_leaves_nothing_staged(tmp_path: Path) -> None:
    lake, _ = works(tmp_path)
    table = lake.table
    options = rewrite_data_files_options({"sort-order": "id DESC", "rewrite-all": "true"}, table.properties)
    plan = plan_rewrite_data_files(table, options)
    found = make_group_works(plan.groups, table.metadata, table.io, order=plan.order, sizes=options.sizes, operation_id="op")
    staged = [replace(work, ranges=2) for work in found]
    there = rows_out(list(LocalRunner(workers=2, inline_bytes=0).run(staged)))
    assert there == {"g0001/1": 50, "g0002/1": 50, "g0003/1": 50}
    assert not [path for path in tmp_path.rglob("*") if "staged" in path.name or path.suffix == ".arrow"]


def test_a_failing_stage_is_the_works_failure() -> None:
    with pytest.raises(CorruptTableError, match="no such run"):
        answer_of_stage(attempt_stage(_broken_stage, ""))
    assert answer_of_stage(attempt_stage(str.upper, "a")) == "A"


def _broken_stage(text: str) -> str:
    raise CorruptTableError("no such run")


def _die(work: GroupWork) -> GroupResult:
    os._exit(9)


def test_a_killed_worker_is_answered_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = works(tmp_path)
    monkeypatch.setattr("iceberg_ops.actions.workers.local_runner.attempt", _die)
    answers = list(LocalRunner(workers=2, inline_bytes=0).run(found))
    assert sorted(a.group_id for a in answers) == ["g0001/1", "g0002/1", "g0003/1"]
    assert all(isinstance(a, GroupFailure) and "a worker process was killed" in a.message for a in answers)


@pytest.mark.parametrize(
    ("number", "code"), [(errno.EAGAIN, "RETRYABLE"), (errno.ENOMEM, "RETRYABLE"), (errno.EMFILE, "MACHINE_LIMIT")]
)
def test_a_worker_that_cannot_be_started_is_answered_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    _, found = works(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", fails)
    answers = list(LocalRunner(workers=2, inline_bytes=0).run(found))
    assert [a.code for a in answers if isinstance(a, GroupFailure)] == [code] * 3


def test_a_job_whose_worker_is_killed_may_be_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ended as TERMINAL, "correct what the message names", and Airflow never tried it again."""
    lake, _ = works(tmp_path)
    monkeypatch.setattr("iceberg_ops.actions.workers.local_runner.attempt", _die)
    report = tmp_path / "report.json"
    job = JobSpec(
        job="rewrite_data_files",
        table="test.ns.t",
        catalog=CatalogConfig(name="test", type="filesystem", properties={"warehouse": str(tmp_path)}),
        options={"rewrite-all": "true"},
        report=str(report),
    )
    with pytest.raises(RetryableError, match="a worker process was killed"):
        run_job(job, catalog=lake.catalog, runner=LocalRunner(workers=2, inline_bytes=0))
    told = from_json(report.read_bytes(), ActionReport, "report")
    assert told.error is not None
    assert told.error.code == "RETRYABLE"
    assert str(told.error.next_step).startswith("run the job again")


@pytest.mark.parametrize(
    ("sizes", "parts", "expected"),
    [
        ([10] * 6, 2, [3, 3]),
        ([10] * 6, 1, [6]),
        ([10] * 2, 5, [1, 1]),
        ([100, 1, 1, 1], 2, [1, 3]),
        ([1, 1, 1, 100], 2, [3, 1]),
    ],
)
def test_groups_are_cut_into_even_runs_of_whole_files(sizes: list[int], parts: int, expected: list[int]) -> None:
    assert [len(run) for run in even_parts([task(f"f{i}", mib) for i, mib in enumerate(sizes)], parts)] == expected
