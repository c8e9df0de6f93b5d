"""``--lane spark``: start spark-submit on a job spec and wait.

Driver and executors run the interpreter of this command: another Python would not have the packages. Java is checked
first: without Java, or with a Java that is too old, spark-submit fails with a page of text.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from iceberg_ops.cli.spark_process import CommandPipe, ProcessEnd, run_to_end
from iceberg_ops.config.lanes import named_master
from iceberg_ops.config.variables import variable
from iceberg_ops.errors import RuntimeMissingError

OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)([^"]*)"')


def spark_submit(job_spec: bytes, *, environment: Mapping[str, str] = os.environ) -> ProcessEnd:
    """Run the job on Spark (client mode; master from ICEBERG_OPS_SPARK_MASTER, default local[*]); returns how it ended.

    Raises RuntimeMissingError for a missing or old Java, and for a missing pyspark.
    """
    find_java(environment)
    command = [_submit_script(), "--master", spark_master(environment) or "local[*]"]
    if memory := variable("ICEBERG_OPS_DRIVER_MEMORY", environment).strip():
        command += ["--driver-memory", memory]
    application = _application()
    # Spark's start-up messages are hidden; only the job's own output matters.
    quiet = application.with_name("log4j2.properties")
    if quiet.exists():
        command += ["--conf", f"spark.driver.extraJavaOptions=-Dlog4j2.configurationFile={quiet.as_uri()}"]
    with tempfile.TemporaryDirectory(prefix="iceberg-ops-") as folder:
        path = Path(folder) / "job-spec.json"
        # It may hold a catalog's password.
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(job_spec)
        pipe = CommandPipe(Path(folder))
        python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
        # Standard output is for the report: the job's log goes to standard error.
        command += [str(application), "--command-pipe", str(pipe.path), "--job-spec", str(path)]
        try:
            return run_to_end(command, {**environment, **python}, pipe)
        finally:
            pipe.close()


def spark_master(environment: Mapping[str, str] = os.environ) -> str | None:
    """The configured Spark master. A variable without a value configures none."""
    return named_master(variable("ICEBERG_OPS_SPARK_MASTER", environment))


def find_java(environment: Mapping[str, str] = os.environ) -> tuple[int, str]:
    """Major version and location of the Java that Spark would start (JAVA_HOME, else the path).

    Raises RuntimeMissingError that names what was found.
    """
    home = environment.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    if java is None or not Path(java).exists():
        where = f"JAVA_HOME = {home}" if home else "PATH"
        raise RuntimeMissingError(f"Spark needs Java {OLDEST_JAVA} or newer; there is no java in {where}")
    try:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, check=False, errors="replace")
    except OSError as e:
        raise RuntimeMissingError(f"Spark needs Java {OLDEST_JAVA} or newer; {java} cannot be run: {e.strerror}") from None
    version = _VERSION.search(run.stderr + run.stdout)
    if version is None:
        raise RuntimeMissingError(f"Spark needs Java {OLDEST_JAVA} or newer; {java} -version does not print its version")
    if int(version[1]) < OLDEST_JAVA:
        raise RuntimeMissingError(f"Spark needs Java {OLDEST_JAVA} or newer; {java} is version {version[1]}{version[2]}")
    return int(version[1]), java


def _submit_script() -> str:
    home = os.environ.get("SPARK_HOME")
    if home and (Path(home) / "bin" / "spark-submit").exists():
        return str(Path(home) / "bin" / "spark-submit")
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeMissingError("lane spark needs pyspark: install iceberg-ops[spark], or set SPARK_HOME")
    return str(Path(spec.submodule_search_locations[0]) / "bin" / "spark-submit")


def _application() -> Path:
    spec = importlib.util.find_spec("spark_jobs")
    if spec is not None and spec.submodule_search_locations:
        path = Path(spec.submodule_search_locations[0]) / "main.py"
    else:
        path = Path(__file__).resolve().parents[2] / "spark_jobs" / "main.py"
    if not path.exists():
        raise RuntimeMissingError("lane spark needs the spark_jobs package, which is not installed beside iceberg_ops")
    return path
