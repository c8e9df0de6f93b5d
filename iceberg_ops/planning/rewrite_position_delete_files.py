"""The plan of ``rewrite_position_delete_files``: which files it would rewrite, and why.

Position deletes of one partition make a group. In v2 a group is rewritten if it has at least ``min-input-files`` files of the
wrong size, or fills more than one target file. But with one delete file per data file (``write.delete.granularity`` = file) it is
rewritten only if some data file has several, or if files name data files that are gone: otherwise the result would be the same. In
v3 every position delete file that is not a deletion vector is rewritten, because new ones are not allowed there.

Deletion vectors are not rewritten: there is already one per data file. Nor are deletes of a data file that is live several times if
its entries do not all have the same deletes: after a rewrite they could reach the other entries.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iceberg_ops.config.options import NO_LIMIT, RewritePositionDeleteFilesOptions, SizeOptions
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.properties import DELETE_GRANULARITY
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.locations import identity_under
from iceberg_ops.planning.file_groups import UNEVEN, Skipped, pack
from iceberg_ops.planning.live_deletes import live_deletes
from iceberg_ops.planning.output_sizes import expected_output_files
from iceberg_ops.scan.delete_index import scoped_path
from iceberg_ops.scan.live_entries import by_file, delete_key, unevenly_applied
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.partition_keys import partition_key
from iceberg_ops.spec.partition_paths import partition_path
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.table.table import Table, require_spec

TasksByDelete = Mapping[tuple[str, int | None], Sequence[FileScanTask]]
"""Live data files by the delete files attached to them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteGroup:
    """Position delete files of one partition. ``tasks`` are the live data files they may apply to."""

    group_id: str
    spec_id: int
    partition: tuple[Any, ...]
    partition_path: str
    deletes: tuple[DeleteFile, ...]
    tasks: tuple[FileScanTask, ...]
    reason: str

    @property
    def input_bytes(self) -> int:
        return sum(d.data_file.stored_bytes for d in self.deletes)

    @property
    def input_files(self) -> int:
        return len(self.deletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewritePositionDeletesPlan:
    """``snapshot``: the branch's head, None for an empty table. ``skipped``: delete files that stay, each with its reason."""

    snapshot: Snapshot | None
    groups: tuple[DeleteGroup, ...]
    skipped: tuple[Skipped, ...]
    plan_id: str


def plan_rewrite_position_delete_files(
    table: Table, options: RewritePositionDeleteFilesOptions, where: Expression | None = None, branch: str = MAIN_BRANCH
) -> RewritePositionDeletesPlan:
    """Plan on the branch's head; ``where`` selects delete files of data files that may hold matching rows."""
    snapshot = table.metadata.branch_head(branch)
    if snapshot is None:
        return RewritePositionDeletesPlan(snapshot=None, groups=(), skipped=(), plan_id=_plan_id(table, None, ()))
    ref = None if branch == MAIN_BRANCH else branch
    tasks = plan(table, Scan(ref=ref)).tasks
    matching_tasks = tasks if where is None or where == ALWAYS_TRUE else plan(table, Scan(ref=ref, where=where)).tasks
    uneven = unevenly_applied(tasks, identity_under(table.io))
    asked = {delete_key(d) for task in matching_tasks for d in task.deletes}
    skipped: list[Skipped] = []
    partitions: dict[tuple[Any, ...], list[DeleteFile]] = defaultdict(list)
    for delete in live_deletes(table, snapshot):
        if delete.is_equality or delete.is_deletion_vector:
            continue
        if where is not None and where != ALWAYS_TRUE and delete_key(delete) not in asked:
            skipped.append(Skipped(delete.file_path, "it applies to no file that can match WHERE"))
        elif delete_key(delete) in uneven:
            skipped.append(Skipped(delete.file_path, UNEVEN))
        else:
            partitions[partition_key(delete.data_file.spec_id, delete.data_file.partition)].append(delete)
    by_delete: dict[tuple[str, int | None], list[FileScanTask]] = defaultdict(list)
    for task in tasks:
        for delete in task.deletes:
            by_delete[delete_key(delete)].append(task)
    groups = []
    for partition_tasks in partitions.values():
        groups.extend(_partition_groups(table, partition_tasks, by_delete, options.sizes, skipped))
    numbered = tuple(replace(group, group_id=f"g{i:04d}") for i, group in enumerate(groups, 1))
    return RewritePositionDeletesPlan(
        snapshot=snapshot, groups=numbered, skipped=tuple(skipped), plan_id=_plan_id(table, snapshot, numbered)
    )


def _partition_groups(
    table: Table, deletes: Sequence[DeleteFile], by_delete: TasksByDelete, sizes: SizeOptions, skipped: list[Skipped]
) -> list[DeleteGroup]:
    metadata = table.metadata
    first = deletes[0].data_file
    path = partition_path(require_spec(metadata, first.spec_id), first.partition, metadata.all_fields_by_id)
    convert = metadata.format_version >= 3
    candidates = []
    for delete in deletes:
        size = delete.data_file.file_size_in_bytes
        if convert or sizes.rewrite_all or not sizes.min_file_size_bytes <= size <= sizes.max_file_size_bytes:
            candidates.append(delete)
        else:
            skipped.append(Skipped(delete.file_path, f"its {size} bytes are within the limits"))
    groups = []
    # A data file may have only one deletion vector, so a group that becomes vectors is never cut.
    most_bytes, most_files = (
        (NO_LIMIT, NO_LIMIT) if convert else (sizes.max_file_group_size_bytes, sizes.max_file_group_input_files)
    )
    for run in pack(candidates, lambda d: d.data_file.file_size_in_bytes, most_bytes, most_files):
        attached = [task for d in run for task in by_delete.get(delete_key(d), ())]
        touched = tuple(entries[0] for entries in by_file(attached, identity_under(table.io)))
        reason, refusal = _verdict(run, touched, sizes, convert, DELETE_GRANULARITY.of(metadata.properties) == "file")
        if refusal:
            skipped.extend(Skipped(d.file_path, refusal) for d in run)
        else:
            group = DeleteGroup(
                group_id="",
                spec_id=first.spec_id,
                partition=first.partition,
                partition_path=path,
                deletes=tuple(run),
                tasks=touched,
                reason=reason,
            )
            groups.append(group)
    return groups


def _verdict(
    run: Sequence[DeleteFile], touched: Sequence[FileScanTask], sizes: SizeOptions, convert: bool, per_file: bool
) -> tuple[str, str]:
    """(why, "") or ("", why not)."""
    if convert:
        return f"{len(run)} position delete files become deletion vectors", ""
    if sizes.rewrite_all:
        return f"{counted(len(run), 'file')} by rewrite-all", ""
    total = sum(d.data_file.file_size_in_bytes for d in run)
    if len(run) < 2 or (len(run) < sizes.min_input_files and total <= sizes.target_file_size_bytes):
        return "", f"its partition has {len(run)} candidates, fewer than min-input-files {sizes.min_input_files}"
    attached = {delete_key(d) for task in touched for d in task.deletes}
    dangling = sum(1 for d in run if delete_key(d) not in attached)
    if per_file:
        named = Counter(scoped_path(d.data_file) for d in run)
        expected = len(touched)
        if not dangling and None not in named and max(named.values()) == 1:
            return "", f"rewriting it changes nothing: {len(run)} files for as many data files"
    else:
        expected = expected_output_files(total, sizes)
    if expected >= len(run) and not dangling:
        return "", f"rewriting it changes nothing: {len(run)} files in, {expected} out"
    words = f", {dangling} of them apply to nothing" if dangling else ""
    return f"{len(run)} files become {expected}{words}", ""


def _plan_id(table: Table, snapshot: Snapshot | None, groups: Sequence[DeleteGroup]) -> str:
    digest = hashlib.sha256(f"{table.metadata.table_uuid}/{None if snapshot is None else snapshot.snapshot_id}".encode())
    for group in groups:
        for delete in group.deletes:
            digest.update(b"\0" + delete.file_path.encode())
    return digest.hexdigest()[:16]
