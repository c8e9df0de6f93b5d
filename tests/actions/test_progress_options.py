"""Options that control the work commit by commit and file by file have their effect in every action that accepts them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from itertools import pairwise

import pytest

from iceberg_ops.actions import dispatch
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.groups.group_batches import GroupBatches
from iceberg_ops.actions.workers import progress
from iceberg_ops.actions.workers.progress import LOG_SECONDS, Meter
from iceberg_ops.actions.workers.runner import Progress
from iceberg_ops.commit.manifests.snapshot_draft import SnapshotDraft
from iceberg_ops.config.properties import LEDGER_PREFIX
from iceberg_ops.data.deletes import position_deletes
from iceberg_ops.errors import CommitFailedError, CorruptTableError, IncompleteError
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.spec.manifests import ManifestContent
from iceberg_ops.table.manifests import manifests_of
from tests.actions.lake import Lake, make_lake, numbered
from tests.actions.test_housekeeping import later, plant

REGIONS = {"a": 3, "b": 1, "c": 2}
"""Equality deletes by partition."""


def with_equality_deletes() -> Lake:
    lake = make_lake(partitioned=True)
    lake.append(*(numbered(100 * i, 50, region) for i, region in enumerate(REGIONS)))
    for i, (region, count) in enumerate(REGIONS.items()):
        for n in range(count):
            lake.delete_ids(*range(100 * i + 3 * n, 100 * i + 3 * n + 1 + n), partition=(region,))
    return lake


@pytest.mark.parametrize(("commits", "snapshots"), [(1, 1), (2, 2), (3, 3), (10, 3)])
def test_partial_progress_commits_in_batches_of_groups(commits: int, snapshots: int) -> None:
    lake = with_equality_deletes()
    rows = lake.rows()
    options = {"partial-progress.enabled": "true", "partial-progress.max-commits": str(commits)}
    report = run_job(lake.job("convert_equality_deletes", **options), catalog=lake.catalog)
    assert (report.status, len(report.snapshot_ids)) == ("committed", snapshots)
    assert report.metrics["rewritten-delete-files-count"] == sum(REGIONS.values())
    assert lake.rows() == rows
    assert lake.run("convert_equality_deletes").status == "nothing-to-do"


PARTIAL = {"partial-progress.enabled": "true", "partial-progress.max-commits": "3"}


def small_files() -> Lake:
    lake = make_lake(partitioned=True)
    for i in range(6):
        lake.append(*(numbered(100 * i + 10 * n, 5, region) for n, region in enumerate(REGIONS)))
    return lake


@pytest.mark.parametrize(
    ("action", "lake_of"), [("convert_equality_deletes", with_equality_deletes), ("rewrite_data_files", small_files)]
)
def test_a_complete_run_of_several_commits_is_known_by_its_own_key(action: str, lake_of: Callable[[], Lake]) -> None:
    lake = lake_of()
    job = lake.job(action, run_key="night-1", **PARTIAL)
    first = run_job(job, catalog=lake.catalog)
    assert (first.status, len(first.snapshot_ids)) == ("committed", 3)
    lake.append(numbered(900, 5), numbered(910, 5))  # there would be work again
    head = lake.table.metadata.current_snapshot_id
    again = run_job(job, catalog=lake.catalog)
    assert (again.status, again.snapshot_ids) == ("already-committed", first.snapshot_ids[-1:])
    assert lake.table.metadata.current_snapshot_id == head
    assert run_job(lake.job(action, **PARTIAL), catalog=lake.catalog).status != "already-committed"
    assert not [k for k in lake.table.properties if k.startswith(LEDGER_PREFIX) and not k.endswith("night-1")]


def test_a_run_of_several_commits_that_left_something_is_not_known_by_its_key() -> None:
    lake = with_equality_deletes()
    broken = next(t for t in lake.tasks() if t.data_file.partition == ("b",)).file_path
    content = lake.table.io.read(broken)
    lake.table.io.write(broken, b"broken", overwrite=True)
    job = lake.job("convert_equality_deletes", run_key="night-1", **PARTIAL)
    assert run_job(job, catalog=lake.catalog).status == "partially-committed"
    lake.table.io.write(broken, content, overwrite=True)
    assert run_job(job, catalog=lake.catalog).status == "committed"
    assert run_job(job, catalog=lake.catalog).status == "already-committed"


def test_a_run_whose_key_can_not_be_recorded_is_done_all_the_same(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> object:
        raise CommitFailedError("the catalog is busy")

    monkeypatch.setattr(dispatch, "commit", refuse)
    lake = with_equality_deletes()
    job = lake.job("convert_equality_deletes", run_key="night-1", **PARTIAL)
    assert run_job(job, catalog=lake.catalog).status == "committed"
    assert "run key night-1 could not be recorded: the catalog is busy" in caplog.text
    assert run_job(job, catalog=lake.catalog).status == "nothing-to-do"


def test_one_commit_is_what_happens_otherwise_and_a_failure_leaves_nothing() -> None:
    lake = with_equality_deletes()
    broken = next(t for t in lake.tasks() if t.data_file.partition == ("b",)).file_path
    lake.table.io.write(broken, b"broken", overwrite=True)
    head, before = lake.table.metadata.current_snapshot_id, lake.paths()
    with pytest.raises(CorruptTableError):
        lake.run("convert_equality_deletes")
    assert (lake.table.metadata.current_snapshot_id, lake.paths()) == (head, before)


def test_with_partial_progress_a_failed_group_costs_only_itself() -> None:
    lake = with_equality_deletes()
    broken = next(t for t in lake.tasks() if t.data_file.partition == ("b",)).file_path
    lake.table.io.write(broken, b"broken", overwrite=True)
    report = lake.run("convert_equality_deletes", **{"partial-progress.enabled": True})
    assert report.status == "partially-committed"
    statuses = sorted((group.input_files, group.status) for group in report.groups)
    assert statuses == [(1, "failed"), (2, "committed"), (3, "committed")]
    assert next(g for g in report.groups if g.status == "failed").reason.startswith("CORRUPT_TABLE")


def test_failed_commits_beyond_the_limit_fail_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = with_equality_deletes()
    real, calls = GroupBatches.commit, []

    def every_second(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) % 2 == 0:
            raise CommitFailedError("refused")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(GroupBatches, "commit", every_second)
    options = {"enabled": True, "max-commits": 3, "max-failed-commits": 0}
    says = r"is committed \(snapshot \d+, \d+\); .*: 1 commits failed, more than .*max-failed-commits 0: COMMIT_FAILED: refused"
    with pytest.raises(IncompleteError, match=says):
        lake.run("convert_equality_deletes", **{f"partial-progress.{name}": value for name, value in options.items()})


@pytest.mark.parametrize(("order", "expected"), [("files-asc", [1, 2, 3]), ("files-desc", [3, 2, 1])])
def test_groups_are_worked_in_the_order_asked_for(order: str, expected: list[int]) -> None:
    lake = with_equality_deletes()
    seen: list[Progress] = []
    options = {"rewrite-job-order": order, "max-concurrent-file-group-rewrites": "1"}
    run_job(lake.job("convert_equality_deletes", **options), catalog=lake.catalog, progress=seen.append)
    done = [0, *(p.works_done for p in seen if p.what == "rewriting")]
    assert [b - a for a, b in pairwise(done)] == expected
    assert (seen[-1].works, seen[-1].bytes_done) == (6, seen[-1].bytes)


def manifest_work(action: str, options: dict[str, str]) -> tuple[Lake, list[Progress]]:
    """Six appends and a delete, and what ``action`` then tells."""
    lake = with_equality_deletes()
    seen: list[Progress] = []
    report = run_job(lake.job(action, **options), catalog=lake.catalog, progress=seen.append)
    assert report.status == "committed"
    return lake, seen


def test_manifests_that_are_rewritten_are_counted_as_they_are_read_and_entries_as_they_are_written() -> None:
    before = with_equality_deletes()
    found = manifests_of(before.table, before.table.metadata.current_snapshot)
    deletes = [m for m in found if m.content is ManifestContent.DELETES]  # the one manifest of data files stays
    _, seen = manifest_work("rewrite_manifests", {})
    reading = [p for p in seen if p.what == "reading"]
    assert [(p.works_done, p.works, p.unit) for p in reading] == [(i + 1, len(deletes), "manifests") for i in range(len(deletes))]
    assert reading[-1].bytes_done == reading[-1].bytes == pytest.approx(sum(m.manifest_length for m in deletes), rel=0.01)
    assert [(p.works_done, p.works, p.unit) for p in seen if p.what == "writing"] == [(6, 6, "entries")]


def test_manifests_that_statistics_are_made_of_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    with caplog.at_level(logging.INFO, "iceberg_ops"):
        lake, seen = manifest_work("compute_partition_stats", {})
    manifests = manifests_of(lake.table, lake.table.metadata.current_snapshot)
    assert [(p.what, p.works_done, p.works) for p in seen] == [("reading", i + 1, len(manifests)) for i in range(len(manifests))]
    assert seen[-1].bytes_done == seen[-1].bytes == sum(m.manifest_length for m in manifests)
    said = [text for text in caplog.messages if "reading" in text]
    assert said[0].startswith(f"compute_partition_stats test.ns.t: reading 1 of {len(manifests)} manifests, ")


class Deleting(MemoryFileIO):
    """Notes how files are deleted, and how many at a time."""

    bulk: list[int]
    most = now = 0

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        found = list(locations)
        self.bulk.append(len(found))
        return super().delete_many(found)

    def delete(self, location: str) -> None:
        with self.guard:
            self.now += 1
            self.most = max(self.most, self.now)
        super().delete(location)
        with self.guard:
            self.now -= 1


@pytest.mark.parametrize("action", ["remove_orphan_files", "expire_snapshots"])
def test_no_more_files_are_deleted_at_a_time_than_asked_for(action: str) -> None:
    lake = make_lake()
    for i in range(4):
        lake.append(numbered(i * 10, 10))
    lake.run("rewrite_data_files", rewrite_all=True)
    for i in range(20):
        plant(lake, f"data/stray-{i}.parquet")
    io = lake.table.io
    assert isinstance(io, MemoryFileIO)
    io.__class__ = Deleting
    assert isinstance(io, Deleting)
    io.bulk, io.guard = [], threading.Lock()
    report = lake.run(action, now=lambda: later(6), max_concurrent_deletes=2)
    assert report.status == "committed"
    assert 0 < io.most <= 2
    assert set(io.bulk) <= {1}, "only notes of the action itself go in bulk, one by one"


def test_the_report_names_every_file_where_results_are_not_streamed() -> None:
    lake = make_lake()
    lake.append(numbered(0, 10))
    for i in range(1_010):
        plant(lake, f"data/stray-{i}.parquet")
    few = lake.run("remove_orphan_files", now=lambda: later(4), dry_run=True)
    assert (len(few.files), few.metrics["orphan-files-count"]) == (1_000, 1_010)
    assert len(lake.run("remove_orphan_files", now=lambda: later(4), dry_run=True, stream_results=False).files) == 1_010


def test_the_log_says_how_far_long_work_is_and_nothing_of_short_work(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    meter = Meter("rewriting", 4, 4 * 2**20, unit="files", subject="rewrite_data_files lake.web.t", clock=lambda: now)
    with caplog.at_level(logging.INFO, "iceberg_ops"):
        now = LOG_SECONDS - 1
        meter.advance(1, 2**20)
        assert caplog.messages == []
        now = 2 * LOG_SECONDS
        meter.part("g2", 2**20)
        meter.part("g2", 0)
        meter.advance(1, 2**20)
    assert caplog.messages == ["rewrite_data_files lake.web.t: rewriting 1 of 4 files, 2.0 of 4.0 MiB, 0:20 left"]


def of_each_region() -> Lake:
    lake = make_lake(partitioned=True, properties={"write.delete.granularity": "partition"})
    lake.append(*(numbered(100 * i, 20, region) for i, region in enumerate(REGIONS)))
    return lake


def with_position_deletes() -> Lake:
    lake = of_each_region()
    for k in range(5):
        for task in lake.tasks():
            lake.delete_positions((task, [k]))
    return lake


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), ValueError("odd"), OSError(24, "Too many open files")])
@pytest.mark.parametrize(
    ("action", "lake_of"),
    [
        ("rewrite_position_delete_files", with_position_deletes),
        ("convert_equality_deletes", with_equality_deletes),
        ("rewrite_data_files", with_position_deletes),
    ],
)
def test_a_group_costs_only_itself_whatever_error_it_meets(
    action: str, lake_of: Callable[[], Lake], error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = lake_of()
    rows = lake.rows()
    position_deletes._cached.cache_clear()
    task = next(t for t in lake.tasks() if t.data_file.partition == ("b",))
    bad = task.file_path if action.startswith("convert") else task.deletes[0].file_path
    real = MemoryFileIO.read

    def read(io: MemoryFileIO, location: str) -> bytes:
        if location == bad:
            raise error
        return real(io, location)

    before = lake.paths()
    with monkeypatch.context() as patched:
        patched.setattr(MemoryFileIO, "read", read)
        more = {} if action.startswith("convert") else {"rewrite_all": "true"}
        report = lake.run(action, **PARTIAL, **more)
    assert report.status == "partially-committed"
    failed = [group for group in report.groups if group.status == "failed"]
    assert [group.status for group in report.groups].count("committed") == 2
    assert (len(failed), str(error).rpartition("] ")[2][:8] in failed[0].reason or "open files" in failed[0].reason) == (1, True)
    assert lake.rows() == rows
    used = {path for t in lake.tasks() for path in (t.file_path, *(d.file_path for d in t.deletes))}
    assert {path for path in lake.paths() - before if path.endswith(".parquet")} <= used


def test_without_partial_progress_an_untyped_error_of_a_group_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = with_position_deletes()
    position_deletes._cached.cache_clear()
    bad = next(t.deletes[0].file_path for t in lake.tasks() if t.data_file.partition == ("b",))
    real, before = MemoryFileIO.read, lake.paths()

    def read(io: MemoryFileIO, location: str) -> bytes:
        if location == bad:
            raise ValueError("odd")
        return real(io, location)

    monkeypatch.setattr(MemoryFileIO, "read", read)
    with pytest.raises(ValueError, match="odd"):
        lake.run("rewrite_position_delete_files", rewrite_all="true")
    assert lake.paths() == before


@pytest.mark.parametrize("action", ["rewrite_data_files", "convert_equality_deletes"])
def test_a_batch_whose_commit_meets_an_untyped_error_costs_only_itself(action: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = with_equality_deletes()
    rows = lake.rows()
    real, calls = SnapshotDraft.stage, []

    def second_fails(*arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            raise PermissionError(13, "Permission denied")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(SnapshotDraft, "stage", second_fails)
    report = lake.run(action, **PARTIAL, **({"rewrite_all": "true"} if action == "rewrite_data_files" else {}))
    assert (report.status, len(report.snapshot_ids)) == ("partially-committed", 2)
    assert lake.rows() == rows
