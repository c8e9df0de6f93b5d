"""INSERT OVERWRITE: rows replace what a filter selects, or (without a filter) the partitions they fall into."""

from __future__ import annotations

from iceberg_ops.commit.operation import Operation
from iceberg_ops.commit.overwrite_files import OverwriteFiles
from iceberg_ops.commit.replace_partitions import ReplacePartitions
from iceberg_ops.config.report import ActionReport
from iceberg_ops.config.row_options import Isolation, WriteOptions
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import Expression
from spark_jobs.jobs.conditions import pruning_filter
from spark_jobs.jobs.ingest import Ingested, commit_source, write_source
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.statement import run_statement


def run(run: JobRun) -> ActionReport:
    """Write the source's rows and replace what was there, in one commit; anew where others changed that meanwhile."""
    return run_statement(run, _evaluate)


def _evaluate(run: JobRun) -> ActionReport:
    options = WriteOptions.parse("overwrite", run.job.options, run.table.properties)
    replaced = _replaced(run)
    ingested = write_source(run, options)
    return commit_source(run, _operation(run, ingested, options.isolation, replaced), ingested)


def _replaced(run: JobRun) -> Expression | None:
    """The WHERE of the job, read before anything is written; None: the partitions that the rows fall into. Raises WhereError."""
    if run.job.where is None:
        return None
    found = pruning_filter(run.job.where, run.table.schema)
    bind(run.table.schema, found, case_sensitive=False)
    return found


def _operation(run: JobRun, ingested: Ingested, isolation: Isolation | None, replaced: Expression | None) -> Operation:
    files = ingested.files
    start = run.base.snapshot_id if run.base else None
    if replaced is None:
        return ReplacePartitions(
            added=tuple(files),
            isolation=isolation,
            reads_table=ingested.reads_target,
            branch=run.job.branch,
            run_key=run.job.run_key,
            summary=run.summary,
            starting_snapshot_id=start,
        )
    return OverwriteFiles(
        added=tuple(files),
        overwrite_filter=replaced,
        isolation=isolation,
        reads_table=ingested.reads_target,
        branch=run.job.branch,
        run_key=run.job.run_key,
        summary=run.summary,
        starting_snapshot_id=start,
    )
