"""The plan of ``rewrite_data_files``: which files, in which groups, into how many files, and why not the others.

Pure: a table's tasks and options in, a plan out; the dry run is this plan. Candidates are those of the reference implementation
(Java: BinPackRewriteFilePlanner): wrong size, many delete files, many deleted rows. In addition: files that overlap others of their
partition on the sort key (sort), and files of another partition spec if ``output-spec-id`` asks for one. The caller estimates the
output size of a group's files; without an estimate it is the input size.

The rule: a plan converges. A group whose outputs would be candidates again, as many as its inputs, is not rewritten, and every
file that is not rewritten has a reason.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from iceberg_ops.config.options import NO_LIMIT, RewriteDataFilesOptions
from iceberg_ops.config.plurals import counted
from iceberg_ops.errors import OptionError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.locations import Identity, identity_under, location_identity
from iceberg_ops.planning.clustering import clustering, key_range
from iceberg_ops.planning.delete_density import deleted_shares
from iceberg_ops.planning.file_groups import FileGroup, Skipped, in_job_order, numbered, pack
from iceberg_ops.planning.output_sizes import expected_output_files, output_target_size
from iceberg_ops.planning.sort_orders import RewriteOrder, rewrite_order
from iceberg_ops.scan.live_entries import by_file
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.partition_keys import partition_key
from iceberg_ops.spec.partition_paths import partition_path
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.table import Table, require_spec

MergedBytes = Callable[[Sequence[FileScanTask]], int]
"""Estimates the size, in bytes, of the tasks of one group with several output files when they are written together."""
Entries = Sequence[FileScanTask]
"""The live entries of one file, which never go to different groups: almost always one."""
_SIZE, _DELETES, _SPEC, _UNCLUSTERED, _ALL = "size", "deletes", "spec", "unclustered", "rewrite-all"


@dataclass(frozen=True, slots=True)
class Estimates:
    """The estimates of the plan. ``expected_output_bytes`` count a group with one output file by the size of its input files, which
    is the most it can become. ``deletes_applied`` are delete files that apply to files of the plan."""

    groups: int
    input_files: int
    input_bytes: int
    expected_output_bytes: int
    expected_output_files: int
    deletes_applied: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteDataFilesPlan:
    """``tasks`` are all tasks of the branch, whatever WHERE selects: they determine which deletes are dangling after the
    rewrite."""

    snapshot: Snapshot | None
    groups: tuple[FileGroup, ...]
    skipped: tuple[Skipped, ...]
    tasks: tuple[FileScanTask, ...]
    order: RewriteOrder
    output_spec_id: int
    plan_id: str

    @property
    def is_empty(self) -> bool:
        return not self.groups

    @property
    def estimates(self) -> Estimates:
        chosen = [task for group in self.groups for task in group.tasks]
        deletes = {(d.file_path, d.data_file.content_offset) for task in chosen for d in task.deletes}
        return Estimates(
            len(self.groups),
            len(chosen),
            sum(group.input_bytes for group in self.groups),
            sum(group.estimated_bytes for group in self.groups),
            sum(group.expected_output_files for group in self.groups),
            len(deletes),
        )


def plan_rewrite_data_files(
    table: Table,
    options: RewriteDataFilesOptions,
    where: Expression | None = None,
    branch: str = MAIN_BRANCH,
    *,
    merged_bytes: MergedBytes | None = None,
) -> RewriteDataFilesPlan:
    """Plan a rewrite of the branch's head. ``where`` (unbound) selects files that may hold matching rows, as a whole.

    Raises OptionError (unknown output-spec-id, a sort order that names no column), WhereError, CorruptTableError.
    """
    metadata = table.metadata
    order = rewrite_order(options, metadata)
    output_spec_id = metadata.default_spec_id if options.output_spec_id is None else options.output_spec_id
    if output_spec_id not in metadata.specs_by_id:
        raise OptionError(
            f"rewrite_data_files: output-spec-id {output_spec_id}: the table's specs are {sorted(metadata.specs_by_id)}"
        )
    for f in metadata.specs_by_id[output_spec_id].fields:
        if not f.transform.is_void and not set(f.source_ids) <= metadata.schema.fields_by_id.keys():
            raise OptionError(
                f"rewrite_data_files: output-spec-id {output_spec_id}: its field {f.name!r} comes from a column that was dropped "
                f"(id {f.source_id}), so no file can be written in it: choose another spec"
            )
    snapshot = metadata.branch_head(branch)
    tasks: tuple[FileScanTask, ...] = ()
    only_paths: frozenset[str] | None = None
    if snapshot is not None:
        ref = None if branch == MAIN_BRANCH else branch
        tasks = tuple(plan(table, Scan(ref=ref)).tasks)
        if where is not None and where != ALWAYS_TRUE:
            # Two plans, because a scan with a filter may leave out deletes of rows that the filter does not match.
            only_paths = frozenset(task.file_path for task in plan(table, Scan(ref=ref, where=where)).tasks)
    groups, skipped = group_tasks(
        tasks, options, metadata, order=order, output_spec_id=output_spec_id, only_paths=only_paths, merged_bytes=merged_bytes,
        identity=identity_under(table.io),
    )  # fmt: skip
    return RewriteDataFilesPlan(
        snapshot=snapshot,
        groups=groups,
        skipped=skipped,
        tasks=tasks,
        order=order,
        output_spec_id=output_spec_id,
        plan_id=make_plan_id(metadata.table_uuid, snapshot, groups),
    )


def make_plan_id(table_uuid: str, snapshot: Snapshot | None, groups: Sequence[FileGroup]) -> str:
    """An id of exactly this plan: the same table state and the same selection of files give the same id."""
    digest = hashlib.sha256(f"{table_uuid}/{None if snapshot is None else snapshot.snapshot_id}".encode())
    for group in groups:
        digest.update(f"\n{group.group_id}/{group.strategy}/{group.target_file_size}/{group.output_spec_id}".encode())
        for task in group.tasks:
            digest.update(b"\0" + task.file_path.encode())
    return digest.hexdigest()[:16]


def group_tasks(
    tasks: Sequence[FileScanTask],
    options: RewriteDataFilesOptions,
    metadata: TableMetadata,
    *,
    order: RewriteOrder,
    output_spec_id: int,
    only_paths: frozenset[str] | None = None,
    merged_bytes: MergedBytes | None = None,
    identity: Identity = location_identity,
) -> tuple[tuple[FileGroup, ...], tuple[Skipped, ...]]:
    """The groups worth rewriting among a snapshot's tasks, and every other file with its reason. Pure, except for ``merged_bytes``.

    The entries of a file that is live several times are planned as one (``scan.live_entries``)."""
    planner = _Planner(options, metadata, order, output_spec_id, merged_bytes, identity)
    shares = deleted_shares(tasks)
    by_partition: dict[tuple[Any, ...], list[Entries]] = defaultdict(list)
    for entries in by_file(tasks, identity):
        if only_paths is not None and all(task.file_path not in only_paths for task in entries):
            planner.skip(entries, "no row can match WHERE")
            continue
        key = planner.group_key(entries[0])
        if any(planner.group_key(task) != key for task in entries[1:]):
            planner.skip(entries, f"it is live {len(entries)} times, in different partitions, which cannot be rewritten together")
        else:
            by_partition[key].append([replace(task, residual=ALWAYS_TRUE) for task in entries])
    groups = [group for tasks_of_partition in by_partition.values() for group in planner.groups(tasks_of_partition, shares)]
    chosen = planner.limited(in_job_order(groups, options.progress.rewrite_job_order))
    return numbered(chosen), tuple(planner.skipped)


class _Planner:
    """Collects skipped files while it forms groups."""

    def __init__(
        self,
        options: RewriteDataFilesOptions,
        metadata: TableMetadata,
        order: RewriteOrder,
        output_spec_id: int,
        merged_bytes: MergedBytes | None,
        identity: Identity,
    ) -> None:
        self.options = options
        self.sizes = options.sizes
        self.metadata = metadata
        self.order = order
        self.output_spec_id = output_spec_id
        self.merged_bytes = merged_bytes
        self.identity = identity
        self.skipped: list[Skipped] = []

    def skip(self, tasks: Sequence[FileScanTask], reason: str) -> None:
        self.skipped.extend(Skipped(task.file_path, reason) for task in tasks)

    def group_key(self, task: FileScanTask) -> tuple[Any, ...]:
        """Files with the same key may be rewritten together."""
        if task.spec_id == self.output_spec_id:
            return partition_key(task.spec_id, task.data_file.partition)
        return task.spec_id, "any partition"

    def groups(self, files: Sequence[Entries], shares: Mapping[str, float]) -> list[FileGroup]:
        """The groups worth rewriting among the files of one partition, or of one other spec."""
        unclustered = self._unclustered([task for entries in files for task in entries])
        causes: dict[str, str] = {}
        candidates = []
        for entries in files:
            verdicts = [self._cause(task, shares.get(task.file_path, 0.0), task.file_path in unclustered) for task in entries]
            cause, why = next((v for v in verdicts if v[0] is not None), verdicts[0])
            if cause is None:
                self.skip(entries, why)
            else:
                for task in entries:
                    causes[task.file_path] = cause
                candidates.append(entries)
        groups = []
        most_bytes, most_files = self.sizes.max_file_group_size_bytes, self.sizes.max_file_group_input_files
        for run in pack(self._in_key_order(candidates), _total_size, most_bytes, most_files, count=len):
            tasks = [task for entries in run for task in entries]
            group = self._group(tasks, Counter(causes[task.file_path] for task in tasks))
            if refusal := self._refusal(group, causes):
                self.skip(tasks, refusal)
            else:
                groups.append(group)
        return groups

    def _in_key_order(self, files: Sequence[Entries]) -> Sequence[Entries]:
        """For a sort by the lowest key; files without known keys come last. Groups are sorted separately, so overlapping files
        belong into one group: groups in the order of the scan would have overlapping outputs, in every run again."""
        order, fields = self.order.sort_order, self.metadata.schema.fields_by_id
        if order is None:
            return files
        ranges = [(key_range(entries[0], order, fields), entries) for entries in files]
        known = sorted(((range_, entries) for range_, entries in ranges if range_ is not None), key=lambda f: (f[0].low, f[0].high))
        return [entries for _, entries in known] + [entries for range_, entries in ranges if range_ is None]

    def limited(self, groups: Sequence[FileGroup]) -> list[FileGroup]:
        """Groups within ``max-files-to-rewrite``, in order; the one that crosses the limit is cut."""
        left = self.options.max_files_to_rewrite
        chosen = []
        for group in groups:
            if left >= group.input_files:
                chosen.append(group)
                left -= group.input_files
                continue
            whole = self._whole_files(group.tasks, left)
            kept, dropped = group.tasks[:whole], group.tasks[whole:]
            if len(kept) > 1:
                chosen.append(self._resized(group, kept))
                left = 0
            else:
                dropped = group.tasks
            self.skip(dropped, f"max-files-to-rewrite {self.options.max_files_to_rewrite} is reached")
        return chosen

    def _whole_files(self, tasks: Sequence[FileScanTask], most: int) -> int:
        """How many of the first ``most`` tasks may be taken (there are more) without separating the entries of one file."""
        while most and self.identity(tasks[most - 1].file_path) == self.identity(tasks[most].file_path):
            most -= 1
        return most

    def _unclustered(self, tasks: Sequence[FileScanTask]) -> frozenset[str]:
        if self.order.sort_order is None:
            return frozenset()
        result = clustering(tasks, self.order.sort_order, self.metadata.schema.fields_by_id)
        return result.unclustered if result.depth > self.options.max_overlap_depth else frozenset()

    def _overlapping(self, tasks: Sequence[FileScanTask]) -> frozenset[str]:
        order = self.order.sort_order
        return frozenset() if order is None else clustering(tasks, order, self.metadata.schema.fields_by_id).unclustered

    def _cause(self, task: FileScanTask, share: float, unclustered: bool) -> tuple[str | None, str]:
        sizes, size = self.sizes, task.data_bytes
        if sizes.rewrite_all:
            return _ALL, ""
        if len(task.deletes) >= self.options.delete_file_threshold or share >= self.options.delete_ratio_threshold:
            return _DELETES, ""
        if self.options.output_spec_id is not None and task.spec_id != self.output_spec_id:
            return _SPEC, ""
        if not sizes.min_file_size_bytes <= size <= sizes.max_file_size_bytes:
            return _SIZE, ""
        if unclustered:
            return _UNCLUSTERED, ""
        deletes = f", {len(task.deletes)} delete files are below the thresholds" if task.deletes else ""
        return None, f"its {size} bytes are within {sizes.min_file_size_bytes} to {sizes.max_file_size_bytes}{deletes}"

    def _refusal(self, group: FileGroup, causes: Mapping[str, str]) -> str:
        """Why a group of candidates is not rewritten; empty if it is."""
        kinds = {causes[task.file_path] for task in group.tasks}
        if kinds & {_ALL, _DELETES, _SPEC}:
            return ""
        sizes, n = self.sizes, group.input_files
        if _UNCLUSTERED in kinds:
            if n == 1:
                return "it is the only candidate of its group: sorting it alone clusters nothing"
            if self._overlapping(group.tasks):
                return ""
            if _SIZE not in kinds:
                return "it overlaps files of other groups only: sorting its group again clusters nothing"
        oversized = any(task.data_bytes > sizes.max_file_size_bytes for task in group.tasks)
        if n == 1 and not oversized:
            return "it is the only candidate of its partition"
        if n < sizes.min_input_files and group.input_bytes <= sizes.target_file_size_bytes and not oversized:
            return f"its partition has {n} candidates, fewer than min-input-files {sizes.min_input_files}"
        mean = group.estimated_bytes // group.expected_output_files
        if oversized:
            return (
                "" if mean <= sizes.max_file_size_bytes else f"splitting gives {mean} bytes a file, still above max-file-size-bytes"
            )
        if group.expected_output_files >= n and not sizes.min_file_size_bytes <= mean <= sizes.max_file_size_bytes:
            return f"rewriting it changes nothing: {n} files in, {group.expected_output_files} of {mean} bytes out"
        return ""

    def _group(self, tasks: Sequence[FileScanTask], causes: Counter[str]) -> FileGroup:
        spec_id = tasks[0].spec_id
        partition = tasks[0].data_file.partition if spec_id == self.output_spec_id else None
        words = {
            _SIZE: f"outside {self.sizes.min_file_size_bytes} to {self.sizes.max_file_size_bytes} bytes",
            _DELETES: "with deletes at a threshold",
            _SPEC: f"of another partition spec than {self.output_spec_id}",
            _UNCLUSTERED: "overlapping on the sort key",
            _ALL: "by rewrite-all",
        }
        path = f"spec {spec_id}, any partition"
        if partition is not None:
            path = partition_path(require_spec(self.metadata, spec_id), partition, self.metadata.all_fields_by_id)
        group = FileGroup(
            group_id="",
            spec_id=spec_id,
            output_spec_id=self.output_spec_id,
            partition=partition,
            partition_path=path,
            tasks=(),
            reason=", ".join(f"{counted(n, 'file')} {words[cause]}" for cause, n in causes.items()),
            input_bytes=0,
            estimated_bytes=0,
            expected_output_files=0,
            target_file_size=0,
            strategy=self.order.strategy,
        )
        return self._resized(group, tasks)

    def _resized(self, group: FileGroup, tasks: Sequence[FileScanTask]) -> FileGroup:
        size = sum(task.data_bytes for task in tasks)
        estimate = size
        if self.merged_bytes is not None and group.partition is not None and expected_output_files(size, self.sizes) > 1:
            estimate = self.merged_bytes(tasks)
        if self.order.strategy != "binpack":
            estimate = round(min(estimate * self.options.compression_factor, NO_LIMIT))
        return replace(
            group,
            tasks=tuple(tasks),
            input_bytes=size,
            estimated_bytes=estimate,
            expected_output_files=expected_output_files(estimate, self.sizes),
            target_file_size=output_target_size(estimate, self.sizes),
        )


def _total_size(entries: Entries) -> int:
    return sum(task.size_bytes for task in entries)
