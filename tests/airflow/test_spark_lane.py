"""A real spark-submit under a task: its settings with secrets, and how all its processes end with the task."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from iceberg_airflow.lanes import SparkLane
from iceberg_airflow.outcome import ProcessEnd
from iceberg_airflow.processes import Processes

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.slow]
SECRET = "a/B=\\ #é:! x"

APPLICATION = """
import os, sys, time
from pyspark.sql import SparkSession
if __name__ == "__main__":
    spark = SparkSession.builder.getOrCreate()
    name = "spark.hadoop.fs.s3a.secret.key"
    print("same" if spark.conf.get(name) == os.environ["WANTED"] else spark.conf.get(name), flush=True)
    rdd = spark.sparkContext.parallelize([1], 1)
    if os.environ.get("STAY"):
        spark.sparkContext.setLogLevel("OFF")
        print("up", flush=True)
        rdd.foreach(lambda _: time.sleep(600))
    sys.exit(0)
"""


class Family(logging.Handler):
    """The task's log: says when the driver is up."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.up = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())
        if record.getMessage() == "up":
            self.up.set()


@pytest.fixture
def family(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Family:
    (tmp_path / "main.py").write_text(APPLICATION)
    (tmp_path / "log4j2.properties").write_text("rootLogger.level = error\n")
    monkeypatch.setenv("ICEBERG_OPS_SPARK_APPLICATION", str(tmp_path / "main.py"))
    monkeypatch.setenv("WANTED", SECRET)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("MARK", str(tmp_path))
    return Family()


def lane(family: Family, processes: Processes) -> SparkLane:
    log = logging.getLogger(f"spark-{id(family)}")
    log.setLevel(logging.INFO)
    log.addHandler(family)
    conf = {"spark.hadoop.fs.s3a.secret.key": SECRET, "spark.ui.enabled": "false"}
    return SparkLane(log=log, processes=processes, name="x", conf=conf, driver_memory="512m")


def marked(mark: str) -> list[str]:
    """Command lines of running processes that inherited the mark, this one left out."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get("MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return found


def test_spark_reads_settings_with_secrets_and_no_process_shows_them(
    family: Family, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And when the task is stopped the JVM, the Python driver and its workers end."""
    monkeypatch.setenv("STAY", "1")
    processes, ended = Processes(), list[ProcessEnd]()
    spec = tmp_path / "private-job.json"
    worker = threading.Thread(target=lambda: ended.append(lane(family, processes).run(spec, b"{}")))
    worker.start()
    assert family.up.wait(120), family.lines
    assert "same" in family.lines
    until = time.monotonic() + 60
    while not any("pyspark.daemon" in line or "pyspark/daemon" in line for line in marked(str(tmp_path))):
        assert time.monotonic() < until, marked(str(tmp_path))
        time.sleep(0.2)
    running = marked(str(tmp_path))
    assert len(running) >= 4  # guard, JVM, driver, workers
    assert SECRET not in " ".join(running)
    processes.kill()
    worker.join(60)
    assert ended[0].killed
    assert marked(str(tmp_path)) == []
    assert list(tmp_path.glob("private-*")) == []
