"""Iceberg Java's side of the commit benchmark: ``java/Commits.java``, run as a source file in a separate JVM.

Needs a JDK, PySpark's jars (for Hadoop's classes) and Iceberg's: ``ICEBERG_JAR`` names an iceberg-spark-runtime jar; the default is
that of ``make jars``. Without them there is no peer, and the records say so.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

JARS = Path(__file__).parent.parent / "build" / "ivy" / "jars"
SOURCE = Path(__file__).parent / "java" / "Commits.java"


def class_path() -> str | None:
    """Iceberg's runtime, SQLite's driver and Spark's jars; None if one is missing."""
    named = os.environ.get("ICEBERG_JAR")
    runtime = [Path(named)] if named else sorted(JARS.glob("*iceberg-spark-runtime-*.jar"))
    driver = sorted(JARS.glob("*sqlite-jdbc-*.jar"))
    spark = find_spec("pyspark")
    if not runtime or not driver or spark is None or spark.origin is None or shutil.which("javac") is None:
        return None
    return os.pathsep.join([str(runtime[-1]), str(driver[-1]), str(Path(spark.origin).parent / "jars" / "*")])


def java_figures(
    folder: str, metadata_location: str, *, appends: int, files: int, kinds: Sequence[str], repeats: int
) -> Mapping[str, dict[str, Any]]:
    """By work ("appends", "expiry", "replace <kind>"): seconds ``s``, ``cpu_s`` and ``bytes``. Empty if Java cannot run."""
    jars = class_path()
    if jars is None:
        return {}
    command = ["java", "-Xmx2g", "-cp", jars, str(SOURCE), folder, metadata_location]
    command += [str(appends), str(files), ",".join(kinds), str(repeats)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"Iceberg Java failed: {done.stderr[-2000:]}")
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {figures.pop("work"): figures for figures in found}
