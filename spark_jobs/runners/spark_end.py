"""Detects that Spark has ended: after a killed JVM, or a stopped context, calls fail in many different ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from iceberg_ops.errors import IcebergOpsError, RetryableError


def has_ended(session: SparkSession) -> bool:
    """Whether the session's JVM no longer answers, or its context is stopped: errors after that say nothing
    about the job."""
    try:
        return bool(session.sparkContext._jsc.sc().isStopped())
    except Exception:  # noqa: BLE001 - Py4J has no one error for a JVM that is gone: refused or empty answers, attributes of None
        return True


def ended_error(name: str) -> RetryableError:
    """The error of a job, ``name``, whose Spark has ended."""
    return RetryableError(
        f"{name}: Spark ended before the job did: its JVM was killed or its context stopped. If that happens again, look in the "
        "system's log for a process that ran out of memory (spark.driver.memory)"
    )


@contextmanager
def spark_needed(session: SparkSession, name: str) -> Iterator[None]:
    """Within this context, an exception outside the tree after Spark has ended becomes a RetryableError about that."""
    try:
        yield
    except IcebergOpsError:
        raise
    except Exception as e:
        if has_ended(session):
            raise ended_error(name) from e
        raise
