"""Jobs on a standalone cluster of two workers: executors know the shared storage and the archive of the packages, nothing else.

Tasks that fail after they wrote, and twins that Spark starts of slow ones, leave neither rows twice nor files behind.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
MASTER_URL = re.compile(r"spark://127\.0\.0\.1:\d+")
START_SECONDS = 120


class Cluster:
    """A master and two workers, each a process with a folder of its own."""

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

    def run(self, folder: Path, case: str, *settings: str) -> dict[str, Any]:
        """The answer of ``cluster_driver`` for a case."""
        driver = folder / "cluster_driver.py"
        shutil.copy(Path(__file__).with_name("cluster_driver.py"), driver)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYSPARK_", "SPARK_", "PYTHON"))}
        environment |= {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
        chosen = ["spark.executor.memory=640m", "spark.driver.memory=640m", "spark.sql.shuffle.partitions=4", *settings]
        confs = [part for setting in chosen for part in ("--conf", setting)]
        command = [
            str(SPARK / "bin" / "spark-submit"), "--master", self.url, "--deploy-mode", "client",
            "--py-files", str(archive(folder)), *confs, str(driver), str(folder), case,
        ]  # fmt: skip
        ran = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=500, check=False)
        assert ran.returncode == 0, (ran.stdout + ran.stderr)[-6000:]
        answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
        return answer


def archive(folder: Path) -> Path:
    """The packages as ``--py-files`` takes them."""
    path = folder / "packages.zip"
    with zipfile.ZipFile(path, "w") as made:
        for package in ("iceberg_ops", "spark_jobs"):
            for file in sorted((ROOT / package).rglob("*.py")):
                made.write(file, file.relative_to(ROOT))
    return path


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"))
    yield made
    made.close()


def test_append_merge_and_compaction_run_on_executors_that_have_only_the_archive(cluster: Cluster, tmp_path: Path) -> None:
    answer = cluster.run(tmp_path, "jobs")
    assert answer["statuses"] == ["committed"] * 6
    assert all("packages.zip" in place for place in answer["places"]), answer["places"]
    expected = [[i, "a" if i < 900 else "m"] for i in range(2100)]
    assert answer["rows"] == expected
    assert (answer["leaked"], answer["missing"]) == ([], [])


@pytest.mark.parametrize("case", ["fail", "fail-direct"])
def test_a_task_that_dies_after_it_wrote_leaves_no_row_twice_and_no_file(cluster: Cluster, tmp_path: Path, case: str) -> None:
    answer = cluster.run(tmp_path, case)
    assert answer["statuses"] == ["committed"]
    assert answer["rows"] == [[i, "a"] for i in range(2000)]
    assert (answer["leaked"], answer["missing"]) == ([], [])


@pytest.mark.parametrize("case", ["twin", "half", "twin-direct", "half-direct", "late-direct"])
def test_a_speculative_twin_leaves_no_row_twice_and_no_file(cluster: Cluster, tmp_path: Path, case: str) -> None:
    speculation = ("spark.speculation=true", "spark.speculation.quantile=0.5", "spark.speculation.multiplier=1.1",
                   "spark.speculation.minTaskRuntime=1ms", "spark.speculation.task.duration.threshold=1s")  # fmt: skip
    answer = cluster.run(tmp_path, case, *speculation)
    assert {"0-0", "0-1"} <= set(answer["attempts"]), "the task ran twice"
    assert answer["statuses"] == ["committed"]
    assert answer["rows"] == [[i, "a"] for i in range(2000)]
    assert (answer["leaked"], answer["missing"]) == ([], [])
