"""Maintenance actions with Spark's executors as the hands: plan, verify and commit are ``iceberg_ops.actions``' as in the local
lane."""

from __future__ import annotations

from pyspark.sql import SparkSession

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ActionReport
from spark_jobs.runners.rewrite import SparkRewriteRunner


def run(session: SparkSession, job: JobSpec) -> ActionReport:
    """Run a maintenance job; the report is written by ``run_job``."""
    return run_job(job, runner=SparkRewriteRunner(session))
