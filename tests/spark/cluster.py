"""A standalone Spark cluster of two workers for tests: executors have only the shared storage and the archive of the packages."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark

from demo.spark_cluster import PACKAGES, modules_of, write_archive

SPARK = Path(pyspark.__file__).parent
SHIPPED = "ICEBERG_OPS_TEST_PYTHON"
"""Set in the environment of an interpreter that came with the application."""
MASTER_URL = re.compile(r"spark://127\.0\.0\.1:\d+")
START_SECONDS = 120
SPECULATION = (
    "spark.speculation=true", "spark.speculation.quantile=0.5", "spark.speculation.multiplier=1.1",
    "spark.speculation.minTaskRuntime=1ms", "spark.speculation.task.duration.threshold=1s",
)  # fmt: skip
"""Settings by which a task has a twin as soon as it takes longer than a second."""


TORTURE = ("spark.sql.adaptive.coalescePartitions.enabled=false", "spark.deploy.maxExecutorRetries=-1")
"""As many tasks as partitions, so that some still read what others have read when an executor is lost."""


class Cluster:
    """A master and two workers, each a process with its own folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self._start("master", "Master", "--port", "0")
        self.url = self._wait("master", MASTER_URL)
        # Each on a host of its own: Spark starts no twin of a task on the host that the task runs on.
        for name, host in (("worker-1", "127.0.0.1"), ("worker-2", "127.0.0.2")):
            own = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), self.url)
            self._start(name, "Worker", *own, host=host)
            self._wait(name, re.compile("Successfully registered with master"))

    def _start(self, name: str, kind: str, *arguments: str, host: str = "127.0.0.1") -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTHON"))}
        environment |= {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": host}
        command = [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{kind.lower()}.{kind}"]
        (self.folder / name).mkdir()
        with (self.folder / f"{name}.log").open("wb") as log:
            own = ["--host", host, "--webui-port", "0"]
            self._processes.append(
                subprocess.Popen([*command, *own, *arguments], stdout=log, stderr=log, env=environment, cwd=self.folder / name)
            )

    def _wait(self, name: str, said: re.Pattern[str]) -> str:
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if found := said.search((self.folder / f"{name}.log").read_text()):
                return found[0]
            time.sleep(0.2)
        raise AssertionError(f"{name} did not start: {(self.folder / f'{name}.log').read_text()[-2000:]}")

    def close(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            process.wait(30)

    def run(self, folder: Path, case: str, *settings: str, driver_name: str = "cluster_driver.py", timeout: int = 500) -> Any:
        """What the driver, a script beside this file, answers for a case (or for several)."""
        driver = folder / driver_name
        shutil.copy(Path(__file__).with_name(driver_name), driver)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTHON"))}
        environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        chosen = ["spark.executor.memory=640m", "spark.driver.memory=640m", "spark.sql.shuffle.partitions=4", *settings]
        confs = [part for setting in chosen for part in ("--conf", setting)]
        command = [
            str(SPARK / "bin" / "spark-submit"), "--master", self.url, "--deploy-mode", "client",
            "--py-files", str(archive(folder)), *confs, str(driver), str(folder), case,
        ]  # fmt: skip
        ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=timeout, check=False)
        said = "\n".join(line for line in (ran.stdout + ran.stderr).splitlines() if " INFO " not in line)
        assert ran.returncode == 0, said[-6000:]
        return json.loads((folder / "answer.json").read_text())


def shipped_python(folder: Path) -> tuple[str, ...]:
    """Settings by which executors use an interpreter that comes with the application, and not the driver's path of it."""
    script = folder / "python"
    script.write_text(f'#!/bin/sh\n{SHIPPED}=shipped exec "{sys.executable}" "$@"\n')
    script.chmod(0o755)
    with tarfile.open(folder / "environment.tar.gz", "w:gz") as made:
        made.add(script, "bin/python")
    return (
        f"spark.archives={folder / 'environment.tar.gz'}#environment",
        "spark.pyspark.python=./environment/bin/python",
        f"spark.pyspark.driver.python={sys.executable}",
    )


def archive(folder: Path) -> Path:
    """The packages, and what drivers share among themselves, as ``--py-files`` takes them."""
    path = folder / "packages.zip"
    write_archive(path, _modules())
    return path


def _modules() -> Iterator[tuple[Path, str]]:
    """Files of the archive, and their names in it."""
    yield from modules_of(PACKAGES)
    for file in sorted(Path(__file__).parent.glob("cluster_*.py")):
        yield file, file.name
