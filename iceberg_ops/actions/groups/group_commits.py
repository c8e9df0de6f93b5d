"""The one service that runs and commits groups: of data files, of position deletes, of equality deletes, of manifests.

An action plans, and passes its groups, the generator that does their work, and its ``GroupStrategy`` (``group_plans``). The service
does everything else, in the same way for every action:

- **Work.** Groups are processed in parallel, in the runner's lane. Without partial progress the first group that fails ends the
  run; with it a failed group is dropped alone. A VerificationError ends the run in both modes: if the rows of one group do not add
  up, no other group is trusted.
- **Batches.** One commit by default. With ``partial-progress.enabled`` finished groups are committed in up to
  ``partial-progress.max-commits`` batches as they complete, and a batch that fails is dropped alone, up to
  ``partial-progress.max-failed-commits`` of them. Batches are committed one after the other (``group_batches``).
- **Keys.** A single commit carries the run's key. If there are several, each carries the run's key and a digest of the files that
  the batch replaces, so that a repeated run never takes another batch's commit for its own.
- **Conflicts.** A batch is committed without the groups that conflict. The rest of these is planned and rewritten once more if the
  strategy supports it (``GroupStrategy.plan_again``), all of it or nothing; otherwise it is left to the next run.
- **Files.** The gate deletes files that are written and not committed, by their known names and, if work failed or was ended, by
  the operation id in the name. After an unknown outcome nothing is deleted.
- **The record.** Groups, counts and commits are entered when they happen (``group_record``), so the report of an interrupted run is
  correct. The result is made from the record.

Iceberg Java has a ``BaseCommitService`` per action, which commits on the thread that completes a batch: there, batches of one run
conflict with each other, and a conflict of one group discards the batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Generic

from iceberg_ops.actions.groups.group_batches import GroupBatches
from iceberg_ops.actions.groups.group_failures import combined_error, error_text, group_error
from iceberg_ops.actions.groups.group_plans import F, FailedGroup, FinishedGroup, GroupPlan, GroupStrategy
from iceberg_ops.actions.groups.group_record import SETTLED, GroupRecord
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.other_runs import warn_about_other_runs
from iceberg_ops.actions.run.results import AlreadyCommitted, Committed, Findings, NothingToDo, PartiallyCommitted, Result
from iceberg_ops.actions.run.staged_files import delete_leftovers, delete_staged
from iceberg_ops.config.options import ProgressOptions
from iceberg_ops.config.plurals import counted
from iceberg_ops.deletion.gate import outcome_unknown
from iceberg_ops.errors import CommitFailedError, ValidationError, VerificationError

_UNDELETED = "written by this run, not committed, and could not be deleted"


@dataclass(frozen=True, slots=True)
class _Committed(Generic[F]):
    """``kept``: something is committed, by this run or under its key. ``conflicted``: groups dropped by a conflict."""

    kept: bool
    conflicted: Sequence[F]


class GroupCommits(Generic[F]):
    """One run. ``planned`` is the report's part about the plan; ``lost`` the metric that counts files of dropped groups."""

    def __init__(self, run: Run, planned: Findings, *, lost: str = "") -> None:
        self._run = run
        self._record = GroupRecord(run, planned, lost=lost)
        self._errors: list[Exception] = []
        """The errors of groups and commits, in the order of their failures."""
        self._refused = ""
        """Why the last batch that failed was not committed."""

    def work_and_commit(self, plan: GroupPlan[F], progress: ProgressOptions, zeros: Sequence[str] = ()) -> Result:
        """Do the groups' work under a lease on the plan's snapshot, and commit. ``zeros`` are metrics that are reported even if
        they are 0.

        Raises the first error if nothing could be committed, CommitFailedError for too many failed commits, and the errors that end
        a run: VerificationError, CommitStateUnknownError, interrupts."""
        with self._run.lease(plan.snapshot_id):
            warn_about_other_runs(self._run)
            self._record.count(dict.fromkeys(zeros, 0))
            in_batches = progress.partial_progress and plan.groups  # Dangling deletes alone need one commit.
            end = self._partially(plan, progress) if in_batches else self._at_once(plan)
            if end.kept and not self._record.made and not progress.partial_progress:  # This run key stands for the whole run.
                return self._record.result(AlreadyCommitted)
            return self._concluded(self._again(plan, end, progress) if end.conflicted else end.kept)

    def commit(self, strategy: GroupStrategy[F], groups: Sequence[F], *, none_left: str) -> Result:
        """Commit groups whose work is done by their commit. ``none_left``: the status of the groups if the commit had nothing to
        do."""
        with self._run.step("commit") as detail:
            kept = GroupBatches(strategy, self._record).commit(groups, self._run.run_key)
            detail.append(counted(self._record.attempts, "attempt"))
        if not kept or self._record.elsewhere or self._record.snapshot_ids:
            return self._concluded(kept)
        self._record.dropped([group.group_id for group in groups], none_left)
        return NothingToDo(findings=self._record.findings())

    def _at_once(self, plan: GroupPlan[F]) -> _Committed[F]:
        batches, done = GroupBatches(plan.strategy, self._record), list[F]()
        try:
            done = self._all(plan, "run", "nothing was committed")
            with self._run.step("commit") as detail:
                kept = batches.commit(done, self._run.run_key)
                detail.append(counted(self._record.attempts, "attempt"))
        except BaseException as e:  # an error before the batch was begun
            self._drop_open(plan, done, e)
            raise
        return _Committed(kept, batches.conflicted)

    def _all(self, plan: GroupPlan[F], step: str, consequence: str) -> list[F]:
        """Every group's result, in the plan's order. The first failure ends the work of the others, and is raised; then all files
        are deleted."""
        done: list[F] = []
        try:
            with self._run.step(step), closing(plan.work()) as answers:
                for answer in answers:
                    if isinstance(answer, FailedGroup):
                        self._failed(answer)
                        raise group_error(answer, consequence)
                    done.append(answer)
            return sorted(done, key=lambda group: group.group_id)
        except BaseException as e:
            self._abandon(plan, done, e)
            raise

    def _partially(self, plan: GroupPlan[F], progress: ProgressOptions) -> _Committed[F]:
        """Commit in batches as groups complete."""
        per_commit = -(-len(plan.groups) // progress.max_commits)
        batches, commits = GroupBatches(plan.strategy, self._record), list[bool]()
        waiting: list[F] = []
        failed = False
        try:
            with self._run.step("run and commit") as detail, closing(plan.work()) as answers:
                for answer in answers:
                    if isinstance(answer, FailedGroup):
                        self._failed(answer)
                        failed = True
                    else:
                        waiting.append(answer)
                    if len(waiting) >= per_commit:
                        commits.append(self._is_committed(batches, waiting))
                        waiting = []
                if waiting:
                    commits.append(self._is_committed(batches, waiting))
                    waiting = []
                detail.append(f"{len(self._record.snapshot_ids)} commits, {commits.count(False)} failed")
        except BaseException as e:
            self._abandon(plan, waiting, e)
            raise
        if failed:
            self._delete_leftovers(plan)
        self._check_limit(commits.count(False), progress.max_failed_commits, kept=any(commits))
        return _Committed(any(commits), batches.conflicted)

    def _is_committed(self, batches: GroupBatches[F], groups: Sequence[F]) -> bool:
        """Commit a batch; a failed one is dropped alone. Raises only the errors that end a run."""
        key = self._batch_run_key(groups)
        try:
            if batches.commit(groups, key):
                return True
            self._refused = self._record.groups[groups[-1].group_id].reason or ""  # Every group had a conflict.
        except Exception as e:
            if _ends_the_run(e):
                raise
            self._errors.append(e)
            self._refused = error_text(e)
        return False

    def _check_limit(self, failed: int, most: int, *, kept: bool) -> None:
        if failed <= most:
            return
        if not kept and self._errors:
            raise combined_error(self._errors, "no group could be committed")
        raise CommitFailedError(f"{failed} commits failed, more than partial-progress.max-failed-commits {most}: {self._refused}")

    def _again(self, plan: GroupPlan[F], end: _Committed[F], progress: ProgressOptions) -> bool:
        """Work once more on the files that conflicts left over; returns whether any work of the run is committed now. If so, an
        error leaves the rest to the next run."""
        try:
            return self._work_again(plan, end, progress) or end.kept
        except Exception as e:
            self._record.dropped_if_open(f"not rewritten again: {error_text(e)}", list(self._record.groups))
            if not end.kept or _ends_the_run(e):
                raise
            return True

    def _work_again(self, plan: GroupPlan[F], end: _Committed[F], progress: ProgressOptions) -> bool:
        with self._run.step("plan again") as detail:
            again = plan.strategy.plan_again(end.conflicted)
            if again is None:
                return False
            for group in end.conflicted:
                self._record.planned_again(group.group_id, again.successors.get(group.group_id, ()), again.why_not)
            self._record.planned(again.plan.groups)
            detail.append(counted(len(again.plan.groups), "group"))
        if not again.plan.groups:
            return False
        with again.plan.strategy.run.lease(again.plan.snapshot_id):
            return self._all_or_none(again.plan, is_only=not end.kept and not progress.partial_progress)

    def _all_or_none(self, plan: GroupPlan[F], *, is_only: bool) -> bool:
        """Whether the groups are committed; a failure is recorded in their status. ``is_only``: it is the run's only commit."""
        known = len(self._errors)
        try:
            done = self._all(plan, "run again", "what was planned again was not committed")
        except Exception as e:
            if _ends_the_run(e):
                raise
            if len(self._errors) == known:
                self._errors.append(e)
            return False
        with self._run.step("commit again"):
            batches = GroupBatches(plan.strategy, self._record)
            try:
                return batches.commit(done, self._run.run_key if is_only else self._batch_run_key(done))
            except Exception as e:
                if _ends_the_run(e):
                    raise
                self._errors.append(e)
                return False

    def _failed(self, failed: FailedGroup) -> None:
        self._record.failed(failed)
        if isinstance(failed.error, VerificationError):
            raise failed.error
        self._errors.append(group_error(failed, "its files were not changed"))

    def _abandon(self, plan: GroupPlan[F], done: Sequence[FinishedGroup], error: BaseException) -> None:
        """No more groups will be committed, and workers may have left files: those of the run are deleted."""
        self._drop_open(plan, done, error)
        if outcome_unknown(error) is None:
            self._delete_leftovers(plan, error)

    def _drop_open(self, plan: GroupPlan[F], done: Sequence[FinishedGroup], error: BaseException) -> None:
        """Drop groups that are only planned, and delete their files."""
        staged = [file.file_path for group in done if self._record.is_open(group.group_id) for file in group.added]
        self._record.dropped_if_open(f"the run failed: {error_text(error)}", [group.group_id for group in plan.groups])
        self._record.left_over(delete_staged(plan.strategy.run, staged, after=error), _UNDELETED)

    def _delete_leftovers(self, plan: GroupPlan[F], error: BaseException | None = None) -> None:
        """Delete the files that failed workers left, found by the operation id in the name."""
        self._record.left_over(delete_leftovers(plan.strategy.run, self._record.committed_files, after=error), _UNDELETED)

    def _concluded(self, kept: bool) -> Result:
        """The result of the run: all of it is committed, by this run or by another with its run key, or a part of it is."""
        groups, elsewhere = self._record.groups, self._record.elsewhere
        if not kept:
            if self._errors:
                raise combined_error(self._errors, "no group could be committed")
            if not groups:  # others removed the dangling deletes meanwhile
                return NothingToDo(findings=self._record.findings())
            reason = next((g.reason for g in groups.values() if g.status in ("dropped", "failed")), "nothing is left")
            raise ValidationError(f"no group could be committed: {reason}")
        if not all(group.status in SETTLED or group.group_id in elsewhere for group in groups.values()):
            return self._record.result(PartiallyCommitted)
        return self._record.result(Committed if self._record.made else AlreadyCommitted)

    def _batch_run_key(self, batch: Sequence[F]) -> str:
        """The run's key and a digest of the files that the batch replaces."""
        digest = hashlib.sha256()
        for path, offset in sorted((f.file_path, f.content_offset or 0) for group in batch for f in group.removed):
            digest.update(f"{path}\0{offset}\0".encode())
        return f"{self._run.run_key}/{digest.hexdigest()[:12]}"


def _ends_the_run(error: Exception) -> bool:
    """Whether an error affects more than the groups that raised it: rows that do not add up, and an unknown outcome."""
    return isinstance(error, VerificationError) or outcome_unknown(error) is not None
