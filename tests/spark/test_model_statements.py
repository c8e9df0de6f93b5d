"""Statements of the generated model (``tests.generated.model``) as jobs on Spark, beside maintenance on lane local."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace
from pyspark.sql import SparkSession

from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ActionReport
from spark_jobs.jobs.dispatch import run
from tests.generated.drawing import Draw, for_each_seed
from tests.generated.model_acts import Acts
from tests.generated.test_model import check

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KIND = "model on spark"


def test_a_table_shows_the_rows_of_its_model_after_every_job(session: SparkSession, tmp_path: Path) -> None:
    ran = Counter[str]()

    def on_spark(job: JobSpec) -> ActionReport:
        ran[job.job] += 1
        return run(session, replace(job, lane="spark"))

    def check_one(draw: Draw) -> None:
        check(draw, Acts(draw, tmp_path / str(draw.seed), on_spark, for_spark=True))

    for_each_seed(KIND, 3, check_one)
    assert ran.total() > 3
