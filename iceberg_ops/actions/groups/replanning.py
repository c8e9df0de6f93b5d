"""Plans groups dropped by a conflict again, with the files that are still live, if that is cheap.

A group has a lasting conflict if another commit replaced or removed one of its files. The other files are unchanged, and leaving
them to the next run only costs time. So they are planned again only up to ``MOST_BYTES``, and only once, so that a run always
ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from iceberg_ops.actions.groups.group_works import merged_bytes_estimator
from iceberg_ops.config.options import RewriteDataFilesOptions
from iceberg_ops.io.locations import identity_under
from iceberg_ops.planning.file_groups import FileGroup
from iceberg_ops.planning.rewrite_data_files import RewriteDataFilesPlan, group_tasks, make_plan_id
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from iceberg_ops.table.table import Table

MOST_BYTES = 256 * 2**20
"""About the bytes that the local lane rewrites in ten seconds."""


@dataclass(frozen=True, slots=True)
class RemainingPlan:
    """A plan (empty: not worth the work) for the rest of conflicted groups. ``successors``: the groups that took each group's
    files; ``why_not`` says why groups without successors are not planned again."""

    plan: RewriteDataFilesPlan
    successors: Mapping[str, Sequence[str]]
    why_not: str


def replanned(
    table: Table,
    branch: str,
    earlier: RewriteDataFilesPlan,
    options: RewriteDataFilesOptions,
    conflicted: Sequence[FileGroup],
) -> RemainingPlan:
    """Plan on the current ``table``."""
    metadata = table.metadata
    snapshot = metadata.branch_head(branch)
    ref = None if branch == MAIN_BRANCH else branch
    tasks = tuple(plan(table, Scan(ref=ref)).tasks) if snapshot is not None else ()
    identity = identity_under(table.io)
    source = {identity(task.file_path): group for group in conflicted for task in group.tasks}
    left = [task for task in tasks if identity(task.file_path) in source]
    is_cheap = sum(task.data_bytes for task in left) <= MOST_BYTES
    groups: tuple[FileGroup, ...] = ()
    if is_cheap:
        groups, _ = group_tasks(
            left, options, metadata,
            order=earlier.order, output_spec_id=earlier.output_spec_id, merged_bytes=merged_bytes_estimator(table, options),
            identity=identity,
        )  # fmt: skip
        groups = tuple(replace(group, group_id=f"again-{group.group_id}") for group in groups)
    successors: dict[str, list[str]] = {group.group_id: [] for group in conflicted}
    for group in groups:
        for group_id in {source[identity(task.file_path)].group_id: None for task in group.tasks}:
            successors[group_id].append(group.group_id)
    again = replace(
        earlier,
        snapshot=snapshot,
        groups=groups,
        skipped=(),
        tasks=tasks,
        plan_id=make_plan_id(metadata.table_uuid, snapshot, groups),
    )
    why_not = "nothing of it is left to rewrite" if is_cheap else f"what is left exceeds {MOST_BYTES} bytes"
    return RemainingPlan(again, successors, why_not)
