"""The target table's own rows, for a SQL source that reads the view ``target``: as they are at the start of the job."""

from __future__ import annotations

from pyspark.sql import DataFrame

from iceberg_ops.data.read_context import ReadContext
from iceberg_ops.scan.planning import Scan, plan
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN, live_rows


def target_rows(run: JobRun) -> DataFrame | None:
    """Live rows of the job's branch; None where the source is no query, so that nothing is planned for nothing."""
    if run.job.source is None or run.job.source.format != "sql":
        return None
    if "target" not in (run.job.source.query or "").lower():
        return None
    planned = plan(run.table, Scan(ref=run.job.branch))
    columns = [*[f.name for f in run.table.schema.fields], POSITION_COLUMN]
    context = ReadContext.for_table(run.table.metadata, columns=columns)
    return live_rows(run.session, planned.tasks, context, run.table.io.properties).drop(FILE_COLUMN, POSITION_COLUMN)
