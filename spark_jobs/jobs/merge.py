"""MERGE INTO table USING source ON condition WHEN ..."""

from __future__ import annotations

from iceberg_ops.actions.merge_checks import check_clauses, needs_cardinality_check
from iceberg_ops.config import properties as p
from iceberg_ops.config.job_spec import RowChange
from iceberg_ops.config.report import ActionReport
from spark_jobs.jobs.ingest import check_files, check_source
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.merge_plan import merged_rows
from spark_jobs.jobs.row_change import RowChangeJob
from spark_jobs.jobs.source_rows import source_rows
from spark_jobs.jobs.source_state import SourceState
from spark_jobs.jobs.sql_tables import SqlTables
from spark_jobs.jobs.staged_source import evaluated_once
from spark_jobs.jobs.statement import run_statement
from spark_jobs.runners.column_names import quoted


def run(run: JobRun) -> ActionReport:
    """Merge the source into the table. A source that may give other rows each time is evaluated once (``staged_source``).

    Raises DataError when two source rows match one target row.
    """
    change = check_clauses(run.job.change)
    return run_statement(run, lambda now: _evaluate(now, change))


def _evaluate(run: JobRun, change: RowChange) -> ActionReport:
    work = RowChangeJob(run, None, p.MERGE_MODE, p.MERGE_ISOLATION)
    target = work.rows_to_write()
    work.tables = tables = SqlTables(run, target.select(*[quoted(f.name) for f in work.schema.fields]))
    check_source(run, require_success_file=work.options.require_success_file)
    given = source_rows(run, tables, strict=True)
    state = SourceState(run, given)
    check_files(run, given, state)
    in_source = tables.relations
    with evaluated_once(run, given, state) as source:
        merged = merged_rows(target, source, change, work.schema, tables)
        return work.apply(
            merged.rows,
            writes_rows=True,
            check_cardinality=needs_cardinality_check(change),
            is_repeatable=lambda: merged.is_known and tables.relations == in_source,
            check=source.check,
        )
