"""Rewrites position delete files: fewer and sorted, without positions in files that are gone; in v3, into deletion vectors.

Positions are read from the group's delete files for the live data files they apply to, and written with the table's granularity.
The new files get the highest data sequence number of those they replace, so they apply to the same rows and to no later ones.

The rule: the positions written are exactly the positions read for live data files; otherwise VerificationError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iceberg_ops.actions.groups.delete_groups import RewrittenDeletes, planned_deletes, rewrite_groups
from iceberg_ops.actions.groups.group_plans import file_key
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Findings, NothingToDo, Planned, Result
from iceberg_ops.commit.operations.rewrite_files import RewriteFiles
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.config.options import RewritePositionDeleteFilesOptions, rewrite_position_delete_files_options
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.properties import DELETE_GRANULARITY, DELETE_TARGET_FILE_SIZE_BYTES
from iceberg_ops.data.deletes.position_deletes import deleted_positions
from iceberg_ops.data.writing.row_deletes import check_row_deletes, write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import VerificationError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.planning.rewrite_position_delete_files import (
    DeleteGroup,
    RewritePositionDeletesPlan,
    plan_rewrite_position_delete_files,
)
from iceberg_ops.scan.live_entries import delete_key
from iceberg_ops.spec.content_files import DataFile


def rewrite_position_delete_files(run: Run) -> Result:
    """Raises VerificationError, UnsupportedError (ORC delete files), and the errors of planning, reading and the committer."""
    options = rewrite_position_delete_files_options(run.job.options, run.table.properties)
    where = None if run.job.where is None else parse_where(run.job.where)
    with run.step("plan") as detail:
        plan = plan_rewrite_position_delete_files(run.table, options, where, run.job.branch)
        detail.append(f"{counted(len(plan.groups), 'group')}, {counted(sum(len(g.deletes) for g in plan.groups), 'delete file')}")
    planned = planned_deletes(plan.plan_id, plan.groups, plan.skipped)
    if not plan.groups:
        return NothingToDo(findings=planned)
    run.outcome.keep(planned)
    check_row_deletes(WriteContext.for_table(run.table.metadata))
    return Planned(findings=planned) if run.job.dry_run else _rewrite(run, plan, planned, options)


def _rewrite(run: Run, plan: RewritePositionDeletesPlan, planned: Findings, options: RewritePositionDeleteFilesOptions) -> Result:
    sequence_number = max(d.sequence_number for g in plan.groups for d in g.deletes)
    assert plan.snapshot is not None
    snapshot_id = plan.snapshot.snapshot_id

    def build_operation(groups: Sequence[RewrittenDeletes], run_key: str) -> Operation:
        return RewriteFiles(
            removed_deletes=tuple(f for g in groups for f in g.removed),
            added_deletes=tuple(f for g in groups for f in g.added),
            delete_sequence_number=sequence_number,
            branch=run.job.branch,
            run_key=run_key,
            starting_snapshot_id=snapshot_id,
            summary=run.summary,
            name="rewrite_position_delete_files",
        )

    def work(group: DeleteGroup) -> RewrittenDeletes:
        return rewritten(run, group, options)

    return rewrite_groups(run, planned, snapshot_id, plan.groups, work, build_operation, options.progress)


def rewritten(run: Run, group: DeleteGroup, options: RewritePositionDeleteFilesOptions) -> RewrittenDeletes:
    """Read and write one group. Raises VerificationError."""
    table = run.table
    keys = {delete_key(d) for d in group.deletes}
    deleted = []
    for task in group.tasks:
        mine = [d for d in task.deletes if delete_key(d) in keys]
        positions = deleted_positions(table.io, mine, task.file_path)
        if len(positions):
            deleted.append((task, positions))
    target = {DELETE_TARGET_FILE_SIZE_BYTES.name: str(options.sizes.target_file_size_bytes)}
    context = WriteContext.for_table(table.metadata)
    context = replace(context, properties={**context.properties, **target})
    written = write_row_deletes(
        table.io,
        context,
        deleted,
        operation_id=f"{run.operation_id}-{group.group_id}",
        granularity=DELETE_GRANULARITY.of(table.properties),
    )
    read = sum(len(positions) for _, positions in deleted)
    vectors = any(f.is_deletion_vector for f in written.added)
    if (total := sum(f.record_count for f in written.added)) != read and not (vectors and total > read):
        raise VerificationError(
            f"group {group.group_id} ({group.partition_path}): {read} positions read, but {total} written: nothing was committed"
        )
    return RewrittenDeletes(
        group_id=group.group_id,
        removed=_distinct((*(d.data_file for d in group.deletes), *written.replaced)),
        added=written.added,
        data_files=tuple(task.file_path for task, _ in deleted),
        positions=read,
    )


def _distinct(files: Sequence[DataFile]) -> tuple[DataFile, ...]:
    return tuple({file_key(f): f for f in files}.values())
