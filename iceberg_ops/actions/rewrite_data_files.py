"""Rewrite data files: bin-pack, sort or z-order, with deletes applied and dangling deletes removed.

plan (``iceberg_ops.planning``) -> works -> runner -> certificate per group -> commit -> clean. One commit by default: a group that
fails ends the run and everything written is deleted. With ``partial-progress.enabled`` groups are committed in up to
``partial-progress.max-commits`` batches as they complete, and a failed group costs only itself.

A conflict costs as little as can be, in both modes: deletes that came meanwhile are carried over; a group that lost a file to
someone else is dropped from the commit, and what is left of it planned and rewritten once more (``replanning``) if it is small.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import replace

from msgspec import structs

from iceberg_ops.actions.certificate import RewrittenGroup, certified
from iceberg_ops.actions.context import Run
from iceberg_ops.actions.group_failures import ending_of, error_of, text_of
from iceberg_ops.actions.group_works import group_of_work, merged_bytes_of, works_of
from iceberg_ops.actions.local_runner import LocalRunner
from iceberg_ops.actions.progress import run_works
from iceberg_ops.actions.replanning import plan_again
from iceberg_ops.actions.rewrite_commits import RewriteCommits, batch_run_key, group_report
from iceberg_ops.actions.row_maps import RowMaps
from iceberg_ops.actions.runner import GroupFailure, work_bytes
from iceberg_ops.actions.staged_files import delete_leftovers, delete_staged
from iceberg_ops.config.options import ProgressOptions, RewriteDataFilesOptions, rewrite_data_files_options
from iceberg_ops.config.report import SkippedFile
from iceberg_ops.data.group_work import GroupResult
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.deletion.gate import outcome_unknown
from iceberg_ops.errors import CommitFailedError, ValidationError, VerificationError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.planning.dangling_deletes import attached_to_nothing
from iceberg_ops.planning.file_groups import FileGroup
from iceberg_ops.planning.live_deletes import live_deletes
from iceberg_ops.planning.rewrite_data_files import RewriteDataFilesPlan, plan_rewrite_data_files
from iceberg_ops.spec.content_files import DataFile


def rewrite_data_files(run: Run) -> None:
    """Fill ``run.outcome``. Raises UnsupportedError (ORC data files), and what planning, the groups and the committer raise."""
    options = rewrite_data_files_options(run.job.options, run.table.properties)
    where = None if run.job.where is None else parse_where(run.job.where)
    with run.step("plan") as detail:
        plan = plan_rewrite_data_files(run.table, options, where, run.job.branch, merged_bytes=merged_bytes_of(run.table, options))
        dangling = _dangling(run, plan, options)
        detail.append(f"{len(plan.groups)} groups, {plan.estimates.input_files} of {len(plan.tasks)} files")
    _report_plan(run, plan, dangling)
    if plan.is_empty and not dangling:
        return
    if plan.groups:
        WriteContext.for_table(run.table.metadata).check_format()
    run.outcome.status = "planned"
    if not run.job.dry_run:
        _Rewrite(run, plan, options, dangling).run_all()


def _dangling(run: Run, plan: RewriteDataFilesPlan, options: RewriteDataFilesOptions) -> tuple[DataFile, ...]:
    if not options.remove_dangling_deletes or plan.snapshot is None:
        return ()
    return attached_to_nothing(live_deletes(run.table, plan.snapshot), plan.tasks)


def _report_plan(run: Run, plan: RewriteDataFilesPlan, dangling: Sequence[DataFile]) -> None:
    outcome, estimates = run.outcome, plan.estimates
    outcome.plan_id = plan.plan_id
    outcome.metrics |= {
        "planned-groups-count": estimates.groups,
        "planned-input-files-count": estimates.input_files,
        "planned-input-bytes-count": estimates.input_bytes,
        "planned-output-bytes-count": estimates.expected_output_bytes,
        "planned-output-files-count": estimates.expected_output_files,
        "planned-delete-files-count": estimates.deletes_applied,
        "dangling-delete-files-count": len(dangling),
        "skipped-files-count": len(plan.skipped),
    }
    outcome.groups = {group.group_id: group_report(group, "planned") for group in plan.groups}
    outcome.skipped = [SkippedFile(file_path=skipped.file_path, reason=skipped.reason) for skipped in plan.skipped]


class _Rewrite:
    """One run of a plan that is not empty."""

    def __init__(
        self, run: Run, plan: RewriteDataFilesPlan, options: RewriteDataFilesOptions, dangling: Sequence[DataFile]
    ) -> None:
        self.run = run
        self.plan = plan
        self.options = options
        self.works = works_of(
            plan.groups, run.table.metadata, run.table.io,
            order=plan.order, sizes=options.sizes, operation_id=run.operation_id,
        )  # fmt: skip
        self.commits = RewriteCommits(
            run, plan, RowMaps(run.table.io, self.works),
            keep_sequence_number=options.use_starting_sequence_number, dangling=dangling,
        )  # fmt: skip
        self.plain_columns = frozenset(f.field_id for f in run.table.schema.fields if f.type.is_primitive)
        self.failed: list[GroupFailure] = []
        self.failed_ids: set[str] = set()
        self.errors: list[Exception] = []
        """What groups and commits failed with, in the order of their failures."""

    def run_all(self) -> None:
        """Run and commit; then say what became of it."""
        snapshot_id = None if self.plan.snapshot is None else self.plan.snapshot.snapshot_id
        with self.run.lease(snapshot_id):
            self._run_all()

    def _run_all(self) -> None:
        for name in ("rewritten-data-files-count", "rewritten-bytes-count", "added-data-files-count", "added-bytes-count"):
            self.run.outcome.count(name, 0)
        for name in ("failed-data-files-count", "removed-delete-files-count"):
            self.run.outcome.count(name, 0)
        if not self.options.progress.partial_progress:
            self._at_once()
            return
        try:
            self._partially(self.options.progress)
        except BaseException as e:
            self._clean_after_failure(e)
            raise

    def _at_once(self) -> None:
        done: list[RewrittenGroup] = []
        try:
            with self.run.step("run"):
                with closing(self._rewritten()) as groups:
                    for rewritten in groups:
                        done.append(rewritten)
                        if self.failed:
                            break
            if self.failed:
                raise error_of(self.failed[0], "nothing was committed")
        except BaseException as e:
            self._abandon(done, e)
            raise
        with self.run.step("commit") as detail:
            kept = self.commits.commit(_in_plan_order(done), self.run.run_key)
            detail.append(f"{self.run.outcome.attempts} attempts")
        if self.commits.done_elsewhere:  # This run key stands for the whole run.
            self.run.outcome.status = "already-committed"
            return
        self._conclude(self._again(kept))

    def _partially(self, progress: ProgressOptions) -> None:
        per_commit = -(-len(self.plan.groups) // progress.max_commits) or 1
        batch: list[RewrittenGroup] = []
        failed_commits = 0
        kept = False
        with self.run.step("run and commit") as detail, closing(self._rewritten()) as rewritten:
            while True:
                found = next(rewritten, None)
                if found is not None:
                    batch.append(found)
                if batch and (found is None or len(batch) >= per_commit):
                    committed = self._try_commit(batch)
                    kept, failed_commits = kept or committed, failed_commits + (not committed)
                    batch = []
                if found is None:
                    break
            detail.append(f"{len(self.run.outcome.snapshot_ids)} commits, {failed_commits} failed")
        if not self.plan.groups:
            kept = self.commits.commit((), self.run.run_key)
        if self.failed:
            self._clean_after_failure()
        if failed_commits > progress.max_failed_commits:
            if not kept and self.errors:
                raise ending_of(self.errors, "no group could be committed")
            raise CommitFailedError(
                f"{failed_commits} commits failed, more than partial-progress.max-failed-commits {progress.max_failed_commits}: "
                f"{self._last_failure}"
            )
        self._conclude(self._again(kept))

    def _try_commit(self, batch: Sequence[RewrittenGroup]) -> bool:
        try:
            return self.commits.commit(batch, batch_run_key(self.run, batch, 2))
        except Exception as e:
            if outcome_unknown(e) is not None:
                raise
            self.errors.append(e)
            return False

    @property
    def _last_failure(self) -> str:
        return text_of(self.errors[-1]) if self.errors else "every group of them conflicted"

    def _again(self, kept: bool) -> bool:
        """Rewrite what conflicts left over, once; whether anything of the run is committed now. Where something is, an error leaves
        the rest to the next run."""
        if not self.commits.conflicted:
            return kept
        try:
            return self._plan_and_run_again(kept)
        except Exception as e:
            if not kept or isinstance(e, VerificationError) or outcome_unknown(e) is not None:
                raise
            groups = self.run.outcome.groups
            for group in [g for g in groups.values() if g.status == "planned"]:
                groups[group.group_id] = structs.replace(group, status="dropped", reason=f"not rewritten again: {text_of(e)}")
            return True

    def _plan_and_run_again(self, kept: bool) -> bool:
        run = self.run
        with run.step("plan again") as detail:
            table, plan = plan_again(run, self.plan, self.options, self.commits.conflicted)
            detail.append(f"{len(plan.groups)} groups")
        if plan.is_empty:
            return kept
        run = replace(run, table=table, operation_id=f"{run.operation_id}-again", first_operation_id=run.lease_mark)
        second = _Rewrite(run, plan, self.options, ())
        second.commits.committed_files, second.errors = self.commits.committed_files, self.errors
        second.commits.done_elsewhere = self.commits.done_elsewhere
        with run.lease(None if plan.snapshot is None else plan.snapshot.snapshot_id):
            return second._run_again(first=not kept) or kept

    def _run_again(self, *, first: bool) -> bool:
        """All groups or none, and a failure is told by their status. ``first``: nothing of the run is committed yet."""
        done: list[RewrittenGroup] = []
        try:
            with self.run.step("run again"):
                with closing(self._rewritten()) as groups:
                    done.extend(groups)
            if self.failed:
                raise error_of(self.failed[0], "what was planned again was not committed")
        except BaseException as e:
            self._abandon(done, e)
            if isinstance(e, VerificationError) or not isinstance(e, Exception):
                raise
            if not self.failed:
                self.errors.append(e)
            return False
        with self.run.step("commit again"):
            key = self.run.run_key if first else batch_run_key(self.run, done, 2)
            try:
                return self.commits.commit(_in_plan_order(done), key)
            except Exception as e:
                if outcome_unknown(e) is not None:
                    raise
                self.errors.append(e)
                return False

    def _rewritten(self) -> Generator[RewrittenGroup]:
        """Groups as their last work completes, certified. A failed group is recorded, not yielded; VerificationError ends all.
        Closed before what the run wrote is deleted."""
        run = self.run
        groups = {group.group_id: group for group in self.plan.groups}
        waiting = dict.fromkeys(groups, 0)
        for work in self.works:
            waiting[group_of_work(work.group_id)] += 1
        results: dict[str, list[GroupResult]] = {group_id: [] for group_id in groups}
        runner = run.runner or LocalRunner()
        if isinstance(runner, LocalRunner):
            runner = runner.limited(self.options.progress.max_concurrent_file_group_rewrites)
        files, size = sum(len(work.tasks) for work in self.works), sum(map(work_bytes, self.works))
        with closing(run_works(runner, self.works, run.meter("rewriting", files, size, unit="files"))) as answers:
            for answer in answers:
                group = groups[group_of_work(answer.group_id)]
                waiting[group.group_id] -= 1
                if isinstance(answer, GroupFailure):
                    self._record_failure(group, answer)
                    if not self.options.progress.partial_progress:
                        return
                else:
                    results[group.group_id].append(answer)
                if waiting[group.group_id] == 0 and group.group_id not in self.failed_ids:
                    yield certified(group, sorted(results.pop(group.group_id), key=lambda r: r.group_id), self.plain_columns)

    def _record_failure(self, group: FileGroup, failure: GroupFailure) -> None:
        self.failed.append(failure)
        if group.group_id not in self.failed_ids:
            self.failed_ids.add(group.group_id)
            self.errors.append(error_of(failure, "its files are as they were"))
            self.run.outcome.groups[group.group_id] = group_report(group, "failed", f"{failure.code}: {failure.message}")
            self.run.outcome.count("failed-data-files-count", group.input_files)

    def _abandon(self, done: Sequence[RewrittenGroup], error: BaseException) -> None:
        """Nothing will be committed: groups that were written or planned are dropped and every file of the run is deleted."""
        reason = text_of(error)
        for group in self.plan.groups:
            if group.group_id not in self.failed_ids:
                self.run.outcome.groups[group.group_id] = group_report(group, "dropped", f"the run failed: {reason}")
                self.run.outcome.count("failed-data-files-count", group.input_files)
        self._report_undeleted(delete_staged(self.run, [f.file_path for found in done for f in found.added], after=error))
        self._clean_after_failure(error)

    def _clean_after_failure(self, error: BaseException | None = None) -> None:
        """Delete what failed workers left, found by the operation id in the name."""
        left = delete_leftovers(self.run, after=error)
        self._report_undeleted([f for f in left if f not in self.commits.committed_files])

    def _report_undeleted(self, locations: Sequence[str]) -> None:
        self.run.outcome.failures.extend(
            SkippedFile(file_path=location, reason="written by this run, not committed, and could not be deleted")
            for location in locations
        )

    def _conclude(self, kept: bool) -> None:
        """Say what became of the run: all of it is committed, by this run or by another of its run key, or a part of it is."""
        outcome = self.run.outcome
        if not kept:
            if self.errors:
                raise ending_of(self.errors, "no group could be committed")
            reason = next((g.reason for g in outcome.groups.values() if g.status in ("dropped", "failed")), "nothing is left")
            raise ValidationError(f"no group could be committed: {reason}")
        outcome.conclude_groups(self.commits.done_elsewhere)


def _in_plan_order(groups: Sequence[RewrittenGroup]) -> list[RewrittenGroup]:
    return sorted(groups, key=lambda found: found.group.group_id)
