"""Python tasks of a session use the same allocator as our own processes."""

from __future__ import annotations

import os

import pytest
from pyspark.sql import SparkSession

from iceberg_ops.data.arrow.arrow_allocator import ALLOCATOR, wanted_allocator

pytestmark = pytest.mark.spark


def test_tasks_use_the_allocator_that_was_chosen(session: SparkSession) -> None:
    def backend(_: int) -> str:
        import pyarrow as pa

        return str(pa.default_memory_pool().backend_name)

    expected = os.environ.get(ALLOCATOR, wanted_allocator())
    assert expected is not None
    assert session.sparkContext.parallelize([0], 1).map(backend).collect() == [expected]
