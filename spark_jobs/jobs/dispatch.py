"""From a job spec to the function that does it, and the report it leaves whatever happens."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from msgspec.structs import replace
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from iceberg_ops.actions.context import Outcome
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.ending_error import ending_error, until_reported
from iceberg_ops.actions.report_file import check_report_place, error_report, without_secrets, write_report
from iceberg_ops.config.actions import TABLE_ACTIONS
from iceberg_ops.config.job_spec import JobSpec, check_fields
from iceberg_ops.config.report import ActionReport
from iceberg_ops.deletion.gate import outcome_unknown
from iceberg_ops.errors import OptionError
from iceberg_ops.io.machine_limits import typed_os_errors
from spark_jobs.jobs import append, delete, maintenance, merge, overwrite, update, upsert
from spark_jobs.jobs.interrupts import came_of_interrupt, interruptible
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.spark_errors import spark_error
from spark_jobs.runners.column_names import refuse_own_columns
from spark_jobs.runners.spark_schema import refuse_nested_uuid
from spark_jobs.session import job_session

log = logging.getLogger(__name__)

_ROW_OPERATIONS: Mapping[str, Callable[[JobRun], ActionReport]] = {
    "append": append.run,
    "overwrite": overwrite.run,
    "delete": delete.run,
    "update": update.run,
    "merge": merge.run,
    "upsert": upsert.run,
}


def run(session: SparkSession, job: JobSpec) -> ActionReport:
    """Run the job and write its report where the job asks.

    Raises the job's typed error after the report of the failure is written; KeyboardInterrupt after a Ctrl-C, as ``run_job`` does.
    """
    with interruptible():
        check_report_place(job)
        if job.job in TABLE_ACTIONS:
            return maintenance.run(session, job)
        started, outcome = datetime.now(UTC), Outcome(one_commit=True)
        with until_reported(outcome):
            return _reported(session, job, started, outcome)


def _reported(session: SparkSession, job: JobSpec, started: datetime, outcome: Outcome) -> ActionReport:
    try:
        report = _row_operation(session, job, outcome)
    except BaseException as e:
        error = ending_error(outcome, _of_expiry(job, outcome, _typed(job, e)))
        write_report(job, _failure(job, error, started, outcome))
        if error is e or not isinstance(e, (Exception, KeyboardInterrupt)):
            raise
        raise error from e
    write_report(job, report)
    return without_secrets(job, report)


def _typed(job: JobSpec, error: BaseException) -> BaseException:
    """An interrupt for what was raised on its way. What Spark finds in the rows themselves (a value that does not fit, a corrupt
    source file) is an error of the tree."""
    if outcome_unknown(error) is not None or isinstance(error, KeyboardInterrupt):
        return error
    if came_of_interrupt(error):
        return KeyboardInterrupt()
    return spark_error(job, error) if isinstance(error, PySparkException | Py4JJavaError) else error


def _of_expiry(job: JobSpec, outcome: Outcome, error: BaseException) -> BaseException:
    """``error``, or that another job expired what this one was reading."""
    if outcome.changed or outcome_unknown(error) is not None:
        return error
    return outcome.reads.lost_to_an_expiry(job.job, error) or error


def _with_source_catalog(job: JobSpec) -> JobSpec:
    """A source table is looked for in the job's own catalog where it names that, and none of its own."""
    source = job.source
    if source is None or source.table is None:
        return job
    if source.table.count(".") < 2:
        raise OptionError(f"source table {source.table!r} must be catalog.namespace.name")
    name = source.table.partition(".")[0]
    if source.catalog is None and name != job.catalog.name:
        raise OptionError(f"source table {source.table!r} is in catalog {name!r}, which the source does not configure")
    return replace(job, source=replace(source, catalog=source.catalog or job.catalog))


def _failure(job: JobSpec, error: BaseException, started: datetime, outcome: Outcome) -> ActionReport:
    return ActionReport(
        action=job.job,
        table=job.table,
        status="failed",
        started_at=started.isoformat(timespec="milliseconds"),
        duration_ms=round((datetime.now(UTC) - started).total_seconds() * 1000),
        run_key=job.run_key,
        plan_id=job.plan_id,
        lane="spark",
        branch=job.branch,
        snapshot_ids=outcome.snapshot_ids,
        attempts=outcome.attempts,
        error=error_report(error),
    )


def _row_operation(session: SparkSession, job: JobSpec, outcome: Outcome) -> ActionReport:
    if job.dry_run:  # looks at no row, so nothing of it is Spark's
        return run_job(_with_source_catalog(job))
    check_fields(job)
    report: ActionReport | None = None
    try:
        with job_session(session) as own:
            run = JobRun.start(own, _with_source_catalog(job), outcome)
            refuse_own_columns(run.table.schema)
            refuse_nested_uuid(run.table.schema)
            if (report := run.already_committed()) is None:
                with typed_os_errors(), run.lease():
                    report = _ROW_OPERATIONS[job.job](run)
    except Exception as e:
        if report is None:
            raise
        log.warning("%s %s is done, but its session was not closed: %s", job.job, job.table, e)
    assert report is not None
    return report
