"""Committing rewritten groups: together or in batches, and without throwing good groups away when one conflicts.

A batch is one ``RewriteFiles`` commit. Position deletes and deletion vectors that came meanwhile are carried over to the new files
(``iceberg_ops.commit.carry_over``). Where others replaced or removed a file that some groups replace, only these groups are
dropped, their files deleted and the rest committed; the reference implementation throws the whole batch away in both cases. The
groups of one run are committed by one committer, one batch after the other, so a run never conflicts with itself.

The rule upheld: a group is reported as committed only after the commit that holds it succeeded, and its files are deleted only
when its commit certainly did not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from iceberg_ops.actions.certificate import RewrittenGroup
from iceberg_ops.actions.context import Run
from iceberg_ops.actions.group_failures import text_of
from iceberg_ops.actions.row_maps import RowMaps
from iceberg_ops.actions.staged_files import delete_staged
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.carry_over import CarriedOver, commit_carrying_over
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.operation import Committed
from iceberg_ops.commit.quiet_moment import wait_for_a_quiet_moment
from iceberg_ops.commit.rewrite_files import RewriteFiles
from iceberg_ops.config.report import GroupReport, GroupStatus, SkippedFile
from iceberg_ops.errors import CommitStateUnknownError, ValidationError
from iceberg_ops.io.locations import identity_under
from iceberg_ops.planning.dangling_deletes import deletes_of_only
from iceberg_ops.planning.file_groups import FileGroup
from iceberg_ops.planning.rewrite_data_files import RewriteDataFilesPlan
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.table import Table


def group_report(
    group: FileGroup, status: GroupStatus, reason: str = "", rewritten: RewrittenGroup | None = None, carried_over_rows: int = 0
) -> GroupReport:
    """A group's line in the report; ``reason`` empty: why it was planned."""
    return GroupReport(
        group_id=group.group_id,
        status=status,
        partition=group.partition_path,
        reason=reason or group.reason,
        input_files=group.input_files,
        input_bytes=group.input_bytes,
        output_files=_output_files(group, status, rewritten),
        output_bytes=0 if rewritten is None else rewritten.output_bytes,
        carried_over_rows=carried_over_rows,
        certificate=None if rewritten is None else rewritten.certificate,
    )


def _output_files(group: FileGroup, status: GroupStatus, rewritten: RewrittenGroup | None) -> int:
    """Files written; of a planned group the estimate; of one that was given up none."""
    if rewritten is not None:
        return len(rewritten.added)
    return group.expected_output_files if status == "planned" else 0


class RewriteCommits:
    """Commits batches of one plan. ``dangling`` are delete files the first commit removes besides those that come to dangle."""

    def __init__(
        self,
        run: Run,
        plan: RewriteDataFilesPlan,
        maps: RowMaps,
        *,
        keep_sequence_number: bool,
        dangling: Sequence[DataFile] = (),
    ) -> None:
        self.run = run
        self.plan = plan
        self.maps = maps
        self.dangling = tuple(dangling)
        self.settled_deletes: set[tuple[str, int | None]] = set()
        """Removed by an earlier commit of this run, or not removable because someone else removed them."""
        self.committed_files: set[str] = set()
        self.conflicted: list[FileGroup] = []
        """Groups that were given up because of a conflict."""
        self.done_elsewhere: set[str] = set()
        """Groups that another process committed under the run key of their batch."""
        self.tries = 0
        self._landed: Committed | None = None
        """The commit of the present batch, from the moment it is one."""
        self.replaced: set[str] = set()
        """Data files that earlier commits of this run replaced, in the snapshots ``own``."""
        self.own: list[int] = []
        self.sequence_number = plan.snapshot.sequence_number if keep_sequence_number and plan.snapshot is not None else None

    def commit(self, groups: Sequence[RewrittenGroup], run_key: str) -> bool:
        """Commit a batch (empty: only the dangling delete files go); False where every group of it conflicted.

        Raises what the committer raises but for conflicts that name their files; then the batch's files are deleted, unless the
        outcome is unknown.
        """
        left = list(groups)
        while left or self._only_dangling(groups):
            self._landed = None  # nothing of this batch is committed yet, whatever is raised before its commit
            try:
                self._commit(left, run_key)
                return True
            except ValidationError as e:
                if self._settle_deletes(left, e):
                    continue
                hit = self._hit(left, e)
                if not hit:
                    self._give_up(left, text_of(e), after=e)
                    raise
                self._give_up(hit, f"conflict: {e}")
                self.conflicted += [found.group for found in hit]
                left = [group for group in left if group not in hit]
            except CommitStateUnknownError as e:
                for rewritten in left:
                    self.run.outcome.groups[rewritten.group.group_id] = group_report(rewritten.group, "failed", str(e), rewritten)
                raise
            except BaseException as e:
                if self._landed is None:
                    self._give_up(left, text_of(e), after=e)
                else:  # an interrupt of the record of what is committed
                    self._conclude(left, self._landed)
                raise
        return False

    def _only_dangling(self, groups: Sequence[RewrittenGroup]) -> bool:
        return not groups and any(_key(d) not in self.settled_deletes for d in self.dangling)

    def _commit(self, groups: Sequence[RewrittenGroup], run_key: str) -> None:
        removed = [task.data_file for rewritten in groups for task in rewritten.group.tasks]
        deletes = self._deletes(groups)
        operation = RewriteFiles(
            removed_data=tuple(removed),
            added_data=tuple(file for rewritten in groups for file in rewritten.added),
            removed_deletes=tuple(deletes.values()),
            branch=self.run.job.branch,
            run_key=run_key,
            starting_snapshot_id=None if self.plan.snapshot is None else self.plan.snapshot.snapshot_id,
            data_sequence_number=self.sequence_number,
            summary=self.run.summary,
            builds_on=tuple(self.own),
        )
        self.tries += 1
        waited = wait_for_a_quiet_moment(self.run.catalog, self.run.table, self.run.job.branch)
        self.run.outcome.count("waited-for-writers-ms", waited)
        found = commit_carrying_over(
            self.run.catalog,
            self.run.table,
            operation,
            lambda paths: self.maps.of(groups, paths),
            operation_id=f"{self.run.operation_id}-carried-{self.tries}",
            mark=self.run.lease_mark,
            committer=self._commit_checked,
        )
        self.replaced.update(file.file_path for file in removed)
        self.settled_deletes |= deletes.keys()
        if found.committed.snapshot is not None:
            self.own.append(found.committed.snapshot.snapshot_id)
        self._record(found, groups, deletes)

    def _commit_checked(self, catalog: Catalog, table: Table, operation: RewriteFiles) -> Committed:
        written = [file.file_path for file in (*operation.added_data, *operation.carried_deletes)]
        committed = commit(catalog, table, operation, before_swap=partial(self.run.check_files, written))
        self._landed = None if committed.already_committed else committed
        return committed

    def _deletes(self, groups: Sequence[RewrittenGroup]) -> dict[tuple[str, int | None], DataFile]:
        """Delete files that apply to nothing once these groups are replaced, those that dangle already among them."""
        replaced = self.replaced | {task.file_path for rewritten in groups for task in rewritten.group.tasks}
        found = (*deletes_of_only(self.plan.tasks, replaced), *self.dangling)
        return {_key(d): d for d in found if _key(d) not in self.settled_deletes}

    def _settle_deletes(self, groups: Sequence[RewrittenGroup], conflict: ValidationError) -> bool:
        """Leave out delete files that the conflict names (others removed or replaced them); False where it names none."""
        named = self._named(conflict)
        identity = identity_under(self.run.table.io)
        hit = {key for key, file in self._deletes(groups).items() if identity(file.file_path) in named}
        self.settled_deletes |= hit
        return bool(hit)

    def _named(self, conflict: ValidationError) -> set[str]:
        identity = identity_under(self.run.table.io)
        return {identity(path) for path in (*conflict.file_paths, *([conflict.file_path] if conflict.file_path else ()))}

    def _record(self, found: CarriedOver, groups: Sequence[RewrittenGroup], deletes: Mapping[Any, DataFile]) -> None:
        outcome, committed = self.run.outcome, found.committed
        outcome.enter(committed)
        if committed.already_committed:
            # Another process finished the same work between our look and our commit: what we wrote is not in the table.
            self._give_up(groups, "the same run key was committed by another process")
            self.done_elsewhere |= {rewritten.group.group_id for rewritten in groups}
            return
        outcome.count("removed-delete-files-count", len(deletes))
        outcome.count("carried-over-rounds-count", found.rounds)
        outcome.count("added-delete-files-count", len(found.deletes))
        self.committed_files.update(file.file_path for file in found.deletes)
        for rewritten in groups:
            self.committed_files.update(file.file_path for file in rewritten.added)
            rows = sum(found.rows.get(file.file_path, 0) for file in rewritten.added)
            reason = f"{rewritten.group.reason}; {rows} rows deleted meanwhile are deleted in the new files" if rows else ""
            outcome.groups[rewritten.group.group_id] = group_report(
                rewritten.group, "carried-over" if rows else "committed", reason, rewritten, rows
            )
            outcome.count("carried-over-deletes-count", rows)
            outcome.count("rewritten-data-files-count", rewritten.group.input_files)
            outcome.count("rewritten-bytes-count", rewritten.group.input_bytes)
            outcome.count("added-data-files-count", len(rewritten.added))
            outcome.count("added-bytes-count", rewritten.output_bytes)
            outcome.count("deleted-rows-applied", rewritten.certificate.deleted_rows_applied)

    def _conclude(self, groups: Sequence[RewrittenGroup], committed: Committed) -> None:
        """Say at least that the groups are committed, where ``_record`` did not come to its end."""
        outcome = self.run.outcome
        if outcome.table is not committed.table:
            outcome.enter(committed)
        for rewritten in groups:
            self.committed_files.update(file.file_path for file in rewritten.added)
            if outcome.groups[rewritten.group.group_id].status not in ("committed", "carried-over"):
                outcome.groups[rewritten.group.group_id] = group_report(rewritten.group, "committed", rewritten=rewritten)

    def _hit(self, groups: Sequence[RewrittenGroup], conflict: ValidationError) -> list[RewrittenGroup]:
        """Groups whose input files the conflict names; none where it names no file of ours."""
        identity = identity_under(self.run.table.io)
        named = self._named(conflict)
        return [found for found in groups if any(identity(task.file_path) in named for task in found.group.tasks)]

    def _give_up(self, groups: Sequence[RewrittenGroup], reason: str, *, after: BaseException | None = None) -> None:
        outcome = self.run.outcome
        for rewritten in groups:
            outcome.groups[rewritten.group.group_id] = group_report(rewritten.group, "dropped", reason)
            outcome.count("failed-data-files-count", rewritten.group.input_files)
        staged = [file.file_path for rewritten in groups for file in rewritten.added]
        for location in delete_staged(self.run, staged, after=after):
            outcome.failures.append(SkippedFile(file_path=location, reason="written by a dropped group and not deleted"))


def batch_run_key(run: Run, groups: Sequence[RewrittenGroup], batches: int) -> str:
    """The run's key for its only commit; with several, a key that also names the batch's input files, so that a retried run that
    plans what is left never takes another batch's commit for its own."""
    if batches == 1:
        return run.run_key
    digest = hashlib.sha256()
    for rewritten in groups:
        for task in rewritten.group.tasks:
            digest.update(task.file_path.encode() + b"\0")
    return f"{run.run_key}/{digest.hexdigest()[:12]}"


def _key(file: DataFile) -> tuple[str, int | None]:
    return file.file_path, file.content_offset
