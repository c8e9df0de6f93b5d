"""The record of a running job with groups, so that the report of a failure contains it too.

Only this module writes the groups, counts and commits of such a run into the ``Outcome``. A group changes from ``planned`` to its
result. A commit is entered before its groups, and these before their counts, so that an interrupt in between loses only the less
important part.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from iceberg_ops.actions.groups.group_failures import error_text
from iceberg_ops.actions.groups.group_plans import FailedGroup, FinishedGroup
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Committed as WorkCommitted
from iceberg_ops.actions.run.results import Findings
from iceberg_ops.commit.operations.carried_over import CarriedOver
from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.config.report import GroupReport, GroupStatus, SkippedFile

SETTLED = frozenset({"committed", "carried-over", "re-planned"})
"""Statuses of a group that needs no more work in its run."""


class GroupRecord:
    """``lost``: the metric that counts input files of dropped groups; empty: none does."""

    def __init__(self, run: Run, planned: Findings, *, lost: str = "") -> None:
        self._table, self._outcome, self._lost = run.table, run.outcome, lost
        self._committed_files: set[str] = set()
        self.made = False
        """Whether the run made a commit itself."""
        self.elsewhere: set[str] = set()
        """Groups that another process committed under the run key of their batch."""
        self._outcome.keep(planned)

    @property
    def groups(self) -> Mapping[str, GroupReport]:
        """The current state of the groups, by id."""
        return self._outcome.groups

    @property
    def snapshot_ids(self) -> Sequence[int]:
        return self._outcome.snapshot_ids

    @property
    def attempts(self) -> int:
        return self._outcome.attempts

    def count(self, counts: Mapping[str, int]) -> None:
        """Add to metrics."""
        for name, amount in counts.items():
            self._outcome.count(name, amount)

    @property
    def committed_files(self) -> Collection[str]:
        """Locations of files that are in the table."""
        return self._committed_files

    def entered(self, done: Committed) -> None:
        """A commit of the run, or of another process under its key; without a snapshot it changed nothing. Calling it twice has no
        further effect."""
        self.made |= not done.already_committed
        if done.snapshot is None:
            self._outcome.attempts, self._outcome.table = self._outcome.attempts + done.attempts, done.table
        elif done.snapshot.snapshot_id not in self._outcome.snapshot_ids:
            self._outcome.enter(done)

    def committed(self, groups: Sequence[FinishedGroup], done: CarriedOver) -> None:
        """Groups are in the table. Calling it twice has no further effect."""
        self._committed_files.update(f.file_path for group in groups for f in group.added)
        self._committed_files.update(f.file_path for f in done.deletes)
        for group in groups:
            rows = sum(done.rows.get(f.file_path, 0) for f in group.added)
            planned = self._outcome.groups[group.group_id]
            if planned.status in SETTLED:
                continue
            reason = f"{planned.reason}; {rows} concurrently deleted rows are deleted in the new files" if rows else planned.reason
            report = _of_finished(planned, group, "carried-over" if rows else "committed", reason)
            self._outcome.groups[group.group_id] = replace(report, carried_over_rows=rows)

    def in_doubt(self, groups: Sequence[FinishedGroup], unknown: BaseException) -> None:
        """It is not known whether the groups are in the table."""
        for group in groups:
            planned = self._outcome.groups[group.group_id]
            self._outcome.groups[group.group_id] = _of_finished(planned, group, "failed", str(unknown))

    def failed(self, failed: FailedGroup) -> None:
        """A group's work failed."""
        self._end(failed.group_id, "failed", error_text(failed.error))

    def dropped(self, group_ids: Sequence[str], reason: str) -> None:
        """Groups are dropped, whatever was written for them."""
        for group_id in group_ids:
            self._end(group_id, "dropped", reason)

    def is_open(self, group_id: str) -> bool:
        """Whether the group is only planned so far."""
        return self._outcome.groups[group_id].status == "planned"

    def dropped_if_open(self, reason: str, group_ids: Sequence[str]) -> None:
        """Drop those groups that are only planned."""
        self.dropped([group_id for group_id in group_ids if self.is_open(group_id)], reason)

    def planned_again(self, group_id: str, successors: Sequence[str], why_not: str) -> None:
        """The result for a group dropped by a conflict: the groups that took its place, or why there are none."""
        lost = self._outcome.groups[group_id]
        if not successors:
            self._outcome.groups[group_id] = replace(lost, reason=f"{lost.reason}; not planned again: {why_not}")
            return
        reason = f"{lost.reason}; planned again as {', '.join(successors)}"
        self._outcome.groups[group_id] = replace(lost, status="re-planned", reason=reason)
        self._outcome.count("re-planned-groups-count", 1)
        if self._lost:
            self._outcome.count(self._lost, -lost.input_files)

    def planned(self, groups: Sequence[GroupReport]) -> None:
        """Groups that were planned during the run."""
        self._outcome.groups |= {group.group_id: group for group in groups}

    def left_over(self, locations: Sequence[str], reason: str) -> None:
        """Files that were written, are not committed, and stay."""
        left = (location for location in locations if location not in self._committed_files)
        self._outcome.failures.extend(SkippedFile(file_path=location, reason=reason) for location in left)

    def _end(self, group_id: str, status: GroupStatus, reason: str) -> None:
        planned = self._outcome.groups[group_id]
        self._outcome.groups[group_id] = replace(planned, status=status, reason=reason, output_files=0)
        if self._lost and group_id not in self.elsewhere:
            self._outcome.count(self._lost, planned.input_files)

    def findings(self) -> Findings:
        """The whole record, as part of a result."""
        return self._outcome.findings()

    def result(self, of: type[WorkCommitted]) -> WorkCommitted:
        """The result of a run that committed something."""
        return of(
            findings=self.findings(),
            table=self._outcome.table or self._table,
            snapshot_ids=tuple(self._outcome.snapshot_ids),
            attempts=self._outcome.attempts,
        )


def _of_finished(planned: GroupReport, group: FinishedGroup, status: GroupStatus, reason: str) -> GroupReport:
    return replace(
        planned,
        status=status,
        reason=reason,
        input_files=group.input_files,
        input_bytes=group.input_bytes,
        output_files=len(group.added),
        output_bytes=group.output_bytes,
        certificate=group.certificate,
    )
