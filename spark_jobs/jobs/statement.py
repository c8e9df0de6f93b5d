"""A delete, update, merge or overwrite carried through although others change the table meanwhile.

What is evaluated anew, when and how often is ``iceberg_ops.commit.statement``'s; here a job is given the table each evaluation is
pinned to. Every evaluation deletes its own files when its commit is refused (``staged_commit``).
"""

from __future__ import annotations

from collections.abc import Callable

from iceberg_ops.actions.ending_error import ending_error
from iceberg_ops.commit.statement import evaluate_until_committed
from iceberg_ops.config.report import ActionReport
from iceberg_ops.table.table import Table
from spark_jobs.jobs.job_run import JobRun

Evaluation = Callable[[JobRun], ActionReport]


def run_statement(run: JobRun, evaluate: Evaluation) -> ActionReport:
    """Evaluate and commit, anew after a conflict with a commit that came meanwhile.

    The report counts ``evaluations-count``. Raises what ``evaluate`` raises, a conflict only once it is given up.
    """

    def evaluated(table: Table, number: int) -> ActionReport:
        if number > 1:
            run.start_again(table)
            if (earlier := run.already_committed()) is not None:
                return earlier
        run.metrics["evaluations-count"] = number
        try:
            return evaluate(run)
        except Exception as e:
            if run.outcome.changed:  # What failed came after the commit: another evaluation would change the rows twice.
                raise ending_error(run.outcome, e) from e
            raise

    return evaluate_until_committed(run.catalog, run.table, run.job.branch, evaluated)
