"""The shared last step of append and overwrite: one commit of the source's files, with the schema they need.

With ``merge-schema`` the new schema and the rows are one commit: no reader sees the columns without the rows, or rows without their
columns. Quarantine files hold rows that are in no table: they are deleted if this run is known not to have committed.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TypeVar

from iceberg_ops.actions.rows.row_commits import commit_rows, nothing_to_do
from iceberg_ops.actions.rows.row_engine import WrittenSource
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import AlreadyCommitted, Committed, NothingToDo, commit_result
from iceberg_ops.actions.run.run_identity import job_run_identity
from iceberg_ops.actions.run.staged_files import delete_staged
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.commit.operations.remember_run import RememberRun
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.commit.protocol.run_keys import find_run
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec import summary_keys
from iceberg_ops.table.same_table import same_table

log = logging.getLogger(__name__)

_Ended = TypeVar("_Ended", NothingToDo, Committed)


def commit_source(run: Run, operation: Operation, written: WrittenSource) -> Committed:
    """Commit ``operation``, with the new schema if there is one."""
    counts = _counts(run, written)
    if written.schema is not run.table.schema:
        counts["added-columns"] = len(written.schema.fields_by_id) - len(run.table.schema.fields_by_id)
        operation = Transaction(
            operations=(UpdateSchema(schema=written.schema), operation),
            branch=operation.branch,
            run_key=operation.run_key,
            starting_snapshot_id=operation.starting_snapshot_id,
            summary=operation.summary,
        )
    with _discard_quarantine_on_failure(run, written):
        return _with_quarantine(run, written, commit_rows(run, operation, written.files, counts))


def remember(run: Run, written: WrittenSource) -> NothingToDo | Committed:
    """There is nothing to commit. If rows went to the quarantine, the run key is recorded, so that a repeated run does not write
    them there again."""
    done = job_run_identity(run.job)
    with _discard_quarantine_on_failure(run, written):
        if done is not None and written.quarantined:
            with run.step("remember run key"):
                remembered = commit(run.catalog, run.table, RememberRun(done=done), on_commit=run.outcome.record)
            if remembered.already_committed:  # by a run with the same key, at the same time
                return _with_quarantine(run, written, commit_result(remembered, run.outcome.findings()))
        return _with_quarantine(run, written, nothing_to_do(run, _counts(run, written)))


def _counts(run: Run, written: WrittenSource) -> dict[str, int]:
    """The counts of a written source."""
    counts = {
        summary_keys.ADDED_RECORDS: sum(f.record_count for f in written.files),
        summary_keys.ADDED_DATA_FILES: len(written.files),
    }
    if run.job.options.get("bad-records", "").lower() == "quarantine":
        counts |= {"quarantined-records": written.rows_quarantined, "quarantine-files": len(written.quarantined)}
    return counts


@contextmanager
def _discard_quarantine_on_failure(run: Run, written: WrittenSource) -> Iterator[None]:
    """Delete the quarantine's files if the block fails without a commit of this run. If it is not certain that there is none, they
    stay, and the report of the failure names them."""
    try:
        yield
    except BaseException as e:
        staged = [f.file_path for f in written.files]
        # An interrupt may come between a commit and its record: then the table refers to the rows' files, and they are kept.
        kept = run.outcome.changed or delete_staged(run, staged, after=e)
        stay = [q.file_path for q in written.quarantined]
        if not kept and (staged or isinstance(e, ValidationError) or _is_not_remembered(run)):
            stay = delete_staged(run, stay, after=e)
        _name(run, written, stay)
        raise


def _with_quarantine(run: Run, written: WrittenSource, result: _Ended) -> _Ended:
    """The result with the quarantine's files; they are deleted if an earlier run has done the work."""
    if isinstance(result, AlreadyCommitted):
        delete_staged(run, [q.file_path for q in written.quarantined])
        return result
    _name(run, written, [q.file_path for q in written.quarantined])
    return replace(result, findings=run.outcome.findings())


def _name(run: Run, written: WrittenSource, stay: Collection[str]) -> None:
    """Name the quarantine files that stay in the report. Calling it twice has no further effect."""
    known = {f.file_path for f in run.outcome.failures}
    run.outcome.failures += [q for q in written.quarantined if q.file_path in stay and q.file_path not in known]


def _is_not_remembered(run: Run) -> bool:
    """Whether the current table certainly has no commit of this run. A run that wrote no file of rows can prove it only by its run
    key; without one, or if the table cannot be read, it is not certain."""
    done = job_run_identity(run.job)
    if done is None:
        return False
    try:
        now = run.catalog.load_table(run.table.identifier[1:])
        return same_table(run.table, now) and find_run(now, done) is None
    except Exception as e:  # noqa: BLE001 - whatever prevents the proof, the quarantine stays; the job's own error is the one to see
        log.warning(
            "the quarantine files of an unfinished run on %s are kept, because its commit could not be looked up: %s",
            run.table.name,
            e,
        )
        return False
