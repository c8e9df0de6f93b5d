"""The Spark session every job runs in, and the machine's fitness for it.

Executors get values (JSON, properties), never live objects, and the same Python as the driver: ``PYSPARK_PYTHON`` is set to the
running interpreter, because Spark would otherwise take whatever ``python3`` is first on the path.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

from iceberg_ops.data.arrow_allocator import ALLOCATOR, wanted_allocator

DEFAULT_MASTER = "local[2]"

_CONFIGURATION = {
    # Instants are UTC everywhere; a session zone would shift what people read in DATE and TIMESTAMP literals.
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # Arrow batches between JVM and Python: large enough to amortise the crossing, small enough for 1 GiB executors.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # A lossy cast must fail the job, not write NULL.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    # Our tables' columns are found by field id, never by name.
    "spark.sql.parquet.fieldId.read.enabled": "true",
    # Arrow leaves NaN out of a file's statistics, Spark holds NaN to be the greatest value: skipping row groups could lose rows.
    "spark.sql.parquet.filterPushdown": "false",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def spark_session(app_name: str, overrides: Mapping[str, str] | None = None) -> SparkSession:
    """The session of this process; made here unless one is running.

    What ``spark-submit`` set (master, memory, UI) wins over the defaults here, except for what rows mean (time zone, ANSI), which
    is always set, and for Arrow's allocator in tasks, on which the driver's environment decides. ``overrides`` win over all.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    builder = SparkSession.builder.appName(app_name)
    if not submitted:
        builder = builder.master(os.environ.get("ICEBERG_OPS_SPARK_MASTER", DEFAULT_MASTER))
    for key, value in _CONFIGURATION.items():
        if key.startswith("spark.sql.") or not submitted:
            builder = builder.config(key, value)
    if (allocator := os.environ.get(ALLOCATOR, wanted_allocator())) is not None:
        builder = builder.config(f"spark.executorEnv.{ALLOCATOR}", allocator)
    for key, value in (overrides or {}).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel(os.environ.get("ICEBERG_OPS_SPARK_LOG_LEVEL", "WARN"))
    return session


def task_slots(session: SparkSession) -> int:
    """How many tasks run at once."""
    return max(1, session.sparkContext.defaultParallelism)
