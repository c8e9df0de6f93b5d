"""Long Spark work reports its progress while the driver waits."""

from __future__ import annotations

import threading

import pytest
from pyspark.sql import SparkSession

from spark_jobs.runners.tagged_jobs import tagged
from spark_jobs.runners.task_progress import count_tasks, watched_tasks

pytestmark = pytest.mark.spark


def test_tasks_of_a_tag_are_counted(session: SparkSession) -> None:
    with tagged(session) as tag:
        session.sparkContext.parallelize(range(8), 4).map(lambda i: i).collect()
    assert count_tasks(session, tag) == (4, 4)
    assert count_tasks(session, "another") == (0, 0)


def test_who_waits_is_told(session: SparkSession) -> None:
    heard = threading.Event()
    seen: list[tuple[int, int]] = []

    def told(done: int, total: int) -> None:
        seen.append((done, total))
        heard.set()

    with tagged(session) as tag, watched_tasks(session, tag, told, every=0.001):
        session.sparkContext.parallelize(range(4), 2).count()
        heard.clear()
        assert heard.wait(60)
    assert seen[-1] == (2, 2)
