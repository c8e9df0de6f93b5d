"""DELETE FROM table WHERE condition."""

from __future__ import annotations

from pyspark.sql import functions as F

from iceberg_ops.config import properties as p
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import OptionError
from spark_jobs.jobs.condition_columns import columns_read
from spark_jobs.jobs.conditions import condition
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.row_change import RowChangeJob
from spark_jobs.jobs.sql_tables import TARGET
from spark_jobs.jobs.statement import run_statement
from spark_jobs.runners.changes import CHANGE_COLUMN, DELETE
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN


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
    rows = work.live_rows(columns=columns_read(work, where)).alias(TARGET)
    matched = rows.filter(condition(rows, where, "WHERE", work.tables))
    places = matched.select(FILE_COLUMN, POSITION_COLUMN, F.lit(DELETE).alias(CHANGE_COLUMN))
    return work.apply(places, writes_rows=False, is_repeatable=work.depends_on_own_rows)
