"""The run that the rewrite of position delete files and the conversion of equality deletes share: report the plan, work group by
group under a lease, commit. What a group's work is, and which operation commits it, each action says itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from iceberg_ops.actions.context import Run
from iceberg_ops.actions.delete_commits import RewrittenDeletes, commit_deletes
from iceberg_ops.actions.staged_files import delete_staged
from iceberg_ops.commit.operation import Operation
from iceberg_ops.config.report import GroupReport, SkippedFile
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


def run_groups(
    run: Run,
    snapshot_id: int,
    groups: Sequence[G],
    work: Callable[[G], RewrittenDeletes],
    operation_of: Callable[[Sequence[RewrittenDeletes]], Operation],
) -> None:
    """Do every group's work under a lease on the starting snapshot, then commit. Staged files go when the work fails."""
    with run.lease(snapshot_id) as renew:
        done: list[RewrittenDeletes] = []
        try:
            with run.step("run"):
                for group in groups:
                    done.append(work(group))
                    renew()
        except Exception:
            delete_staged(run.table.io, [f.file_path for g in done for f in g.added])
            raise
        with run.step("commit") as detail:
            commit_deletes(run, done, operation_of)
            detail.append(f"{run.outcome.attempts} attempts")
