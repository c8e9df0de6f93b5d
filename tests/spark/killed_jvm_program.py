"""A program that runs one job on Spark, and kills its JVM when a function is called for the first time, as a system without memory
does: ``python -m tests.spark.killed_jvm_program JOB_SPEC MODULE NAME``.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from typing import Any

from pyspark import SparkContext

from spark_jobs.main import main


def kill_at(module: str, name: str) -> None:
    """From now on a call of the function kills the JVM first."""
    place = importlib.import_module(module)
    real = getattr(place, name)

    def killing(*given: Any, **named: Any) -> Any:
        gateway: Any = SparkContext._gateway
        os.kill(gateway.proc.pid, signal.SIGKILL)
        gateway.proc.wait()
        return real(*given, **named)

    setattr(place, name, killing)


if __name__ == "__main__":
    kill_at(*sys.argv[2:])
    sys.exit(main(["--job-spec", sys.argv[1]]))
