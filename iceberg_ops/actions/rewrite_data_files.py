"""Rewrites data files: bin-pack, sort or z-order, with deletes applied and dangling deletes removed.

plan (``iceberg_ops.planning``) -> works -> runner -> certificate per group -> commit -> clean. One commit by default: a group that
fails ends the run and all written files are deleted. With ``partial-progress.enabled`` groups are committed in up to
``partial-progress.max-commits`` batches as they complete, and a failed group is dropped alone (``group_commits``).

A conflict costs little in both modes: concurrent deletes are carried over. A group that lost a file to another commit is dropped,
and the rest of it is planned and rewritten once more (``replanning``) if it is small.
"""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_ops.actions.groups.certificate import RewrittenGroup
from iceberg_ops.actions.groups.data_file_groups import data_file_groups, planned_group
from iceberg_ops.actions.groups.group_commits import GroupCommits
from iceberg_ops.actions.groups.group_works import merged_bytes_estimator
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Findings, NothingToDo, Planned, Result
from iceberg_ops.config.options import RewriteDataFilesOptions, rewrite_data_files_options
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.report import SkippedFile
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.planning.dangling_deletes import attached_to_nothing
from iceberg_ops.planning.live_deletes import live_deletes
from iceberg_ops.planning.rewrite_data_files import RewriteDataFilesPlan, plan_rewrite_data_files
from iceberg_ops.spec.content_files import DataFile

_LOST = "failed-data-files-count"
_ALWAYS_COUNTED = (
    "rewritten-data-files-count",
    "rewritten-bytes-count",
    "added-data-files-count",
    "added-bytes-count",
    _LOST,
    "removed-delete-files-count",
)


def rewrite_data_files(run: Run) -> Result:
    """Raises UnsupportedError (ORC data files), and the errors of planning, the groups and the committer."""
    options = rewrite_data_files_options(run.job.options, run.table.properties)
    where = None if run.job.where is None else parse_where(run.job.where)
    with run.step("plan") as detail:
        plan = plan_rewrite_data_files(
            run.table, options, where, run.job.branch, merged_bytes=merged_bytes_estimator(run.table, options)
        )
        dangling = _dangling(run, plan, options)
        detail.append(f"{counted(len(plan.groups), 'group')}, {plan.estimates.input_files:,} of {counted(len(plan.tasks), 'file')}")
    planned = _planned(plan, dangling)
    if plan.is_empty and not dangling:
        return NothingToDo(findings=planned)
    run.outcome.keep(planned)
    if plan.groups:
        WriteContext.for_table(run.table.metadata).check_format()
    if run.job.dry_run:
        return Planned(findings=planned)
    groups = data_file_groups(run, plan, options, dangling)
    commits = GroupCommits[RewrittenGroup](run, planned, lost=_LOST)
    return commits.work_and_commit(groups, options.progress, _ALWAYS_COUNTED)


def _dangling(run: Run, plan: RewriteDataFilesPlan, options: RewriteDataFilesOptions) -> tuple[DataFile, ...]:
    if not options.remove_dangling_deletes or plan.snapshot is None:
        return ()
    return attached_to_nothing(live_deletes(run.table, plan.snapshot), plan.tasks)


def _planned(plan: RewriteDataFilesPlan, dangling: Sequence[DataFile]) -> Findings:
    estimates = plan.estimates
    return Findings(
        plan_id=plan.plan_id,
        metrics={
            "planned-groups-count": estimates.groups,
            "planned-input-files-count": estimates.input_files,
            "planned-input-bytes-count": estimates.input_bytes,
            "planned-output-bytes-count": estimates.expected_output_bytes,
            "planned-output-files-count": estimates.expected_output_files,
            "planned-delete-files-count": estimates.deletes_applied,
            "dangling-delete-files-count": len(dangling),
            "skipped-files-count": len(plan.skipped),
        },
        groups=tuple(map(planned_group, plan.groups)),
        skipped=tuple(SkippedFile(file_path=skipped.file_path, reason=skipped.reason) for skipped in plan.skipped),
    )
