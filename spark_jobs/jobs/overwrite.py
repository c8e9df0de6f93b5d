"""INSERT OVERWRITE: rows replace what a filter selects, or (without a filter) the partitions they fall into."""

from __future__ import annotations

from iceberg_ops.actions.write_options import WriteOptions
from iceberg_ops.commit.operation import Operation
from iceberg_ops.commit.overwrite_files import OverwriteFiles
from iceberg_ops.commit.replace_partitions import ReplacePartitions
from iceberg_ops.config.report import ActionReport
from iceberg_ops.spec.content_files import DataFile
from spark_jobs.jobs.conditions import pruning_filter
from spark_jobs.jobs.ingest import commit_source, write_source
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.statement import run_statement


def run(run: JobRun) -> ActionReport:
    """Write the source's rows and replace what was there, in one commit; anew where others changed that meanwhile."""
    return run_statement(run, _evaluate)


def _evaluate(run: JobRun) -> ActionReport:
    options = WriteOptions.parse("overwrite", run.job.options, run.table)
    ingested = write_source(run, options)
    return commit_source(run, _operation(run, ingested.files, options.isolation), ingested)


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
        overwrite_filter=pruning_filter(run.job.where, run.table.schema),
        isolation=isolation,
        branch=run.job.branch,
        run_key=run.job.run_key,
        summary=run.summary,
        starting_snapshot_id=start,
    )
