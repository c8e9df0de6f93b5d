"""Rewrites in several batches, beside other processes with the same run key and catalogs that answer late."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import pytest

from iceberg_ops.actions.groups import group_batches
from iceberg_ops.actions.workers.runner import GroupFailure
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.config.options import rewrite_data_files_options
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.errors import CommitInterruptedError
from iceberg_ops.planning.file_groups import FileGroup
from iceberg_ops.planning.rewrite_data_files import plan_rewrite_data_files
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake, make_lake, numbered
from tests.actions.test_rewrite_data_files import Failing, Meddling, Once, small_files
from tests.catalog.wrappers import Wrapped


def test_deletes_stay_where_another_process_of_the_run_key_left_a_group_out() -> None:
    """A delete file of the first and the third group was to go with the third; the other process lost the first to a conflict."""
    lake = make_lake(version=2)
    small_files(lake)
    options: dict[str, Any] = {"rewrite_all": True, "max_file_group_input_files": 2, "run_key": "night"}
    options |= {"partial-progress.enabled": "true", "partial-progress.max-commits": "2"}
    first, *_, third = _groups(lake, options)
    lake.delete_positions((first.tasks[1], [0]), (third.tasks[0], [0]))

    class Dies(Failing):
        def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
            commit(lake.catalog, lake.table, DeleteFiles(paths=(first.tasks[0].file_path,)))
            yield from super().run(works[:2])
            raise SystemExit

    def other_process() -> None:
        with pytest.raises(SystemExit):
            lake.run("rewrite_data_files", runner=Dies(), **options)

    report = lake.run("rewrite_data_files", runner=Meddling(other_process, first=True), **options)
    assert [group.status for group in report.groups] == ["dropped", "dropped", "committed"]
    assert len(lake.rows()) == 498
    assert report.status == "partially-committed"
    assert lake.run("rewrite_data_files", **options).status == "committed"


def _groups(lake: Lake, options: dict[str, Any]) -> Sequence[FileGroup]:
    found = rewrite_data_files_options(lake.job("rewrite_data_files", **options).options, lake.table.properties)
    return plan_rewrite_data_files(lake.table, found, None, MAIN_BRANCH).groups


def test_what_is_planned_again_with_partial_progress_does_not_stand_for_the_whole_run() -> None:
    lake = make_lake(partitioned=True)
    small_files(lake, region="a")
    small_files(lake, region="b", start=1000)
    a, b = _groups(lake, {})

    class MeddlingAndFailing(Failing):
        def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
            if any(work.group_id.startswith(a.group_id) for work in works):
                commit(lake.catalog, lake.table, DeleteFiles(paths=(a.tasks[0].file_path,)))
            yield from super().run(works)

    options = {"partial-progress.enabled": "true", "run_key": "night"}
    report = lake.run("rewrite_data_files", runner=MeddlingAndFailing(b.group_id), **options)
    assert (report.status, [group.status for group in report.groups]) == (
        "partially-committed",
        ["re-planned", "failed", "committed"],
    )
    assert lake.run("rewrite_data_files", **options).status == "committed"
    assert len(lake.tasks()) == 2
    assert lake.run("rewrite_data_files", **options).status == "already-committed"


def test_files_of_committed_batches_stay_where_the_catalog_answers_with_an_older_state() -> None:
    lake = make_lake(partitioned=True)
    for i, region in enumerate("abc"):
        small_files(lake, region=region, start=1000 * i)
    catalog = Stale(lake.catalog)

    class FailingAndStale(Failing):
        def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
            planned = lake.table
            yield from super().run(works)
            catalog.stale = planned

    options = {"partial-progress.enabled": "true", "partial-progress.max-commits": "3"}
    report = lake.run("rewrite_data_files", runner=FailingAndStale("g0002"), catalog=catalog, **options)
    assert [group.status for group in report.groups] == ["committed", "failed", "committed"]
    assert report.failures == []
    assert len(lake.rows()) == 1800


class Stale(Wrapped):
    """Answers with ``stale``, once there is one."""

    stale: Table | None = None

    def load_table(self, identifier: tuple[str, ...]) -> Table:
        return self.stale or self.inner.load_table(identifier)  # type: ignore[no-any-return]


@pytest.mark.parametrize("partial", ["false", "true"])
def test_dangling_deletes_that_another_process_of_the_run_key_removed_are_not_reported_as_committed(partial: str) -> None:
    lake = make_lake(partitioned=True)
    lake.append(numbered(0, 10, "a"))
    lake.delete_ids(5, partition=("nowhere",))
    options: dict[str, Any] = {"remove_dangling_deletes": True, "run_key": "night", "partial-progress.enabled": partial}
    others = Once(lambda: lake.run("rewrite_data_files", **options))
    report = lake.run("rewrite_data_files", runner=Meddling(others), **options)
    assert (report.status, report.metrics["removed-delete-files-count"]) == ("already-committed", 0)


@pytest.mark.parametrize("partial", ["false", "true"])
def test_dangling_deletes_that_another_run_removed_are_nothing_to_do(partial: str) -> None:
    lake = make_lake(partitioned=True)
    lake.append(numbered(0, 10, "a"))
    lake.delete_ids(5, partition=("nowhere",))
    options: dict[str, Any] = {"remove_dangling_deletes": True, "partial-progress.enabled": partial}
    options["partial-progress.max-failed-commits"] = "0"
    others = Once(lambda: lake.run("rewrite_data_files", **options))
    report = lake.run("rewrite_data_files", runner=Meddling(others), **options)
    assert (report.status, report.metrics["removed-delete-files-count"], report.snapshot_ids) == ("nothing-to-do", 0, [])


def test_files_that_another_process_of_the_run_key_rewrote_are_not_counted_as_failed() -> None:
    lake = make_lake()
    small_files(lake)
    others = Once(lambda: lake.run("rewrite_data_files", run_key="night"))
    report = lake.run("rewrite_data_files", runner=Meddling(others), run_key="night")
    assert (report.status, report.metrics["failed-data-files-count"]) == ("already-committed", 0)


def test_files_of_a_commit_stay_where_an_interrupt_follows_it_and_the_catalog_answers_with_an_older_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lake = make_lake()
    small_files(lake)
    planned, catalog = lake.table, Stale(lake.catalog)

    def interrupted(**_: Any) -> None:
        catalog.stale = planned
        raise KeyboardInterrupt

    monkeypatch.setattr(group_batches, "CarriedOver", interrupted)
    with pytest.raises(CommitInterruptedError):
        lake.run("rewrite_data_files", catalog=catalog)
    assert [lake.table.io.exists(task.file_path) for task in lake.tasks()] == [True]
