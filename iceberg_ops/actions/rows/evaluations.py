"""Runs a row operation under its lease, and re-evaluates it after a conflict.

``commit.statement`` decides when and how often it is evaluated. An evaluation deletes its own files if its commit is refused
(``staged_files``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.ending_error import ending_error
from iceberg_ops.actions.run.results import Result, committed_earlier
from iceberg_ops.actions.run.run_identity import job_run_identity
from iceberg_ops.commit.loop.statement import evaluate_until_committed
from iceberg_ops.commit.protocol.history import base_snapshot
from iceberg_ops.commit.protocol.run_keys import find_run_now
from iceberg_ops.table.table import Table


@contextmanager
def base_held(run: Run) -> Iterator[None]:
    """Protect the snapshot that the run's commit builds on, and every file that it writes."""
    base = base_snapshot(run.table.metadata, run.job.branch)
    with run.lease(None if base is None else base.snapshot_id):
        yield


def run_statement(run: Run, evaluate: Callable[[Run], Result]) -> Result:
    """Evaluate and commit; re-evaluated after a conflict with a concurrent commit.

    The report counts ``evaluations-count``. Raises the errors of ``evaluate``, a conflict only after the last attempt. After the
    commit an error becomes an IncompleteError, because another evaluation would change the rows twice.
    """

    def evaluated(table: Table, number: int) -> Result:
        now = run.for_evaluation(table, number)
        if number > 1 and (earlier := find_run_now(lambda: _loaded(run), table, job_run_identity(run.job))) is not None:
            return committed_earlier(run.outcome.findings(), table, earlier.snapshot_id)
        try:
            return evaluate(now)
        except Exception as e:
            if run.outcome.changed:
                raise ending_error(run.outcome, e) from e
            raise

    with base_held(run):
        return evaluate_until_committed(run.catalog, run.table, run.job.branch, evaluated)


def _loaded(run: Run) -> Table:
    return run.catalog.load_table(run.table.identifier[1:])
