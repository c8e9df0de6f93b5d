"""A job in a program's Spark session: ``iceberg_ops.actions.dispatch.run_job`` with Spark as its engine."""

from __future__ import annotations

from pyspark.sql import SparkSession

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ActionReport
from spark_jobs.jobs.interrupts import interruptible
from spark_jobs.jobs.spark_engine import SparkEngine
from spark_jobs.runners.rewrite import SparkRewriteRunner


def run(session: SparkSession, job: JobSpec) -> ActionReport:
    """Run the job and write its report as requested; raises the errors of ``run_job``. Executors also do the work of maintenance
    actions."""
    with interruptible():
        return run_job(job, runner=SparkRewriteRunner(session), engine=SparkEngine(session))
