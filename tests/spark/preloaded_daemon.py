"""PySpark's daemon, which forks the processes of Python tasks, with all modules of our tasks preloaded: a task's process starts in
milliseconds. Spark starts it as ``python -m tests.spark.preloaded_daemon pyspark.worker``."""

from __future__ import annotations

import importlib
import pkgutil

from pyspark import daemon

import spark_jobs

ARROW = ("pyarrow.compute", "pyarrow.dataset", "pyarrow.parquet", "pandas")
"""What is imported at the first array or file."""

if __name__ == "__main__":
    for name in ARROW:
        importlib.import_module(name)
    for module in pkgutil.walk_packages(spark_jobs.__path__, f"{spark_jobs.__name__}."):
        importlib.import_module(module.name)
    daemon.manager()
