"""Converts equality deletes to position deletes (v2) or deletion vectors (v3), so that readers need not join them at every scan.

The rows of each data file with equality deletes are read with exactly these deletes applied; positions missing in the result are
the matching rows. They are deleted by position in the commit that removes the equality deletes, so no reader ever sees one without
the other.

The rule: the new deletes name data files that must still be live (a concurrent compaction that replaced one, and still depended on
the equality delete, is a conflict), and a delete is removed only if every file it applies to was converted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iceberg_ops.actions.groups.delete_groups import RewrittenDeletes, planned_deletes, rewrite_groups
from iceberg_ops.actions.groups.group_plans import file_key
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Findings, NothingToDo, Planned, Result
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.config.options import ConvertEqualityDeletesOptions, convert_equality_deletes_options
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.properties import DELETE_GRANULARITY, DELETE_TARGET_FILE_SIZE_BYTES
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.rewriting.row_places import dead_positions
from iceberg_ops.data.writing.row_deletes import check_row_deletes, write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.planning.convert_equality_deletes import (
    ConvertEqualityDeletesPlan,
    ConvertGroup,
    plan_convert_equality_deletes,
)
from iceberg_ops.scan.live_entries import delete_key
from iceberg_ops.spec.metadata_columns import POS


def convert_equality_deletes(run: Run) -> Result:
    """Raises UnsupportedError (ORC delete files), and the errors of planning, reading and the committer."""
    options = convert_equality_deletes_options(run.job.options, run.table.properties)
    where = None if run.job.where is None else parse_where(run.job.where)
    with run.step("plan") as detail:
        plan = plan_convert_equality_deletes(run.table, where, run.job.branch)
        detail.append(
            f"{counted(len(plan.groups), 'group')}, {counted(sum(len(g.deletes) for g in plan.groups), 'equality delete file')}"
        )
    planned = planned_deletes(plan.plan_id, plan.groups, plan.skipped)
    planned = replace(planned, metrics={**planned.metrics, "planned-data-files-count": sum(len(g.tasks) for g in plan.groups)})
    if not plan.groups:
        return NothingToDo(findings=planned)
    run.outcome.keep(planned)
    check_row_deletes(WriteContext.for_table(run.table.metadata))
    return Planned(findings=planned) if run.job.dry_run else _convert(run, plan, planned, options)


def _convert(run: Run, plan: ConvertEqualityDeletesPlan, planned: Findings, options: ConvertEqualityDeletesOptions) -> Result:
    assert plan.snapshot is not None
    snapshot_id = plan.snapshot.snapshot_id

    def build_operation(groups: Sequence[RewrittenDeletes], run_key: str) -> Operation:
        return RowDelta(
            added_deletes=tuple(f for g in groups for f in g.added),
            removed_deletes=tuple(f for g in groups for f in g.removed),
            referenced_data_files=tuple(path for g in groups for path in g.data_files),
            isolation=None,
            branch=run.job.branch,
            run_key=run_key,
            starting_snapshot_id=snapshot_id,
            summary=run.summary,
            name="convert_equality_deletes",
        )

    def work(group: ConvertGroup) -> RewrittenDeletes:
        return converted(run, group, options)

    return rewrite_groups(run, planned, snapshot_id, plan.groups, work, build_operation, options.progress)


def converted(run: Run, group: ConvertGroup, options: ConvertEqualityDeletesOptions) -> RewrittenDeletes:
    """Read and write one group. Raises CorruptTableError."""
    table = run.table
    chosen = {delete_key(d) for d in group.deletes}
    context = ReadContext.for_table(table.metadata, columns=[POS])
    deleted = []
    for task in group.tasks:
        only = replace(task, deletes=tuple(d for d in task.deletes if delete_key(d) in chosen))
        positions = dead_positions(only, context, table.io)
        if len(positions):
            deleted.append((task, positions))
    write = WriteContext.for_table(table.metadata)
    target = {DELETE_TARGET_FILE_SIZE_BYTES.name: str(options.target_file_size_bytes)}
    written = write_row_deletes(
        table.io,
        replace(write, properties={**write.properties, **target}),
        deleted,
        operation_id=f"{run.operation_id}-{group.group_id}",
        granularity=DELETE_GRANULARITY.of(table.properties),
    )
    removed = {file_key(f): f for f in (*(d.data_file for d in group.deletes), *written.replaced)}
    return RewrittenDeletes(
        group_id=group.group_id,
        removed=tuple(removed.values()),
        added=written.added,
        data_files=tuple(task.file_path for task in group.tasks),
        positions=sum(len(positions) for _, positions in deleted),
    )
