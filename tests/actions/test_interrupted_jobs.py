"""Ctrl-C after a part of a job was committed: the report names the commits, and the job still ends as interrupted."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.actions import convert_equality_deletes
from iceberg_ops.actions import rewrite_position_delete_files as positions
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.groups import data_file_groups, delete_groups
from iceberg_ops.actions.groups.group_batches import GroupBatches
from iceberg_ops.actions.run import context
from iceberg_ops.actions.run.context import Outcome
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.runner import GroupFailure
from iceberg_ops.config.document import from_json
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.errors import CommitInterruptedError, CommitStateUnknownError, IncompleteInterruptedError
from tests.actions.lake import Lake, make_lake, numbered
from tests.actions.test_imports_at_once import place
from tests.actions.test_progress_options import with_equality_deletes

IN_TWO = {
    "rewrite_all": "true", "max_file_group_input_files": "2",
    "partial-progress.enabled": "true", "partial-progress.max-commits": "2",
}  # fmt: skip


class StopsAfterOne(LocalRunner):
    """Is interrupted when its first group is done."""

    def __init__(self, error: Callable[[], BaseException] = KeyboardInterrupt) -> None:
        super().__init__(workers=1)
        self.error = error

    def limited(self, workers: int) -> LocalRunner:
        return self

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        yield next(iter(LocalRunner(workers=1).run(works[:1])))
        raise self.error()


def lake_of_four() -> Lake:
    lake = make_lake()
    for i in range(4):
        lake.append(numbered(10 * i, 5))
    return lake


def report_at(path: Path) -> ActionReport:
    return from_json(path.read_bytes(), ActionReport, str(path))


def live(lake: Lake) -> set[str]:
    return {task.file_path for task in lake.tasks()}


def check_named(lake: Lake, report: ActionReport) -> None:
    head = lake.table.metadata.current_snapshot_id
    assert (report.status, report.snapshot_ids) == ("failed", [head])
    assert report.error is not None
    assert report.error.code == "INCOMPLETE"
    assert f"is committed (snapshot {head})" in report.error.message
    statuses = {group.status for group in report.groups}
    assert "committed" in statuses
    assert statuses <= {"committed", "dropped"}, "nothing is only planned any more"


def test_a_rewrite_names_its_commits(tmp_path: Path) -> None:
    lake, path = lake_of_four(), tmp_path / "report.json"
    with pytest.raises(IncompleteInterruptedError) as raised:
        run_job(lake.job("rewrite_data_files", report=str(path), **IN_TWO), catalog=lake.catalog, runner=StopsAfterOne())
    assert isinstance(raised.value, KeyboardInterrupt)
    check_named(lake, report_at(path))
    assert lake.run("rewrite_data_files", **IN_TWO).status == "committed"


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyboardInterrupt(), "failed"), (MemoryError(), "partially-committed"), (OSError(5, "EIO"), "partially-committed")],
)
def test_a_second_batch_that_ends_before_its_commit_is_not_reported_as_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException, status: str
) -> None:
    lake, path, calls = lake_of_four(), tmp_path / "report.json", list[int]()
    appended, real = live(lake), data_file_groups.deletes_of_only

    def stops_at_the_second(*arguments: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise error
        return real(*arguments)

    monkeypatch.setattr(data_file_groups, "deletes_of_only", stops_at_the_second)
    job = lake.job("rewrite_data_files", report=str(path), **IN_TWO)
    with pytest.raises(IncompleteInterruptedError) if status == "failed" else nullcontext():
        run_job(job, catalog=lake.catalog, runner=LocalRunner(workers=1))
    report = report_at(path)
    assert (report.status, [group.status for group in report.groups]) == (status, ["committed", "dropped"])
    assert report.snapshot_ids == [lake.table.metadata.current_snapshot_id]
    assert {p for p in lake.paths() if p.endswith(".parquet")} == live(lake) | appended, "a file of the dropped group"


def test_a_conversion_names_its_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake, path, calls = with_equality_deletes(), tmp_path / "report.json", list[int]()
    real = GroupBatches.commit

    def stops_at_the_second(*arguments: object) -> object:
        calls.append(1)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(GroupBatches, "commit", stops_at_the_second)
    job = lake.job("convert_equality_deletes", report=str(path), **{"partial-progress.enabled": "true"})
    with pytest.raises(IncompleteInterruptedError):
        run_job(job, catalog=lake.catalog)
    check_named(lake, report_at(path))


@pytest.mark.parametrize(("partial", "when"), [("false", "first group"), ("true", "first group"), ("true", "first commit")])
@pytest.mark.parametrize("job", ["convert_equality_deletes", "rewrite_position_delete_files"])
def test_an_interrupt_leaves_no_file_of_groups_that_were_in_work(
    job: str, partial: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other groups complete only after the interrupt."""
    lake = with_equality_deletes() if job.startswith("convert") else with_position_deletes()
    module, name = (convert_equality_deletes, "converted") if job.startswith("convert") else (positions, "rewritten")
    first, stopped, written = threading.Lock(), threading.Event(), []
    real = getattr(module, name)

    def work(*arguments: Any) -> Any:
        if not first.acquire(blocking=False):
            stopped.wait(20)
        found = real(*arguments)
        written.append(found)
        return found

    def stop(*_: Any) -> None:
        stopped.set()
        raise KeyboardInterrupt

    monkeypatch.setattr(module, name, work)
    before, rows = lake.paths(), lake.rows()
    if when == "first commit":
        monkeypatch.setattr(GroupBatches, "commit", stop)
    monkeypatch.setattr(delete_groups, "usable_cpus", lambda: 2)
    options = {"partial-progress.enabled": partial} | ({} if job.startswith("convert") else {"rewrite-all": "true"})
    with pytest.raises(KeyboardInterrupt):
        run_job(lake.job(job, **options), catalog=lake.catalog, progress=stop if when == "first group" else None)
    assert len(written) > 1
    assert {p for p in lake.paths() if not p.endswith(".json")} == {p for p in before if not p.endswith(".json")}
    assert lake.rows() == rows


def with_position_deletes() -> Lake:
    """Two small delete files in each of three partitions."""
    lake = make_lake(version=2, partitioned=True)
    lake.append(*(numbered(100 * i, 20, region) for i, region in enumerate("abc")))
    for position in (1, 5):
        for task in lake.tasks():
            lake.delete_positions((task, [position]))
    return lake


def test_an_end_of_the_process_keeps_its_own_exception_and_leaves_the_report(tmp_path: Path) -> None:
    lake, path = lake_of_four(), tmp_path / "report.json"
    with pytest.raises(SystemExit):
        run_job(lake.job("rewrite_data_files", report=str(path), **IN_TWO), catalog=lake.catalog, runner=StopsAfterOne(SystemExit))
    check_named(lake, report_at(path))


def test_an_interrupt_of_a_job_that_has_changed_nothing_leaves_a_report_that_says_so(tmp_path: Path) -> None:
    lake, path = lake_of_four(), tmp_path / "report.json"
    job = lake.job("rewrite_data_files", report=str(path), rewrite_all="true", max_file_group_input_files="2")
    with pytest.raises(KeyboardInterrupt) as raised:
        run_job(job, catalog=lake.catalog, runner=StopsAfterOne())
    assert type(raised.value) is KeyboardInterrupt
    report = report_at(path)
    assert (report.status, report.snapshot_ids) == ("failed", [])
    assert report.error is not None
    assert (report.error.code, report.error.message) == ("INTERRUPTED", "stopped by the user")


def test_an_interrupt_on_the_way_of_an_unknown_outcome_is_an_unknown_outcome(tmp_path: Path) -> None:
    def stop() -> BaseException:
        stopped = KeyboardInterrupt()
        stopped.__context__ = CommitStateUnknownError("connection reset")
        return stopped

    lake, path = lake_of_four(), tmp_path / "report.json"
    with pytest.raises(CommitInterruptedError):
        run_job(lake.job("rewrite_data_files", report=str(path), **IN_TWO), catalog=lake.catalog, runner=StopsAfterOne(stop))
    error = report_at(path).error
    assert error is not None
    assert error.code == "COMMIT_STATE_UNKNOWN"


def test_an_end_of_the_process_that_changed_nothing_leaves_a_report(tmp_path: Path) -> None:
    """A signal handler that calls ``sys.exit``, as task queues have."""
    lake, path = lake_of_four(), tmp_path / "report.json"

    def end(_: object) -> None:
        sys.exit(3)

    with pytest.raises(SystemExit) as ended:
        run_job(lake.job("rewrite_data_files", report=str(path), rewrite_all="true"), catalog=lake.catalog, progress=end)
    assert ended.value.code == 3
    report = report_at(path)
    assert (report.status, report.snapshot_ids) == ("failed", [])
    assert report.error is not None
    assert (report.error.code, report.error.message) == ("INTERRUPTED", "the process was told to end")


@pytest.mark.parametrize("after", range(3))
@pytest.mark.parametrize("partial", [True, False])
def test_groups_are_committed_though_their_record_is_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int, partial: bool
) -> None:
    lake, path = lake_of_four(), tmp_path / "report.json"
    rows, real, calls = lake.rows(), Outcome.count, iter(range(100))

    def count(outcome: Outcome, name: str, amount: int) -> None:
        if outcome.changed and next(calls) == after:
            raise KeyboardInterrupt
        real(outcome, name, amount)

    monkeypatch.setattr(Outcome, "count", count)
    options = IN_TWO if partial else {"rewrite_all": "true", "max_file_group_input_files": "2"}
    with pytest.raises(IncompleteInterruptedError):
        run_job(lake.job("rewrite_data_files", report=str(path), **options), catalog=lake.catalog)
    report = report_at(path)
    check_named(lake, report)
    assert report.failures == []
    committed = [group for group in report.groups if group.status == "committed"]
    assert len(committed) == (1 if partial else 2)
    assert (len(lake.tasks()), lake.rows()) == (3 if partial else 2, rows)


@pytest.mark.parametrize("action", ["rewrite_manifests", "rewrite_data_files", "add_files", "compute_table_stats"])
def test_an_interrupt_right_after_a_commit_says_that_it_is_committed(monkeypatch: pytest.MonkeyPatch, action: str) -> None:
    lake = lake_of_four()
    options = {"rewrite_data_files": {"rewrite_all": "true"}, "add_files": {"source_path": place(lake, "memory://import")}}
    step = context.Step

    def stopped(name: str, **given: Any) -> Any:
        if name == "commit":
            raise KeyboardInterrupt
        return step(name=name, **given)

    monkeypatch.setattr(context, "Step", stopped)
    with pytest.raises(IncompleteInterruptedError):
        lake.run(action, **options.get(action, {}))
