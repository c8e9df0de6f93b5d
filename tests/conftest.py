"""Settings of the whole suite.

Property tests draw the same examples in every run, so that a red suite is red again when it is repeated. To look for new ones:
``HYPOTHESIS_PROFILE=explore`` (fresh examples, five times as many where a test does not set its own number).
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.generated.drawing import DRAWN, report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

settings.register_profile("same", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", max_examples=500, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_configure() -> None:
    """Programs that tests start and then interrupt inherit what this process ignores, and what nohup or ``&`` starts ignores
    some."""
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
        (signal.SIGQUIT, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker of pytest-xdist hands what it drew to the process that started it."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["drawn"] = {kind: dict(found) for kind, found in DRAWN.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    for kind, found in getattr(node, "workeroutput", {}).get("drawn", {}).items():
        DRAWN.setdefault(kind, Counter()).update(found)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What generated cases held (``tests.generated``)."""
    if DRAWN:
        terminalreporter.section("drawn")
        for line in report(DRAWN):
            terminalreporter.line(line)


@pytest.fixture(scope="session")
def session() -> Iterator[SparkSession]:
    """The one Spark of this process: a second ``stop`` would end it under the tests of another folder."""
    from spark_jobs.session import spark_session

    os.environ.setdefault("ICEBERG_OPS_SPARK_LOG_LEVEL", "ERROR")
    made = spark_session(
        "tests",
        {
            "spark.sql.shuffle.partitions": "4",
            "spark.driver.memory": "2g",
            "spark.driver.bindAddress": "127.0.0.1",
            # Thousands of statements run in this one session: the plans of the last ones are enough.
            "spark.sql.ui.retainedExecutions": "20",
        },
    )
    yield made
    made.stop()


MARKS_OF_LONG_TESTS = ("slow", "java", "spark", "airflow")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that start Spark, Java or Airflow come first, in the order of ``MARKS_OF_LONG_TESTS``: two processes share the files
    out, and a long one that comes last keeps one of them waiting."""
    place: dict[str, int] = {}
    for item in items:
        file = item.nodeid.partition("::")[0]
        marked = (n for n, mark in enumerate(MARKS_OF_LONG_TESTS) if item.get_closest_marker(mark))
        place[file] = min(place.get(file, len(MARKS_OF_LONG_TESTS)), *marked, len(MARKS_OF_LONG_TESTS))
    items.sort(key=lambda item: place[item.nodeid.partition("::")[0]])
