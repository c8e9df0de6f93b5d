"""DELETE FROM table WHERE condition."""

from __future__ import annotations

from pyspark.sql import functions as F

from iceberg_ops.config import properties as p
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import OptionError
from spark_jobs.jobs.conditions import TARGET, condition
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.row_change import RowChangeJob
from spark_jobs.jobs.statement import run_statement
from spark_jobs.runners.changes import CHANGE_COLUMN, DELETE


def run(run: JobRun) -> ActionReport:
    """Delete matching rows, by metadata alone where whole files match.

    Raises OptionError without a WHERE (``true`` deletes all).
    """
    where = run.job.where
    if not where:
        raise OptionError('delete needs a WHERE (write "true" to delete every row)')
    return run_statement(run, lambda now: _evaluate(now, where))


def _evaluate(run: JobRun, where: str) -> ActionReport:
    work = RowChangeJob(run, where, p.DELETE_MODE, p.DELETE_ISOLATION)
    if work.whole_files_match():
        return work.delete_by_metadata()
    rows = work.live_rows(columns=work.columns_of(where)).alias(TARGET)
    matched = rows.filter(condition(rows, where, "WHERE")).withColumn(CHANGE_COLUMN, F.lit(DELETE))
    return work.apply(matched, writes_rows=False)
