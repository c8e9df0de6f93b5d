"""Starting an engine on a job spec: ``spark-submit`` through Airflow's Spark hook, or ``iceberg-ops`` in a process of its own.

A lane streams the engine's output to the task's log and gives the exit code and last line back; it never reads the report and never
raises for a job that failed. Both run the interpreter that runs Airflow, so that driver, executors and host agree on Python.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from iceberg_airflow.java import find_java
from iceberg_ops.errors import OptionError, RuntimeMissingError

_TERM_SECONDS = 10
APPLICATION = Path(__file__).resolve().parents[2] / "spark_jobs" / "main.py"


@dataclass(frozen=True, slots=True)
class Ended:
    """How an engine's process ended."""

    exit_code: int
    last_line: str = ""


class Lane(Protocol):
    """An engine that can be started on a job spec, and killed."""

    def run(self, spec: Path) -> Ended: ...

    def kill(self) -> None: ...


@dataclass(slots=True)
class SparkLane:
    """``spark-submit spark_jobs/main.py --job-spec FILE`` in client mode, on the master that the connection names."""

    log: Any
    name: str
    conn_id: str = "spark_default"
    conf: Mapping[str, str] = field(default_factory=dict)
    driver_memory: str | None = None
    _hook: Any = None

    def run(self, spec: Path) -> Ended:
        """Raises RuntimeMissingError for a missing or old Java, OptionError for a missing connection."""
        self.log.info("%s", find_java())
        require_connection(self.conn_id)
        self._hook = self._make_hook(spec)
        try:
            self._hook.submit(str(application()))
        except AirflowException as e:
            # The hook puts the output's tail into its message; it is in the log already, and the report says more.
            self.log.info("spark-submit did not succeed: %s", str(e).splitlines()[0][:300])
            lines = [line for line in str(e).splitlines() if line.strip()]
            return Ended(1, lines[-1].strip() if len(lines) > 1 else "")
        return Ended(0)

    def kill(self) -> None:
        if self._hook is not None:
            self._hook.on_kill()

    def _make_hook(self, spec: Path) -> Any:
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

        return SparkSubmitHook(
            conn_id=self.conn_id,
            name=self.name,
            conf={**quiet_driver(), **self.conf},
            driver_memory=self.driver_memory or os.environ.get("ICEBERG_OPS_DRIVER_MEMORY"),
            application_args=["--job-spec", str(spec)],
            env_vars=python_environment(),
        )


@dataclass(slots=True)
class LocalLane:
    """``iceberg-ops run --job-spec FILE``: no JVM, for tables that one machine handles."""

    log: Any
    command: tuple[str, ...] = (sys.executable, "-m", "iceberg_ops.cli.main", "run")
    _process: subprocess.Popen[str] | None = None

    def run(self, spec: Path) -> Ended:
        self._process = subprocess.Popen(
            [*self.command, "--job-spec", str(spec)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **python_environment()},
            start_new_session=True,
        )
        last: deque[str] = deque(maxlen=1)
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip():
                last.append(line.strip())
                self.log.info("%s", line.rstrip())
        return Ended(self._process.wait(), last[0] if last else "")

    def kill(self) -> None:
        """End the process group: SIGTERM, and SIGKILL after ten seconds."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(timeout=_TERM_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def python_environment() -> dict[str, str]:
    """Variables that make Spark use the running interpreter, and let the application find the packages."""
    root = str(APPLICATION.parents[1])
    known = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != root]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([root, *known]),
    }


def quiet_driver() -> dict[str, str]:
    """Spark settings that keep Spark's start-up messages out of the task log, where the driver runs here (client mode)."""
    path = application().with_name("log4j2.properties")
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={path.as_uri()}"}


def application() -> Path:
    """The spark-submit entry: ``ICEBERG_OPS_SPARK_APPLICATION``, or the one beside this plugin. Raises RuntimeMissingError."""
    path = Path(os.environ.get("ICEBERG_OPS_SPARK_APPLICATION") or APPLICATION)
    if not path.is_file():
        raise RuntimeMissingError(f"Spark application {path} is not there: set ICEBERG_OPS_SPARK_APPLICATION to spark_jobs/main.py")
    return path


def require_connection(conn_id: str) -> None:
    """Raise OptionError unless the connection exists: Airflow's hook would otherwise go to a YARN that nobody named."""
    try:
        BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as e:
        raise OptionError(f"Spark connection {conn_id!r} is not defined: it needs conn_type spark and a master as host") from e


def spark_master(conn_id: str) -> str | None:
    """The master that the connection names; None where it is not defined."""
    try:
        return BaseHook.get_connection(conn_id).host
    except AirflowNotFoundException:
        return None
