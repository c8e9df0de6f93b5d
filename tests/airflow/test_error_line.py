"""The log of a failed task ends with its error, without frames."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import pytest
import structlog
from airflow.sdk.log import configure_logging, reset_logging

from iceberg_airflow.error_line import leave_frames_out
from iceberg_airflow.operators import IcebergOpsOperator
from iceberg_ops.errors import OptionError
from tests.airflow.fakes import a_context

pytestmark = pytest.mark.airflow


@pytest.fixture
def log() -> Iterator[io.BytesIO]:
    """What the process of a task writes."""
    out = io.BytesIO()
    before = structlog.get_config()
    reset_logging()
    configure_logging(json_output=True, output=out, cache_logger_on_first_use=False)
    yield out
    reset_logging()
    structlog.configure(**before)


def logged(log: io.BytesIO, work: Any) -> dict[str, Any]:
    """The last line, after Airflow's runner has met what ``work`` raises."""
    try:
        work()
    except (OptionError, ZeroDivisionError):
        structlog.get_logger(logger_name="task").exception("Task failed with exception")
    found: dict[str, Any] = json.loads(log.getvalue().splitlines()[-1])
    return found


def failing(error: Exception) -> Any:
    def work() -> None:
        leave_frames_out()
        raise error

    return work


def test_an_error_of_ours_is_logged_without_frames(log: io.BytesIO) -> None:
    (said,) = logged(log, failing(OptionError("lane 'x' must be auto, local or spark")))["exception"]
    assert (said["exc_type"], said["exc_value"], said["frames"]) == ("OptionError", "lane 'x' must be auto, local or spark", [])


def test_another_exception_keeps_its_frames(log: io.BytesIO) -> None:
    (said,) = logged(log, failing(ZeroDivisionError("x")))["exception"]
    assert [frame["name"] for frame in said["frames"]] == ["logged", "work"]


def test_an_operator_without_its_connection_ends_with_that_sentence(log: io.BytesIO) -> None:
    operator = IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="a.b", catalog_conn_id="lake_of_nobody")
    context = a_context()

    def work() -> None:
        operator.pre_execute(context)
        operator.execute(context)

    (said,) = logged(log, work)["exception"]
    assert said["exc_value"].startswith("catalog connection 'lake_of_nobody' is not defined: it needs a conn_type of iceberg_sql, ")
    assert said["frames"] == []


def test_it_is_said_once(log: io.BytesIO) -> None:
    for _ in range(3):
        leave_frames_out()
    assert sum(p.__name__ == "without_frames" for p in structlog.get_config()["processors"] if hasattr(p, "__name__")) == 1
