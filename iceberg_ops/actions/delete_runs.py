"""The run that the rewrite of position delete files and the conversion of equality deletes share: report the plan, work group by
group under a lease, commit. What a group's work is, and which operation commits it, each action says itself."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from types import TracebackType
from typing import Generic, Protocol, TypeVar

from msgspec.structs import replace

from iceberg_ops.actions.context import Run
from iceberg_ops.actions.delete_commits import RewrittenDeletes, commit_deletes
from iceberg_ops.actions.group_failures import ending_of, text_of
from iceberg_ops.actions.progress import Meter
from iceberg_ops.actions.staged_files import delete_staged
from iceberg_ops.actions.worker_processes import usable_cpus
from iceberg_ops.commit.operation import Operation
from iceberg_ops.config.options import ProgressOptions
from iceberg_ops.config.report import GroupReport, SkippedFile
from iceberg_ops.deletion.gate import outcome_unknown
from iceberg_ops.errors import CommitFailedError
from iceberg_ops.io.machine_limits import typed_os_errors
from iceberg_ops.planning.file_groups import in_job_order
from iceberg_ops.scan.tasks import DeleteFile


class PlannedDeletes(Protocol):
    """A planned group of delete files."""

    @property
    def group_id(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def input_bytes(self) -> int: ...
    @property
    def input_files(self) -> int: ...
    @property
    def deletes(self) -> Sequence[DeleteFile]: ...


class LeftAlone(Protocol):
    """A file that the plan left alone, and why."""

    @property
    def file_path(self) -> str: ...
    @property
    def reason(self) -> str: ...


G = TypeVar("G", bound=PlannedDeletes)


def report_plan(
    run: Run, plan_id: str, groups: Sequence[G], skipped: Sequence[LeftAlone], partition_of: Callable[[G], str] = lambda g: ""
) -> None:
    """What was planned, into the outcome."""
    outcome = run.outcome
    outcome.plan_id = plan_id
    outcome.metrics["planned-groups-count"] = len(groups)
    outcome.metrics["planned-delete-files-count"] = sum(len(g.deletes) for g in groups)
    outcome.metrics["skipped-files-count"] = len(skipped)
    outcome.skipped = [SkippedFile(file_path=s.file_path, reason=s.reason) for s in skipped]
    for group in groups:
        outcome.groups[group.group_id] = GroupReport(
            group_id=group.group_id,
            status="planned",
            partition=partition_of(group),
            reason=group.reason,
            input_files=len(group.deletes),
            input_bytes=group.input_bytes,
        )


OperationOf = Callable[[Sequence[RewrittenDeletes], str], Operation]
"""The operation that commits groups, under a run key."""


def run_groups(
    run: Run,
    snapshot_id: int,
    groups: Sequence[G],
    work: Callable[[G], RewrittenDeletes],
    operation_of: OperationOf,
    progress: ProgressOptions,
) -> None:
    """Do every group's work under a lease on the starting snapshot, several at a time, and commit: all groups at once, or with
    partial progress in batches as they complete.

    Without partial progress a group's failure is raised, and staged files go; with it the group is reported as failed.
    """
    meter = run.meter("rewriting", sum(len(g.deletes) for g in groups), sum(g.input_bytes for g in groups), unit="delete files")
    ordered = in_job_order(groups, progress.rewrite_job_order)
    with run.lease(snapshot_id):
        with _Works(ordered, work, min(progress.max_concurrent_file_group_rewrites, usable_cpus())) as works:
            answers = _told(works, meter)
            if progress.partial_progress:
                _partially(run, works, answers, operation_of, progress)
                return
            done = _all(run, works, answers)
        with run.step("commit") as detail:
            commit_deletes(run, done, lambda left: operation_of(left, run.run_key))
            detail.append(f"{run.outcome.attempts} attempts")


class _Works(Generic[G]):
    """Groups in work, answered as they complete: what a group became, or the error it met.

    A run that gives up ends its works first: a group that is in work completes, and what it wrote is known only then."""

    def __init__(self, groups: Sequence[G], work: Callable[[G], RewrittenDeletes], at_once: int) -> None:
        self._work = work
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="deletes")
        self._pending = [self._threads.submit(self._attempt, group) for group in groups]

    def __enter__(self) -> _Works[G]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end()

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[tuple[G, RewrittenDeletes | Exception]]:
        for future in as_completed(self._pending):
            if not future.cancelled():
                yield future.result()

    def stop(self) -> None:
        """Begin no other group; those in work are still answered for."""
        for future in self._pending:
            future.cancel()

    def discard(self, run: Run, error: BaseException, settled: Collection[str] = ()) -> None:
        """Give up: begin no other group, wait for those in work, and delete what all of them wrote, answered for or not, but for
        the ``settled`` groups, of which a commit was tried."""
        self._end()
        done = [f.result()[1] for f in self._pending if not f.cancelled() and f.exception() is None]
        left = [g for g in done if isinstance(g, RewrittenDeletes) and g.group_id not in settled]
        delete_staged(run, [f.file_path for g in left for f in g.added], after=error)

    def _end(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)

    def _attempt(self, group: G) -> tuple[G, RewrittenDeletes | Exception]:
        try:
            with typed_os_errors():
                return group, self._work(group)
        except Exception as e:  # noqa: BLE001 - a group that fails costs only itself, whatever it met
            return group, e


Answers = Iterator[tuple[PlannedDeletes, RewrittenDeletes | Exception]]


def _told(works: _Works[G], meter: Meter) -> Iterator[tuple[G, RewrittenDeletes | Exception]]:
    for group, found in works:
        meter.advance(len(group.deletes), group.input_bytes)
        yield group, found


def _all(run: Run, works: _Works[G], answers: Answers) -> list[RewrittenDeletes]:
    """Every group's result, in the plan's order. The first failure stops what has not begun, and is raised when the rest is."""
    done: list[RewrittenDeletes] = []
    failure: Exception | None = None
    try:
        with run.step("run"):
            for _, found in answers:
                if isinstance(found, RewrittenDeletes):
                    done.append(found)
                else:
                    failure = failure or found
                    works.stop()
            if failure is not None:
                raise failure
    except BaseException as e:
        works.discard(run, e)
        raise
    return sorted(done, key=lambda g: g.group_id)


def _partially(run: Run, works: _Works[G], answers: Answers, operation_of: OperationOf, progress: ProgressOptions) -> None:
    """Commit in up to ``partial-progress.max-commits`` batches. Raises CommitFailedError for too many failed ones, and the last
    error where nothing was committed."""
    per_commit = -(-len(works) // progress.max_commits)
    batch: list[RewrittenDeletes] = []
    errors: list[Exception] = []
    failed_commits = 0
    elsewhere: set[str] = set()
    settled: set[str] = set()

    def commit_batch() -> None:
        nonlocal failed_commits
        key = _batch_key(run, batch)
        try:
            if not commit_deletes(run, batch, lambda left: operation_of(left, key)):
                elsewhere.update(group.group_id for group in batch)
        except Exception as e:
            if outcome_unknown(e) is not None:
                raise
            errors.append(e)
            failed_commits += 1
        settled.update(group.group_id for group in batch)
        batch.clear()

    try:
        with run.step("run and commit") as detail:
            for group, found in answers:
                if isinstance(found, RewrittenDeletes):
                    batch.append(found)
                else:
                    errors.append(found)
                    _record_failure(run, group, found)
                if len(batch) >= per_commit:
                    commit_batch()
            if batch:
                commit_batch()
            detail.append(f"{len(run.outcome.snapshot_ids)} commits, {failed_commits} failed")
    except BaseException as e:
        works.discard(run, e, settled)
        raise
    if errors and not run.outcome.snapshot_ids:
        raise ending_of(errors, "no group could be committed")
    if failed_commits > progress.max_failed_commits:
        raise CommitFailedError(
            f"{failed_commits} commits failed, more than partial-progress.max-failed-commits {progress.max_failed_commits}: "
            f"{text_of(errors[-1])}"
        )
    run.outcome.conclude_groups(elsewhere)


def _record_failure(run: Run, group: PlannedDeletes, error: Exception) -> None:
    planned = run.outcome.groups[group.group_id]
    run.outcome.groups[group.group_id] = replace(planned, status="failed", reason=text_of(error))


def _batch_key(run: Run, batch: Sequence[RewrittenDeletes]) -> str:
    """The run's key and what the batch replaces: a run that is done again never takes another batch's commit for its own."""
    digest = hashlib.sha256()
    for f in sorted((f.file_path, f.content_offset or 0) for g in batch for f in g.removed):
        digest.update(f"{f[0]}\0{f[1]}\0".encode())
    return f"{run.run_key}/{digest.hexdigest()[:12]}"
