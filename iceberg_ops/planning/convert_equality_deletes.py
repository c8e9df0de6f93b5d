"""Which equality deletes can become position deletes (v2) or deletion vectors (v3), and for which data files.

An equality delete may be removed if the matching rows of every data file it applies to are deleted by position in the same commit.
With a WHERE, deletes that apply to files that may match are selected, and then all files those deletes apply to, so that every
selected delete is removed as a whole. A delete that applies to no live file is dangling and is removed too (only without WHERE).
Deletes of a file that is live several times stay if its entries do not all have the same deletes, or are not in one partition: by
position they would reach other rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.locations import identity_under
from iceberg_ops.planning.file_groups import UNEVEN, Skipped
from iceberg_ops.planning.live_deletes import live_deletes
from iceberg_ops.scan.live_entries import by_file, delete_key, unevenly_applied
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertGroup:
    """Equality deletes that share data files, and these data files. ``deletes`` are removed if all of ``tasks`` are converted."""

    group_id: str
    tasks: tuple[FileScanTask, ...]
    deletes: tuple[DeleteFile, ...]
    reason: str
    partition_path: str = ""
    """Always empty: an equality delete may apply to several partitions."""

    @property
    def input_bytes(self) -> int:
        return sum(d.data_file.file_size_in_bytes for d in self.deletes)

    @property
    def input_files(self) -> int:
        return len(self.deletes)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertEqualityDeletesPlan:
    """``snapshot``: the branch's head, None for an empty table. ``skipped``: deletes that stay, each with its reason."""

    snapshot: Snapshot | None
    groups: tuple[ConvertGroup, ...]
    skipped: tuple[Skipped, ...]
    plan_id: str


def plan_convert_equality_deletes(
    table: Table, where: Expression | None = None, branch: str = MAIN_BRANCH
) -> ConvertEqualityDeletesPlan:
    """Plan on the branch's head. Raises WhereError, CorruptTableError."""
    snapshot = table.metadata.branch_head(branch)
    if snapshot is None:
        return ConvertEqualityDeletesPlan(snapshot=None, groups=(), skipped=(), plan_id=_plan_id(table, None, ()))
    ref = None if branch == MAIN_BRANCH else branch
    live_tasks = plan(table, Scan(ref=ref)).tasks
    identity = identity_under(table.io)
    uneven = unevenly_applied(live_tasks, identity)
    converted = [t for t in live_tasks if any(d.is_equality for d in t.deletes)]
    tasks = [entries[0] for entries in by_file(converted, identity)]
    deletes = {delete_key(d): d for d in live_deletes(table, snapshot) if d.is_equality}
    chosen = set(deletes)
    if where is not None and where != ALWAYS_TRUE:
        matching = {t.file_path for t in plan(table, Scan(ref=ref, where=where)).tasks}
        chosen = {delete_key(d) for t in converted if t.file_path in matching for d in t.deletes if d.is_equality}
    left = dict.fromkeys(deletes.keys() - chosen, "it applies to no file that can match WHERE")
    left |= dict.fromkeys(chosen & uneven, UNEVEN)
    skipped = tuple(Skipped(d.file_path, left[key]) for key, d in deletes.items() if key in left)
    groups = _connected(tasks, {key: d for key, d in deletes.items() if key not in left})
    return ConvertEqualityDeletesPlan(snapshot=snapshot, groups=groups, skipped=skipped, plan_id=_plan_id(table, snapshot, groups))


def _connected(tasks: Sequence[FileScanTask], deletes: dict[tuple[str, int | None], DeleteFile]) -> tuple[ConvertGroup, ...]:
    """Connected groups of deletes and data files, found by joining deletes that share a data file."""
    parent = {key: key for key in deletes}

    def root(key: tuple[str, int | None]) -> tuple[str, int | None]:
        while parent[key] != key:
            parent[key] = parent[parent[key]]
            key = parent[key]
        return key

    for task in tasks:
        keys = [delete_key(d) for d in task.deletes if delete_key(d) in parent]
        for key in keys[1:]:
            parent[root(key)] = root(keys[0])
    members: dict[tuple[str, int | None], tuple[list[FileScanTask], list[DeleteFile]]] = {}
    for key, delete in deletes.items():
        members.setdefault(root(key), ([], []))[1].append(delete)
    for task in tasks:
        mine = [delete_key(d) for d in task.deletes if delete_key(d) in parent]
        if mine:
            members[root(mine[0])][0].append(task)
    return tuple(
        ConvertGroup(
            group_id=f"g{i:04d}",
            tasks=tuple(members_tasks),
            deletes=tuple(theirs),
            reason=f"equality delete files: {len(theirs)}, for data files: {len(members_tasks)}",
        )
        for i, (members_tasks, theirs) in enumerate(members.values(), 1)
    )


def _plan_id(table: Table, snapshot: Snapshot | None, groups: Sequence[ConvertGroup]) -> str:
    digest = hashlib.sha256(f"{table.metadata.table_uuid}/{None if snapshot is None else snapshot.snapshot_id}".encode())
    for group in groups:
        for delete in group.deletes:
            digest.update(b"\0" + delete.file_path.encode())
    return digest.hexdigest()[:16]
