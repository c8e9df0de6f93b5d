"""The error that a failed job ends with, considering the work it had done before.

Errors of the tree say what was changed: most of them say nothing was. That is true for the call that raised them, but not always
for the job. It may have committed some batches, or the outcome of a commit may be unknown, and a later step (reading the table, the
next group) failed with its own error. The caller decides by the error's code whether to run the job again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from iceberg_ops.actions.run.context import Outcome
from iceberg_ops.deletion.gate import outcome_unknown
from iceberg_ops.errors import (
    CommitInterruptedError,
    CommitStateUnknownError,
    IcebergOpsError,
    IncompleteError,
    IncompleteInterruptedError,
)


def ending_error(outcome: Outcome, error: BaseException) -> BaseException:
    """``error``, or the error that describes the state of the whole job.

    CommitStateUnknownError if it was caused by an unknown outcome; IncompleteError if something was committed or removed. After a
    Ctrl-C they are interrupts as well. If the job should be repeated under its run key, and the key is made up, the message names
    it."""
    ended = _of_whole_job(outcome, error)
    is_repeated = isinstance(ended, CommitStateUnknownError) or (isinstance(ended, IncompleteError) and ended.only_clean_up)
    key = outcome.made_up_key
    if is_repeated and key is not None and key not in str(ended):
        ended.args = (f"{ended}; run again with --run-key {key}, which was made up for this run, it is done once",)
    return ended


def _of_whole_job(outcome: Outcome, error: BaseException) -> BaseException:
    if isinstance(error, CommitStateUnknownError):
        return error
    if (unknown := outcome_unknown(error)) is not None:
        is_unknown = CommitInterruptedError if isinstance(error, KeyboardInterrupt) else CommitStateUnknownError
        return is_unknown(f"{unknown}; then the job ended with {_error_text(error)}")
    if outcome.changed:
        is_incomplete = IncompleteInterruptedError if isinstance(error, KeyboardInterrupt) else IncompleteError
        ended = is_incomplete(f"{_done(outcome)}; then the job ended with {_error_text(error)}")
        ended.only_clean_up = outcome.one_commit and bool(outcome.snapshot_ids)
        return ended
    return error


@contextmanager
def until_reported(outcome: Outcome) -> Iterator[None]:
    """Within this context a job is done and its report is being written. An exception after the job's own end (a Ctrl-C while a
    slow store receives the report) also describes the state of the job, whether it succeeded or failed. Errors of the tree pass
    unchanged, because they already do."""
    try:
        yield
    except IcebergOpsError:
        raise
    except (Exception, KeyboardInterrupt) as e:
        if (error := ending_error(outcome, e)) is e:
            raise
        raise error from e


def _error_text(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "an interrupt (Ctrl-C)"
    return f"{error.code}: {error}" if isinstance(error, IcebergOpsError) else f"{type(error).__name__}: {error}"


def _done(outcome: Outcome) -> str:
    if not outcome.snapshot_ids:
        return "a part of the work is done"
    ids = ", ".join(map(str, outcome.snapshot_ids))
    if outcome.one_commit:
        return f"the work is committed (snapshot {ids}), only clean-up is left"
    return f"a part of the work is committed (snapshot {ids})"
