"""DELETE FROM table WHERE condition, on Spark."""

from __future__ import annotations

from pyspark.sql import functions as F

from iceberg_ops.actions.rows.row_engine import RowChanges, Statement
from spark_jobs.jobs.condition_columns import columns_read
from spark_jobs.jobs.conditions import condition
from spark_jobs.jobs.row_change import StatementRows
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.jobs.sql_tables import TARGET
from spark_jobs.runners.changes import CHANGE_COLUMN, DELETE
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN


def delete_changes(run: SparkRun, statement: Statement) -> RowChanges:
    """The matching rows. Raises WhereError."""
    where = run.job.where
    assert where is not None
    work = StatementRows(run, statement)
    rows = work.live_rows(columns=columns_read(work, where)).alias(TARGET)
    matched = rows.filter(condition(rows, where, "WHERE", work.tables))
    places = matched.select(FILE_COLUMN, POSITION_COLUMN, F.lit(DELETE).alias(CHANGE_COLUMN))
    return work.changes(places, writes_rows=False, is_repeatable=work.depends_on_own_rows)
