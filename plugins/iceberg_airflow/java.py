"""The Java that Spark would start, in words for a task's log.

Imports nothing of Airflow, so that a script can ask before anything is started. What is looked for stands in
``iceberg_ops.cli.spark_launcher``.
"""

from __future__ import annotations

from iceberg_ops.cli import spark_launcher


def find_java() -> str:
    """Version and place of the Java that Spark finds. Raises RuntimeMissingError for none, and for one below 17."""
    version, place = spark_launcher.find_java()
    return f"Java {version} at {place}"
