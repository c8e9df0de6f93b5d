"""UPDATE table SET column = expression WHERE condition, on Spark."""

from __future__ import annotations

from pyspark.sql import functions as F

from iceberg_ops.actions.rows.row_engine import RowChanges, Statement
from spark_jobs.jobs.assignment import assignments
from spark_jobs.jobs.bad_records import bad_change
from spark_jobs.jobs.conditions import condition
from spark_jobs.jobs.merge_plan import set_values
from spark_jobs.jobs.row_change import StatementRows
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.jobs.sql_tables import TARGET
from spark_jobs.runners.changes import CHANGE_COLUMN, UPDATE
from spark_jobs.runners.column_names import quoted
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN


def update_changes(run: SparkRun, statement: Statement) -> RowChanges:
    """The matching rows with their new values. Raises WhereError, OptionError, DataError for a value that does not fit."""
    assert run.job.change is not None
    work = StatementRows(run, statement)
    rows = work.rows_to_write().alias(TARGET)
    matched = rows.filter(condition(rows, run.job.where, "WHERE", work.tables)) if run.job.where else rows
    matched = matched.alias(TARGET)
    assigned = set_values(matched, work.schema, run.job.change.set, work.tables, evaluated_once=True)
    values = {f.name: F.col(quoted(f.name)) for f in work.schema.fields} | assigned
    # A separate projection evaluates each value once: it may differ in another evaluation.
    given = matched.select(FILE_COLUMN, POSITION_COLUMN, *work.row_ids, *[values[f.name].alias(f.name) for f in work.schema.fields])
    columns = assignments(given, work.schema, assigned)
    bad = bad_change([c.wrong for c in columns if c.wrong is not None], F.col(FILE_COLUMN), F.col(POSITION_COLUMN))
    changed = given.select(
        FILE_COLUMN,
        POSITION_COLUMN,
        F.lit(UPDATE).alias(CHANGE_COLUMN),
        *work.row_ids,
        *[c.value.alias(c.field.name) for c in columns],
        *([] if bad is None else [bad]),
    )
    return work.changes(changed, writes_rows=True, is_repeatable=work.depends_on_own_rows)
