"""The report of a job in which groups or commits failed: each failure has its own code, and none hides another."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest

from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.runner import GroupFailure
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.deletion.gate import outcome_unknown
from iceberg_ops.errors import (
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    CorruptTableError,
    IcebergOpsError,
    IncompleteError,
    ValidationError,
)
from tests.actions.lake import Lake, make_lake, numbered

NO_RETRIES = {"commit.retry.num-retries": "0", "commit.status-check.num-retries": "0"}
PARTIAL = {"partial-progress.enabled": "true"}
IN_TWO = {
    "rewrite_all": "true",
    "max_file_group_input_files": "2",
    "partial-progress.enabled": "true",
    "partial-progress.max-commits": "2",
}


def lake_of(files: int, **properties: str) -> Lake:
    lake = make_lake(properties={**NO_RETRIES, **properties})
    for i in range(files):
        lake.append(numbered(10 * i, 5))
    return lake


@pytest.mark.parametrize("options", [{}, PARTIAL], ids=["at once", "partial progress"])
@pytest.mark.parametrize("job", ["rewrite_data_files", "rewrite_position_delete_files", "convert_equality_deletes"])
def test_where_every_group_fails_the_job_ends_with_the_code_of_the_failure(job: str, options: dict[str, str]) -> None:
    lake = lake_of(2)
    for task in lake.tasks():
        lake.delete_positions((task, [1]))
    lake.delete_ids(3, 13)
    if job == "rewrite_position_delete_files":
        gone = next(d.file_path for d in lake.tasks()[0].deletes if not d.is_equality)
    else:
        gone = lake.tasks()[0].file_path
    lake.table.io.delete(gone)
    all_files = {"rewrite_all": "true"} if job != "convert_equality_deletes" else {}
    with pytest.raises(CorruptTableError, match=f"{gone} does not exist"):
        lake.run(job, **all_files, **options)


@pytest.mark.parametrize("options", [{}, PARTIAL], ids=["at once", "partial progress"])
@pytest.mark.parametrize("error", [CommitFailedError, CatalogUnavailableError, ValidationError])
def test_where_every_commit_fails_the_job_ends_with_the_code_of_the_commit(
    error: Callable[[str], IcebergOpsError], options: dict[str, str]
) -> None:
    lake = lake_of(2)

    def refused(*_: Any) -> Any:
        raise error("refused")

    lake.catalog.commit_table = refused  # type: ignore[method-assign]
    with pytest.raises(IcebergOpsError) as raised:
        lake.run("rewrite_data_files", rewrite_all="true", **options)
    assert type(raised.value) is error


def test_several_failures_are_counted_in_the_message() -> None:
    lake = lake_of(4)
    for task in lake.tasks():
        lake.table.io.delete(task.file_path)
    with pytest.raises(CorruptTableError, match="and 1 more failure"):
        lake.run("rewrite_data_files", **IN_TWO)


class Dies(LocalRunner):
    """Is gone after its first group."""

    def limited(self, workers: int) -> LocalRunner:
        return self

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        yield next(iter(LocalRunner(workers=1).run(works[:1])))
        raise KeyboardInterrupt


class Meets(Dies):
    """While it works, another process of the same run commits its first group; its own second one fails or not."""

    def __init__(self, lake: Lake, *, fails: bool) -> None:
        super().__init__(workers=1)
        self.lake, self.fails = lake, fails

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        with pytest.raises(KeyboardInterrupt):
            self.lake.run("rewrite_data_files", runner=Dies(workers=1), run_key="night", **IN_TWO)
        yield next(iter(LocalRunner(workers=1).run(works[:1])))
        yield (
            GroupFailure(works[1].group_id, "INTERNAL", "worker lost")
            if self.fails
            else next(iter(LocalRunner(workers=1).run(works[1:])))
        )


def meeting(*, fails: bool) -> ActionReport:
    lake = lake_of(4)
    return lake.run("rewrite_data_files", runner=Meets(lake, fails=fails), run_key="night", **IN_TWO)


def test_a_failed_group_is_not_hidden_by_one_that_the_same_run_has_committed_before() -> None:
    report = meeting(fails=True)
    assert report.status == "partially-committed"
    assert [(g.status, g.reason) for g in report.groups] == [
        ("dropped", "the same run key was committed by another process"),
        ("failed", "INTERNAL: worker lost"),
    ]


def test_groups_committed_here_and_by_another_process_of_the_run_are_a_complete_run() -> None:
    assert meeting(fails=False).status == "committed"


def unanswered_once(lake: Lake) -> list[int]:
    """The first swap gets no answer and did nothing, because another writer won. Returns what counts the swaps."""
    commit_table, calls = lake.catalog.commit_table, list[int]()

    def commit_once(*args: Any) -> Any:
        calls.append(1)
        if len(calls) == 1:
            lake.append(numbered(500, 3))
            raise CommitStateUnknownError("connection reset")
        return commit_table(*args)

    lake.catalog.commit_table = commit_once  # type: ignore[method-assign]
    return calls


def left_of(lake: Lake) -> list[str]:
    live = {task.file_path for task in lake.tasks()}
    return [p for p in lake.paths() if "/leases/" in p or ("/data/" in p and p not in live and "append" not in p)]


def test_after_an_outcome_that_was_found_out_nothing_of_the_attempt_stays() -> None:
    lake = lake_of(4)
    unanswered_once(lake)
    with pytest.raises(CommitFailedError, match="got no answer and was not committed"):
        lake.run("rewrite_data_files", rewrite_all="true")
    assert left_of(lake) == []


def test_an_outcome_that_was_found_out_costs_only_its_batch() -> None:
    lake = lake_of(4)
    unanswered_once(lake)
    report = lake.run("rewrite_data_files", **IN_TWO)
    assert report.status == "partially-committed"
    assert [g.reason[:14] for g in report.groups if g.status == "dropped"] == ["COMMIT_FAILED:"]
    assert left_of(lake) == []


def test_an_error_after_an_outcome_that_was_found_out_is_no_unknown_outcome() -> None:
    def look() -> None:
        try:
            raise CommitFailedError("not committed") from CommitStateUnknownError("connection reset")
        except CommitFailedError:
            raise CatalogUnavailableError("away")  # noqa: B904 - the case

    with pytest.raises(CatalogUnavailableError) as raised:
        look()
    assert outcome_unknown(raised.value) is None


def test_a_refusal_that_only_followed_an_unknown_outcome_leaves_it_unknown() -> None:
    def look() -> None:
        try:
            raise CommitStateUnknownError("connection reset")
        except CommitStateUnknownError:
            raise CommitFailedError("another swap was refused")  # noqa: B904 - the case

    with pytest.raises(CommitFailedError) as raised:
        look()
    assert str(outcome_unknown(raised.value)) == "connection reset"


def test_what_is_committed_and_what_failed_are_both_in_the_error() -> None:
    lake = lake_of(8)
    commit_table, calls = lake.catalog.commit_table, list[int]()

    def first_only(*args: Any) -> Any:
        calls.append(1)
        if len(calls) > 1:
            raise CommitFailedError("refused")
        return commit_table(*args)

    lake.catalog.commit_table = first_only  # type: ignore[method-assign]
    options = {**IN_TWO, "partial-progress.max-commits": "4", "partial-progress.max-failed-commits": "1"}
    with pytest.raises(IncompleteError, match=r"is committed \(snapshot \d+\).*3 commits failed.*COMMIT_FAILED: refused"):
        lake.run("rewrite_data_files", **options)
