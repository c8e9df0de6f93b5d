"""Which interpreter executors use: the one that spark-submit was given, otherwise the driver's."""

from __future__ import annotations

import sys

import pytest

from spark_jobs.session import executors_python

SUBMITTED = {"PYSPARK_GATEWAY_PORT": "1"}


@pytest.mark.parametrize(
    ("environment", "used"),
    [
        ({**SUBMITTED, "PYSPARK_PYTHON": "./environment/bin/python"}, "./environment/bin/python"),
        (SUBMITTED, sys.executable),
        ({**SUBMITTED, "PYSPARK_PYTHON": ""}, sys.executable),
        ({"PYSPARK_PYTHON": "python3"}, sys.executable),  # a program of the user's own, whose driver runs already
    ],
)
def test_executors_use_what_spark_submit_was_told(environment: dict[str, str], used: str) -> None:
    assert executors_python(environment) == used
