"""Groups of data files: how the units of work of a runner become finished groups, and how these are committed.

Concurrent position deletes and deletion vectors are carried over to the new files
(``iceberg_ops.commit.operations.carry_over``). Delete files that apply only to replaced files are removed by the commit that
replaces the last of these. If others replaced or removed a file, the rest of its group is planned once more (``replanning``).
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from iceberg_ops.actions.groups.certificate import RewrittenGroup, certified
from iceberg_ops.actions.groups.group_plans import Batch, CommitStaged, FailedGroup, GroupPlan, GroupStrategy, SecondPlan
from iceberg_ops.actions.groups.group_works import group_of_work, make_group_works
from iceberg_ops.actions.groups.replanning import replanned
from iceberg_ops.actions.groups.row_maps import RowMaps
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.progress import run_group_works
from iceberg_ops.actions.workers.runner import GroupFailure, RewriteRunner, work_bytes
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.manifests.quiet_moment import wait_for_a_quiet_moment
from iceberg_ops.commit.operations.carried_over import CarriedOver
from iceberg_ops.commit.operations.carry_over import commit_carrying_over
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.protocol.operation import Committed, Operation
from iceberg_ops.config.options import RewriteDataFilesOptions
from iceberg_ops.config.report import GroupReport
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.deletion.gate import check_same_table
from iceberg_ops.errors import VerificationError, error_of_code
from iceberg_ops.planning.dangling_deletes import deletes_of_only
from iceberg_ops.planning.file_groups import FileGroup
from iceberg_ops.planning.rewrite_data_files import RewriteDataFilesPlan
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.table import Table


def planned_group(group: FileGroup) -> GroupReport:
    """A group's line in the report of a plan."""
    return GroupReport(
        group_id=group.group_id,
        status="planned",
        partition=group.partition_path,
        reason=group.reason,
        input_files=group.input_files,
        input_bytes=group.input_bytes,
        output_files=group.expected_output_files,
    )


def data_file_groups(
    run: Run, plan: RewriteDataFilesPlan, options: RewriteDataFilesOptions, dangling: Sequence[DataFile] = ()
) -> GroupPlan[RewrittenGroup]:
    """The plan's groups in the form of the group-commit service. ``dangling`` are delete files that already apply to no file."""
    group_works = make_group_works(
        plan.groups, run.table.metadata, run.table.io,
        order=plan.order, sizes=options.sizes, operation_id=run.operation_id,
    )  # fmt: skip
    return GroupPlan(
        groups=tuple(map(planned_group, plan.groups)),
        work=partial(_worked, run, plan.groups, group_works, options.progress.max_concurrent_file_group_rewrites),
        strategy=_DataFileStrategy(
            run=run, plan=plan, options=options, maps=RowMaps(run.table.io, group_works), dangling_already=tuple(dangling)
        ),
        snapshot_id=None if plan.snapshot is None else plan.snapshot.snapshot_id,
    )


@dataclass(frozen=True, kw_only=True)
class _DataFileStrategy(GroupStrategy[RewrittenGroup]):
    plan: RewriteDataFilesPlan
    options: RewriteDataFilesOptions
    maps: RowMaps
    dangling_already: tuple[DataFile, ...]

    def operation(self, groups: Sequence[RewrittenGroup], batch: Batch) -> RewriteFiles:
        snapshot = self.plan.snapshot
        keeps_number = self.options.use_starting_sequence_number and snapshot is not None
        return RewriteFiles(
            removed_data=tuple(file for group in groups for file in group.removed),
            added_data=tuple(file for group in groups for file in group.added),
            removed_deletes=batch.dangling,
            branch=self.run.job.branch,
            run_key=batch.run_key,
            starting_snapshot_id=None if snapshot is None else snapshot.snapshot_id,
            data_sequence_number=snapshot.sequence_number if keeps_number and snapshot is not None else None,
            summary=self.run.summary,
            builds_on=batch.snapshot_ids,
        )

    def dangling(self, groups: Sequence[RewrittenGroup], replaced: Collection[str]) -> Sequence[DataFile]:
        return (*deletes_of_only(self.plan.tasks, replaced), *self.dangling_already)

    def waited(self) -> Mapping[str, int]:
        return {"waited-for-writers-ms": wait_for_a_quiet_moment(self.run.catalog, self.run.table, self.run.job.branch)}

    def committed(self, operation: Operation, groups: Sequence[RewrittenGroup], turn: int, commit: CommitStaged) -> CarriedOver:
        def committer(catalog: Catalog, table: Table, operation: RewriteFiles) -> Committed:
            return commit(operation, operation.carried_deletes)

        assert isinstance(operation, RewriteFiles)
        return commit_carrying_over(
            self.run.catalog,
            self.run.table,
            operation,
            partial(self.maps.of, groups),
            operation_id=f"{self.run.operation_id}-carried-{turn}",
            mark=self.run.lease_mark,
            committer=committer,
        )

    def counts(self, groups: Sequence[RewrittenGroup], batch: Batch, done: CarriedOver) -> Mapping[str, int]:
        return {
            "removed-delete-files-count": len(batch.dangling),
            "carried-over-rounds-count": done.rounds,
            "added-delete-files-count": len(done.deletes),
            "carried-over-deletes-count": sum(done.rows.values()),
            "rewritten-data-files-count": sum(group.group.input_files for group in groups),
            "rewritten-bytes-count": sum(group.input_bytes for group in groups),
            "added-data-files-count": sum(len(group.added) for group in groups),
            "added-bytes-count": sum(group.output_bytes for group in groups),
            "deleted-rows-applied": sum(group.certificate.deleted_rows_applied for group in groups),
        }

    def plan_again(self, conflicted: Sequence[RewrittenGroup]) -> SecondPlan[RewrittenGroup]:
        table = self.run.catalog.load_table(self.run.table.identifier[1:])
        check_same_table(self.run.table, table)
        result = replanned(table, self.run.job.branch, self.plan, self.options, [group.group for group in conflicted])
        run = replace(self.run, table=table, operation_id=f"{self.run.operation_id}-again", first_operation_id=self.run.lease_mark)
        return SecondPlan(
            plan=data_file_groups(run, result.plan, self.options), successors=result.successors, why_not=result.why_not
        )


def _worked(
    run: Run, groups: Sequence[FileGroup], group_works: Sequence[GroupWork], at_once: int
) -> Generator[RewrittenGroup | FailedGroup]:
    """Groups when their last work is complete, certified; a group fails when its first work fails."""
    by_id = {group.group_id: group for group in groups}
    waiting = dict.fromkeys(by_id, 0)
    for work in group_works:
        waiting[group_of_work(work.group_id)] += 1
    results: dict[str, list[GroupResult]] = {group_id: [] for group_id in by_id}
    failed: set[str] = set()
    columns = frozenset(f.field_id for f in run.table.schema.fields if f.type.is_primitive)
    files, size = sum(len(work.tasks) for work in group_works), sum(map(work_bytes, group_works))
    meter = run.meter("rewriting", files, size, unit="files")
    with closing(run_group_works(_runner(run, at_once), group_works, meter)) as answers:
        for answer in answers:
            group_id = group_of_work(answer.group_id)
            waiting[group_id] -= 1
            if not isinstance(answer, GroupFailure):
                results[group_id].append(answer)
            elif group_id not in failed:
                failed.add(group_id)
                yield FailedGroup(group_id, error_of_code(answer.code, answer.message))
            if waiting[group_id] == 0 and group_id not in failed:
                yield _certified(by_id[group_id], results.pop(group_id), columns)


def _runner(run: Run, at_once: int) -> RewriteRunner:
    runner = run.runner or LocalRunner()
    return runner.limited(at_once) if isinstance(runner, LocalRunner) else runner


def _certified(group: FileGroup, results: Sequence[GroupResult], columns: Collection[int]) -> RewrittenGroup | FailedGroup:
    try:
        return certified(group, sorted(results, key=lambda result: result.group_id), columns)
    except VerificationError as e:
        return FailedGroup(group.group_id, e)
