"""The Java that Spark would start, as text for a task's log.

Imports nothing of Airflow, so that a script can check before anything is started. ``iceberg_ops.cli.spark_launcher`` does the
search.
"""

from __future__ import annotations

from iceberg_ops.cli import spark_launcher


def find_java() -> str:
    """Version and location of the Java that Spark finds. Raises RuntimeMissingError for none, and for one below 17."""
    version, place = spark_launcher.find_java()
    return f"Java {version} at {place}"
