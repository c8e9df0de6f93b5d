"""INSERT INTO table: the ingest job."""

from __future__ import annotations

from pyspark.sql import functions as F

from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.config.report import ActionReport
from spark_jobs.jobs.assignment import assign_by_name
from spark_jobs.jobs.distribution import distributed
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.source_rows import source_rows
from spark_jobs.jobs.staged_commit import commit_staged
from spark_jobs.jobs.write_options import WriteOptions, write_context
from spark_jobs.runners.changes import CHANGE_COLUMN, INSERT, write_changes


def run(run: JobRun) -> ActionReport:
    """Append the source's rows, sorted within files by the table's sort order; a run key makes a repeat a no-op.

    An empty source commits nothing.
    """
    options = WriteOptions.parse("append", run.job.options, run.table)
    schema = run.table.schema
    with run.step("plan"):
        rows = assign_by_name(source_rows(run.session, run.job.source), schema)
    with run.step("write"):
        placed = distributed(rows, run.table, options).withColumn(CHANGE_COLUMN, F.lit(INSERT))
        context = write_context(run.table, options, in_table_order=True)
        changes = write_changes(placed, context, run.table.io.properties, run.operation_id)
    run.metrics.update({"added-records": changes.rows_written, "added-data-files": len(changes.files)})
    if not changes.files:
        return run.report("nothing-to-do")
    operation = AppendFiles(added=tuple(changes.files), branch=run.job.branch, run_key=run.job.run_key, summary=run.summary)
    return commit_staged(run, operation, changes.files)
