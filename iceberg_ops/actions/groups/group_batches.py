"""One commit for a batch of finished groups, without the groups that have a conflict.

If a conflict names files of some groups, these groups are dropped: their files are deleted, and the others are committed. If it
names a dangling delete file, which others removed or replaced, that file is left out. Iceberg Java discards the whole batch in both
cases (``BaseCommitService``). One object commits the batches of a plan one after the other, so a run never conflicts with itself.

The rule: a group is recorded as committed only after the commit that holds it, and its files are deleted, through the gate, only if
its commit certainly did not happen. After an unknown outcome nothing is deleted, and the rest of the batch is not tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Generic

from iceberg_ops.actions.groups.group_failures import error_text
from iceberg_ops.actions.groups.group_plans import Batch, F, FileKey, FinishedGroup, GroupStrategy, file_key
from iceberg_ops.actions.groups.group_record import GroupRecord
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.staged_files import delete_staged
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.carried_over import CarriedOver
from iceberg_ops.commit.protocol.operation import Committed, Operation
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.deletion.gate import outcome_unknown
from iceberg_ops.errors import ValidationError
from iceberg_ops.io.locations import identity_under
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.content_files import DataFile, FileContent

_REMOVED = {True: summary_keys.DELETED_DATA_FILES, False: summary_keys.REMOVED_DELETE_FILES}
"""The summary key that counts removed files: of data files, or of deletes."""


class GroupBatches(Generic[F]):
    """Commits batches of one plan."""

    def __init__(self, strategy: GroupStrategy[F], record: GroupRecord) -> None:
        self.conflicted: list[F] = []
        """Groups dropped by a conflict, also of batches that failed in the end."""
        self._strategy, self._record = strategy, record
        self._run: Run = strategy.run
        self._turn = 0
        self._left_out: set[FileKey] = set()
        """Dangling deletes that an earlier commit of this plan, or another process, removed."""
        self._replaced: set[str] = set()
        """Files that earlier commits of this plan replaced, in the snapshots ``_own``."""
        self._own: list[int] = []
        self._landed: CarriedOver | None = None
        """The commit of the current batch, as soon as it has happened."""

    def commit(self, groups: Sequence[F], run_key: str) -> bool:
        """Commit a batch (empty: only dangling delete files are removed). Returns whether some of it is committed now, by this run
        or under its key.

        Raises the errors of the committer, except conflicts that name files of the batch; then the batch's files are deleted,
        unless the outcome is unknown."""
        left = list(groups)
        while left or (not groups and self._dangling(())):
            self._landed = None  # nothing of this batch is committed yet, whatever is raised before its commit
            try:
                self._commit(left, run_key)
                return True
            except BaseException as e:
                if (hit := self._taken(left, e)) is None:
                    raise
                self.conflicted += hit
                left = [group for group in left if group not in hit]
        return False

    def _taken(self, groups: Sequence[F], error: BaseException) -> Sequence[F] | None:
        """Groups that a conflict drops, so that the others can be committed; empty if a dangling delete is left out instead.
        None: the error ends the batch."""
        if self._landed is not None:  # an interrupt while a commit is being recorded
            self._record.entered(self._landed.committed)
            self._record.committed(groups, self._landed)
            return None
        if (unknown := outcome_unknown(error)) is not None:
            self._record.in_doubt(groups, unknown)
            return None
        if isinstance(error, ValidationError):
            if self._leave_out(groups, error):
                return ()
            if hit := self._conflicting_groups(groups, error):
                self._give_up(hit, f"conflict: {error}", after=error)
                return hit
        self._give_up(groups, error_text(error), after=error)
        return None

    def _commit(self, groups: Sequence[F], run_key: str) -> None:
        batch = Batch(run_key=run_key, dangling=self._dangling(groups), snapshot_ids=tuple(self._own))
        operation = self._strategy.operation(groups, batch)
        self._turn += 1
        self._record.count(self._strategy.waited())
        done = self._strategy.committed(operation, groups, self._turn, partial(self._commit_staged, groups))
        if done.committed.already_committed:
            # Another process finished the same work between our check and our commit: our files are not in the table. It may have
            # left out groups that conflicted, so their files do not count as replaced: deletes still apply to them.
            self._record.entered(done.committed)
            if _is_whole(done.committed, groups):
                self._record.elsewhere.update(group.group_id for group in groups)
                self._give_up(groups, "the same run key was committed by another process")
            else:
                self._give_up(groups, "another process of the run key committed this batch, but not all groups of it")
            return
        self._landed = done
        self._replaced.update(file.file_path for group in groups for file in group.removed)
        self._left_out.update(map(file_key, batch.dangling))
        if done.committed.snapshot is not None:
            self._own.append(done.committed.snapshot.snapshot_id)
        self._record.committed(groups, done)
        self._record.count(self._strategy.counts(groups, batch, done))

    def _commit_staged(self, groups: Sequence[F], operation: Operation, more: Sequence[DataFile]) -> Committed:
        staged = [file.file_path for files in (*(group.added for group in groups), more) for file in files]

        def on_commit(done: Committed) -> None:
            if not done.already_committed:
                self._landed = CarriedOver(committed=done, deletes=tuple(more))

        check = partial(self._run.check_files, staged)
        done = commit(self._run.catalog, self._run.table, operation, before_swap=check, on_commit=on_commit)
        if self._landed is not None:
            self._record.entered(done)
        return done

    def _dangling(self, groups: Sequence[F]) -> tuple[DataFile, ...]:
        replaced = self._replaced | {file.file_path for group in groups for file in group.removed}
        dangling = {file_key(file): file for file in self._strategy.dangling(groups, replaced)}
        return tuple(file for key, file in dangling.items() if key not in self._left_out)

    def _leave_out(self, groups: Sequence[F], conflict: ValidationError) -> bool:
        """Leave out dangling deletes that the conflict names (others removed or replaced them); False if it names none."""
        identity, named = identity_under(self._run.table.io), self._named(conflict)
        hit = {file_key(file) for file in self._dangling(groups) if identity(file.file_path) in named}
        self._left_out |= hit
        return bool(hit)

    def _conflicting_groups(self, groups: Sequence[F], conflict: ValidationError) -> list[F]:
        """Groups that the conflict names by one of their files."""
        identity, named = identity_under(self._run.table.io), self._named(conflict)
        return [group for group in groups if any(identity(path) in named for path in group.named)]

    def _named(self, conflict: ValidationError) -> set[str]:
        identity = identity_under(self._run.table.io)
        return {identity(path) for path in (*conflict.file_paths, *([conflict.file_path] if conflict.file_path else ()))}

    def _give_up(self, groups: Sequence[F], reason: str, *, after: BaseException | None = None) -> None:
        self._record.dropped([group.group_id for group in groups], reason)
        staged = [file.file_path for group in groups for file in group.added]
        self._record.left_over(delete_staged(self._run, staged, after=after), "written by a dropped group and not deleted")


def _is_whole(done: Committed, groups: Sequence[FinishedGroup]) -> bool:
    """Whether a commit of another process under a batch's key holds all of these groups, by the file counts of its snapshot. It may
    have left out some that conflicted."""
    summary = {} if done.snapshot is None else done.snapshot.summary
    removed = Counter(_REMOVED[file.content is FileContent.DATA] for group in groups for file in group.removed)
    return all((counted := parse_count(summary.get(name))) is None or counted >= count for name, count in removed.items())
