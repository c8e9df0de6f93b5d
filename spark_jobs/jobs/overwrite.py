"""INSERT OVERWRITE: rows replace what a filter selects, or (without a filter) the partitions they fall into."""

from __future__ import annotations

from pyspark.sql import functions as F

from iceberg_ops.commit.operation import Operation
from iceberg_ops.commit.overwrite_files import OverwriteFiles
from iceberg_ops.commit.replace_partitions import ReplacePartitions
from iceberg_ops.config.report import ActionReport
from iceberg_ops.spec.content_files import DataFile
from spark_jobs.jobs.assignment import assign_by_name
from spark_jobs.jobs.conditions import pruning_filter
from spark_jobs.jobs.distribution import distributed
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.source_rows import source_rows
from spark_jobs.jobs.staged_commit import commit_staged
from spark_jobs.jobs.write_options import WriteOptions, write_context
from spark_jobs.runners.changes import CHANGE_COLUMN, INSERT, write_changes


def run(run: JobRun) -> ActionReport:
    """Write the source's rows and replace what was there, in one commit."""
    options = WriteOptions.parse("overwrite", run.job.options, run.table)
    with run.step("plan"):
        rows = assign_by_name(source_rows(run.session, run.job.source), run.table.schema)
    with run.step("write"):
        placed = distributed(rows, run.table, options).withColumn(CHANGE_COLUMN, F.lit(INSERT))
        context = write_context(run.table, options, in_table_order=True)
        changes = write_changes(placed, context, run.table.io.properties, run.operation_id)
    run.metrics.update({"added-records": changes.rows_written, "added-data-files": len(changes.files)})
    return commit_staged(run, _operation(run, changes.files, options.isolation), changes.files)


def _operation(run: JobRun, files: list[DataFile], isolation: str | None) -> Operation:
    start = run.head.snapshot_id if run.head else None
    if run.job.where is None:
        return ReplacePartitions(
            added=tuple(files),
            isolation=isolation,
            branch=run.job.branch,
            run_key=run.job.run_key,
            summary=run.summary,
            starting_snapshot_id=start,
        )
    return OverwriteFiles(
        added=tuple(files),
        overwrite_filter=pruning_filter(run.job.where),
        isolation=isolation,
        branch=run.job.branch,
        run_key=run.job.run_key,
        summary=run.summary,
        starting_snapshot_id=start,
    )
