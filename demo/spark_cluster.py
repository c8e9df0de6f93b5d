"""A standalone Spark cluster from pip's pyspark: a master and two workers, all on loopback, and the settings of its applications.

Its processes have a small environment of their own: no secret, and no ``PYTHONPATH``. What executors import of this project comes
with each application, in an archive (``spark.submit.pyFiles``); the libraries are those of their Python.
"""

from __future__ import annotations

import json
import os
import py_compile
import urllib.request
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from py_compile import PycInvalidationMode

from demo.places import PROJECT, Places
from demo.processes import DemoError, Program

PACKAGES = ("iceberg_ops", "spark_jobs")
WORKERS = ("spark-worker-1", "spark-worker-2")
WORKER_CORES, WORKER_MEMORY = 2, "1300m"
EXECUTOR_MEMORY, EXECUTOR_CORES, CORES_OF_AN_APPLICATION = "640m", 1, 2
"""An application gets one executor of each worker, and two applications run at once."""
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For JVMs that live for seconds: the optimising compiler takes more than it gives, two fifths of the CPU time."""
_DAEMON_MEMORY = "256m"
_INHERITED = ("HOME", "JAVA_HOME", "LANG", "PATH", "TMPDIR")
_ANSWER_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class SparkCluster:
    """The cluster of the demo under ``places``."""

    places: Places

    @property
    def port(self) -> int:
        return self.places.port("spark-master")

    @property
    def page(self) -> str:
        """The address of the master's page."""
        return f"http://127.0.0.1:{self.places.port('spark-master-page')}"

    @property
    def events(self) -> Path:
        """The folder of the applications' event logs."""
        return self.places.root / "spark-events"

    @property
    def configuration(self) -> Path:
        """Spark's folder of settings, which spark-submit finds by ``SPARK_CONF_DIR``."""
        return self.places.root / "spark-conf"

    def prepare(self) -> None:
        """Write the archive of the packages and the settings of all applications."""
        for folder in (self.events, self.configuration, *(self._folder(name) for name in ("spark-master", *WORKERS))):
            folder.mkdir(parents=True, exist_ok=True)
        write_archive(self._archive, modules_of(PACKAGES))
        lines = [f"{name} {value}\n" for name, value in self.settings().items()]
        (self.configuration / "spark-defaults.conf").write_text("".join(lines))

    def settings(self) -> dict[str, str]:
        """Of every application: no secret is among them."""
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.cores": str(EXECUTOR_CORES),
            "spark.cores.max": str(CORES_OF_AN_APPLICATION),
            "spark.driver.defaultJavaOptions": SHORT_LIVED,
            "spark.executor.defaultJavaOptions": SHORT_LIVED,
            "spark.ui.enabled": "false",
            "spark.submit.pyFiles": self._archive.as_uri(),
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": self.events.as_uri(),
            "spark.eventLog.compress": "false",
            # Event logs show whole plans; without this, a line in each task's log says that they do not.
            "spark.sql.debug.maxToStringFields": "1000",
        }

    def master(self) -> Program:
        """Without the interface for submissions by REST, which would listen as well."""
        own = ["--port", str(self.port), "--webui-port", self.page.rpartition(":")[2]]
        return self._daemon("spark-master", "Master", own, SPARK_MASTER_OPTS="-Dspark.master.rest.enabled=false")

    def worker(self, name: str) -> Program:
        own = ["--webui-port", "0", "--cores", str(WORKER_CORES), "--memory", WORKER_MEMORY]
        return self._daemon(name, "Worker", [*own, "--work-dir", str(self._folder(name)), f"spark://127.0.0.1:{self.port}"])

    def has_workers(self, count: int) -> bool:
        """Whether that many workers have registered with the master."""
        try:
            with urllib.request.urlopen(f"{self.page}/json/", timeout=_ANSWER_SECONDS) as answer:
                return bool(json.load(answer)["aliveworkers"] >= count)
        except OSError:
            return False

    @property
    def _archive(self) -> Path:
        return self.places.root / "packages.zip"

    def _folder(self, name: str) -> Path:
        return self.places.root / "spark-work" / name

    def _daemon(self, name: str, kind: str, own: list[str], **environment: str) -> Program:
        command = [
            str(spark_home() / "bin" / "spark-class"),
            f"org.apache.spark.deploy.{kind.lower()}.{kind}",
            "--host",
            "127.0.0.1",
        ]
        inherited = {k: v for k, v in os.environ.items() if k in _INHERITED}
        settings = {"SPARK_DAEMON_MEMORY": _DAEMON_MEMORY, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_NO_DAEMONIZE": "1"}
        return Program(name, [*command, *own], inherited | settings | environment, self._folder(name))


def spark_home() -> Path:
    """The folder of pip's pyspark. Raises DemoError if it is missing."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise DemoError("pyspark is not installed", next_step="run make setup")
    return Path(found.origin).parent


def modules_of(packages: Iterable[str]) -> Iterator[tuple[Path, str]]:
    """Every module of packages of this project, and its name in an archive."""
    for package in packages:
        for file in sorted((PROJECT / package).rglob("*.py")):
            yield file, str(file.relative_to(PROJECT))


def write_archive(path: Path, modules: Iterable[tuple[Path, str]]) -> None:
    """Modules as ``--py-files`` takes them.

    With their bytecode beside them, in the way that Python looks for in an archive: or each Python process of each executor would
    compile all that it imports.
    """
    compiled = path.with_suffix(".pyc")
    with zipfile.ZipFile(path, "w") as made:
        for file, name in modules:
            py_compile.compile(str(file), str(compiled), name, doraise=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
            made.write(file, name)
            made.write(compiled, f"{name}c")
    compiled.unlink(missing_ok=True)
