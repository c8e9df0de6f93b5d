"""MERGE INTO table USING source ON condition WHEN ..., on Spark."""

from __future__ import annotations

from iceberg_ops.actions.rows.row_engine import RowChanges, Statement
from iceberg_ops.actions.run.staged_files import delete_staged
from iceberg_ops.config.job_spec import RowChange
from spark_jobs.jobs.ingest import check_files, check_source
from spark_jobs.jobs.merge_plan import merged_rows
from spark_jobs.jobs.row_change import StatementRows
from spark_jobs.jobs.source_rows import source_rows
from spark_jobs.jobs.source_state import SourceState
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.jobs.sql_tables import SqlTables
from spark_jobs.jobs.staged_source import evaluated_once
from spark_jobs.runners.column_names import quoted


def merge_changes(run: SparkRun, statement: Statement, change: RowChange) -> RowChanges:
    """The rows that clauses apply to, with their new values. A source that may give other rows each time is evaluated once
    (``staged_source``). Raises WhereError, OptionError, SchemaError, DataError for a value that does not fit."""
    work = StatementRows(run, statement)
    target = work.rows_to_write()
    work.tables = tables = SqlTables(run, target.select(*[quoted(f.name) for f in statement.schema.fields]))
    check_source(run, require_success_file=statement.options.require_success_file)
    given = source_rows(run, tables, strict=True)
    state = SourceState(run, given)
    check_files(run, given, state)
    in_source = tables.relations
    changes = RowChanges()
    try:
        with evaluated_once(run, given, state) as source:
            merged = merged_rows(target, source, change, statement.schema, tables)
            changes = work.changes(
                merged.rows,
                writes_rows=True,
                is_repeatable=lambda: merged.is_known and tables.relations == in_source,
                check=source.check,
            )
    except BaseException as e:
        if changes.files:  # an interrupt came while the staged source was being deleted
            delete_staged(statement.run, [f.file_path for f in changes.files], after=e)
        raise
    return changes
