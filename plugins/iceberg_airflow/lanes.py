"""Starts an engine on a job spec: ``spark-submit`` on the Spark connection's master, or ``iceberg-ops`` on this machine.

A lane streams the engine's output to the task's log and returns the exit code and last line; it never reads the report and
never raises for a failed job. Both run the interpreter that runs Airflow, so that driver, executors and host use the same Python.
The job spec, which may hold secrets, exists only while the engine runs.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from iceberg_airflow.java import find_java
from iceberg_airflow.masking import mask
from iceberg_airflow.outcome import ProcessEnd
from iceberg_airflow.processes import Processes, project_folder, python_environment
from iceberg_ops.config.lanes import named_master
from iceberg_ops.config.secrets import holds_secret, secrets_in_properties
from iceberg_ops.config.variables import variable
from iceberg_ops.errors import OptionError, RuntimeMissingError


class Lane(Protocol):
    """An engine that can be started on a job spec."""

    def run(self, spec: Path, document: bytes) -> ProcessEnd:
        """Run the job ``document``, which is at ``spec`` while it runs."""
        ...


@dataclass(slots=True)
class SparkLane:
    """``spark-submit spark_jobs/main.py --job-spec FILE`` in client mode, on the master that the connection names."""

    log: Any
    processes: Processes
    name: str
    conn_id: str = "spark_default"
    conf: Mapping[str, Any] = field(default_factory=dict)
    driver_memory: str | None = None

    def __post_init__(self) -> None:
        """Raises OptionError for a setting that cannot be written for Spark, and for settings that are not a mapping."""
        if not isinstance(self.conf, Mapping):
            raise OptionError(f"spark_conf must be a mapping of names to values; it is of type {type(self.conf).__name__}")
        self.conf = {name: _setting(name, value) for name, value in self.conf.items()}

    def run(self, spec: Path, document: bytes) -> ProcessEnd:
        """Raises RuntimeMissingError for a missing or old Java, and for Kubernetes without its provider; OptionError for a
        connection that is missing or names no master, and for cluster mode."""
        self.log.info("%s", find_java())
        files = {spec: document}
        secret = {name: value for name, value in self.conf.items() if holds_secret(name, value)}
        if secret:
            mask(secrets_in_properties(secret))
            files[_settings_beside(spec)] = _properties(secret)
        command = self.command(spec)
        return self.processes.run(command, environment=python_environment(), files=files, heard=_to_log(self.log))

    def command(self, spec: Path) -> list[str]:
        """The spark-submit call that Airflow's hook makes from the connection. Settings that hold secrets are in a file beside the
        job spec, because every user of the machine can see a command line. Raises OptionError for a connection that is missing or
        names no master, and for cluster mode, RuntimeMissingError for Kubernetes without its provider."""
        from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook  # noqa: PLC0415 - DAG files are parsed without Spark's provider

        require_master(self.conn_id)
        plain = {name: value for name, value in self.conf.items() if not holds_secret(name, value)}
        quiet = {name: value for name, value in quiet_driver().items() if name not in self.conf}  # it would override the file
        hook = SparkSubmitHook(
            conn_id=self.conn_id,
            name=self.name,
            conf={**quiet, **plain},
            properties_file=str(_settings_beside(spec)) if len(plain) < len(self.conf) else None,
            driver_memory=self.driver_memory or variable("ICEBERG_OPS_DRIVER_MEMORY") or None,
            application_args=["--job-spec", str(spec)],
            env_vars=python_environment(),
        )
        command = list(hook._build_spark_submit_command(str(application())))
        if "--properties-file" in command:
            command.insert(command.index("--properties-file"), "--load-spark-defaults")
        if _is_cluster_mode(command):
            raise OptionError(
                f"Spark connection {self.conn_id!r} asks for deploy mode cluster: the driver must run on the worker (client mode), "
                "where the job spec lies and where a stopped task can end it"
            )
        return command


@dataclass(slots=True)
class LocalLane:
    """``iceberg-ops run --job-spec FILE``: no JVM, for tables that one machine can process."""

    log: Any
    processes: Processes
    program: tuple[str, ...] = (sys.executable, "-m", "iceberg_ops.cli.main", "run")

    def run(self, spec: Path, document: bytes) -> ProcessEnd:
        command = [*self.program, "--job-spec", str(spec)]
        return self.processes.run(command, environment=python_environment(), files={spec: document}, heard=_to_log(self.log))


def quiet_driver() -> dict[str, str]:
    """Spark settings that keep Spark's start-up messages out of the task log, if the driver runs here (client mode)."""
    path = application().with_name("log4j2.properties")
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={path.as_uri()}"}


def application() -> Path:
    """The spark-submit entry: ``ICEBERG_OPS_SPARK_APPLICATION``, or the one beside this plugin. Raises RuntimeMissingError, and
    OptionError for a misspelt variable."""
    path = Path(variable("ICEBERG_OPS_SPARK_APPLICATION") or project_folder() / "spark_jobs" / "main.py")
    if not path.is_file():
        raise RuntimeMissingError(f"Spark application {path} is not there: set ICEBERG_OPS_SPARK_APPLICATION to spark_jobs/main.py")
    return path


def require_master(conn_id: str) -> None:
    """Raise OptionError unless the connection names a master: Airflow's hook would otherwise use YARN or ``spark://`` by
    default. Raise RuntimeMissingError for a master on Kubernetes without Airflow's provider for it: the hook would fail by a
    NameError."""
    try:
        host = BaseHook.get_connection(conn_id).host
    except AirflowNotFoundException:
        raise OptionError(f"Spark connection {conn_id!r} is not defined: it needs conn_type spark and a master as host") from None
    master = named_master(host)
    if master is None:
        raise OptionError(f"Spark connection {conn_id!r} has no host: it must name a master, such as local[2] or spark://host")
    if "k8s" in master and not has_kubernetes():
        package = "apache-airflow-providers-cncf-kubernetes"
        raise RuntimeMissingError(f"Spark connection {conn_id!r} names {master}: Airflow needs {package} for it; install it")


def has_kubernetes() -> bool:
    """Whether Airflow's provider for Kubernetes is installed."""
    try:
        return find_spec("airflow.providers.cncf.kubernetes.kube_client") is not None
    except ModuleNotFoundError:
        return False


def spark_master(conn_id: str) -> str | None:
    """The connection's master; None if it names none, or is not defined."""
    try:
        return named_master(BaseHook.get_connection(conn_id).host)
    except AirflowNotFoundException:
        return None


def _setting(name: str, value: Any) -> str:
    """A setting in Spark's notation: YAML and Python write numbers and booleans without quotes."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise OptionError(f"spark_conf {name}: must be a text, a number or a truth value; it is of type {type(value).__name__}")


def _settings_beside(spec: Path) -> Path:
    return spec.with_name(f"{spec.name}.spark.properties")


def _properties(settings: Mapping[str, str]) -> bytes:
    """A Java properties file. A backslash is an escape in it, and only ASCII is safe."""
    lines = [f"{_escaped(name)}={_escaped(value)}\n" for name, value in settings.items()]
    return "".join(lines).encode("ascii")


def _escaped(text: str) -> str:
    """Every character that a properties file could interpret, as its code."""
    utf16 = text.encode("utf-16-be")
    units = [int.from_bytes(utf16[i : i + 2], "big") for i in range(0, len(utf16), 2)]
    return "".join(chr(unit) if chr(unit).isascii() and chr(unit).isalnum() else f"\\u{unit:04x}" for unit in units)


def _is_cluster_mode(command: list[str]) -> bool:
    pairs = list(itertools.pairwise(command))
    return ("--deploy-mode", "cluster") in pairs or ("--conf", "spark.submit.deployMode=cluster") in pairs


def _to_log(log: Any) -> Any:
    return lambda line: log.info("%s", line)
