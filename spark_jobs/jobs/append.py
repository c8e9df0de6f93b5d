"""INSERT INTO table: the ingest job."""

from __future__ import annotations

from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.config.report import ActionReport
from iceberg_ops.config.row_options import WriteOptions
from spark_jobs.jobs.ingest import commit_source, remember, write_source
from spark_jobs.jobs.job_run import JobRun


def run(run: JobRun) -> ActionReport:
    """Append the source's rows, sorted within files by the table's sort order; a run key makes a repeat a no-op.

    A source without rows commits nothing.
    """
    ingested = write_source(run, WriteOptions.parse("append", run.job.options, run.table.properties))
    if not ingested.files:
        return remember(run, ingested)
    operation = AppendFiles(added=tuple(ingested.files), branch=run.job.branch, run_key=run.job.run_key, summary=run.summary)
    return commit_source(run, operation, ingested)
