"""The shared part of the rewrite of position delete files and the conversion of equality deletes: groups of delete files.

Each action defines the work of a group and the operation that commits it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from iceberg_ops.actions.groups.group_commits import GroupCommits
from iceberg_ops.actions.groups.group_plans import Batch, GroupPlan, GroupStrategy
from iceberg_ops.actions.groups.group_threads import SizedGroup, worked_on_threads
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Findings, Result
from iceberg_ops.actions.workers.worker_processes import usable_cpus
from iceberg_ops.commit.operations.carried_over import CarriedOver
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.config.options import ProgressOptions
from iceberg_ops.config.report import Certificate, GroupReport, SkippedFile
from iceberg_ops.planning.file_groups import in_job_order
from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.spec.content_files import DataFile


class PlannedDeletes(SizedGroup, Protocol):
    """A planned group of delete files."""

    @property
    def partition_path(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def deletes(self) -> Sequence[DeleteFile]: ...


class SkippedItem(Protocol):
    """A file that the plan left alone, and why."""

    @property
    def file_path(self) -> str: ...
    @property
    def reason(self) -> str: ...


G = TypeVar("G", bound=PlannedDeletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenDeletes:
    """The result of a group of deletes. ``data_files`` are those its new deletes name; ``positions`` is how many they delete."""

    group_id: str
    removed: tuple[DataFile, ...]
    added: tuple[DataFile, ...]
    data_files: tuple[str, ...]
    positions: int

    @property
    def named(self) -> tuple[str, ...]:
        return (*self.data_files, *(f.file_path for f in self.removed))

    @property
    def input_files(self) -> int:
        return len(self.removed)

    @property
    def input_bytes(self) -> int:
        return sum(f.stored_bytes for f in self.removed)

    @property
    def output_bytes(self) -> int:
        return sum(f.stored_bytes for f in self.added)

    @property
    def certificate(self) -> Certificate:
        """Positions: read before, written after."""
        return Certificate(rows_in=self.positions, rows_out=sum(f.record_count for f in self.added))


OperationOf = Callable[[Sequence[RewrittenDeletes], str], Operation]
"""The operation that commits groups, under a run key."""


@dataclass(frozen=True, kw_only=True)
class _DeleteStrategy(GroupStrategy[RewrittenDeletes]):
    operation_of: OperationOf

    def operation(self, groups: Sequence[RewrittenDeletes], batch: Batch) -> Operation:
        return self.operation_of(groups, batch.run_key)

    def counts(self, groups: Sequence[RewrittenDeletes], batch: Batch, done: CarriedOver) -> Mapping[str, int]:
        return {
            "rewritten-delete-files-count": sum(len(group.removed) for group in groups),
            "rewritten-bytes-count": sum(group.input_bytes for group in groups),
            "added-delete-files-count": sum(len(group.added) for group in groups),
            "added-bytes-count": sum(group.output_bytes for group in groups),
            "deleted-positions-count": sum(group.positions for group in groups),
        }


def planned_deletes(plan_id: str, groups: Sequence[PlannedDeletes], skipped: Sequence[SkippedItem]) -> Findings:
    """The content of the report for a plan."""
    return Findings(
        plan_id=plan_id,
        metrics={
            "planned-groups-count": len(groups),
            "planned-delete-files-count": sum(len(g.deletes) for g in groups),
            "skipped-files-count": len(skipped),
        },
        groups=tuple(
            GroupReport(
                group_id=group.group_id,
                status="planned",
                partition=group.partition_path,
                reason=group.reason,
                input_files=group.input_files,
                input_bytes=group.input_bytes,
            )
            for group in groups
        ),
        skipped=tuple(SkippedFile(file_path=s.file_path, reason=s.reason) for s in skipped),
    )


def rewrite_groups(
    run: Run,
    planned: Findings,
    snapshot_id: int,
    groups: Sequence[G],
    work: Callable[[G], RewrittenDeletes],
    operation_of: OperationOf,
    progress: ProgressOptions,
) -> Result:
    """Do the work of every group, several at a time, and commit: see ``group_commits``."""
    ordered = in_job_order(groups, progress.rewrite_job_order)
    at_once = min(progress.max_concurrent_file_group_rewrites, usable_cpus())
    meter = run.meter("rewriting", sum(g.input_files for g in groups), sum(g.input_bytes for g in groups), unit="delete files")
    plan = GroupPlan(
        groups=planned.groups,
        work=partial(worked_on_threads, ordered, work, at_once, meter),
        strategy=_DeleteStrategy(run=run, operation_of=operation_of),
        snapshot_id=snapshot_id,
    )
    return GroupCommits[RewrittenDeletes](run, planned).work_and_commit(plan, progress)
