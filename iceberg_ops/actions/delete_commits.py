"""Committing rewritten deletes: several groups at once, dropping those that others touched meanwhile.

Shared by the rewrite of position delete files and the conversion of equality deletes. A group is reported as committed only after
the commit that holds it, and its files are deleted only when its commit certainly failed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from iceberg_ops.actions.context import Run
from iceberg_ops.actions.group_failures import text_of
from iceberg_ops.actions.staged_files import delete_staged
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.operation import Operation
from iceberg_ops.config.report import Certificate, GroupReport, SkippedFile
from iceberg_ops.errors import CommitStateUnknownError, ValidationError
from iceberg_ops.io.locations import identity_under
from iceberg_ops.spec.content_files import DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenDeletes:
    """What a group of deletes became. ``data_files`` are those its new deletes name; ``positions`` how many they delete."""

    group_id: str
    partition: str
    reason: str
    removed: tuple[DataFile, ...]
    added: tuple[DataFile, ...]
    data_files: tuple[str, ...]
    positions: int

    @property
    def input_bytes(self) -> int:
        return sum(f.stored_bytes for f in self.removed)

    @property
    def output_bytes(self) -> int:
        return sum(f.stored_bytes for f in self.added)


def commit_deletes(
    run: Run, groups: Sequence[RewrittenDeletes], operation_of: Callable[[Sequence[RewrittenDeletes]], Operation]
) -> bool:
    """Commit the groups, without those that conflict; fill outcome. False: another process has committed them under the run key.

    Raises ValidationError when none is left."""
    left = list(groups)
    while left:
        try:
            written = [file.file_path for group in left for file in group.added]
            committed = commit(run.catalog, run.table, operation_of(left), before_swap=partial(run.check_files, written))
        except CommitStateUnknownError:
            raise
        except ValidationError as e:
            hit = _hit(run, left, e)
            _give_up(run, hit or left, f"conflict: {e}", after=e)
            if not hit or len(hit) == len(left):
                raise
            left = [group for group in left if group not in hit]
        except BaseException as e:
            _give_up(run, left, text_of(e), after=e)
            raise
        else:
            outcome = run.outcome
            outcome.record(committed)
            if committed.already_committed:
                _give_up(run, left, "the same run key was committed by another process")
                return False
            _record(run, left)
            if len(left) < len(groups):
                outcome.status = "partially-committed"
            return True
    return True


def group_report(group: RewrittenDeletes, *, dropped: str = "") -> GroupReport:
    """A group's line: committed, or ``dropped`` with the reason. The certificate counts positions: named before, written after."""
    written = sum(f.record_count for f in group.added)
    return GroupReport(
        group_id=group.group_id,
        status="dropped" if dropped else "committed",
        partition=group.partition,
        reason=dropped or group.reason,
        input_files=len(group.removed),
        input_bytes=group.input_bytes,
        output_files=0 if dropped else len(group.added),
        output_bytes=0 if dropped else group.output_bytes,
        certificate=None if dropped else Certificate(rows_in=group.positions, rows_out=written),
    )


def _record(run: Run, groups: Sequence[RewrittenDeletes]) -> None:
    outcome = run.outcome
    for group in groups:
        outcome.groups[group.group_id] = group_report(group)
        outcome.count("rewritten-delete-files-count", len(group.removed))
        outcome.count("rewritten-bytes-count", group.input_bytes)
        outcome.count("added-delete-files-count", len(group.added))
        outcome.count("added-bytes-count", group.output_bytes)
        outcome.count("deleted-positions-count", group.positions)


def _give_up(run: Run, groups: Sequence[RewrittenDeletes], reason: str, *, after: BaseException | None = None) -> None:
    for group in groups:
        run.outcome.groups[group.group_id] = group_report(group, dropped=reason)
    staged = [f.file_path for group in groups for f in group.added]
    for location in delete_staged(run, staged, after=after):
        run.outcome.failures.append(SkippedFile(file_path=location, reason="written by a dropped group and not deleted"))


def _hit(run: Run, groups: Sequence[RewrittenDeletes], conflict: ValidationError) -> list[RewrittenDeletes]:
    """Groups that the conflict names by a delete file or a data file of theirs."""
    identity = identity_under(run.table.io)
    named = {identity(path) for path in (*conflict.file_paths, *([conflict.file_path] if conflict.file_path else ()))}
    return [g for g in groups if any(identity(p) in named for p in (*g.data_files, *(f.file_path for f in g.removed)))]
