"""Engines as processes: the exact spark-submit call, output in the log, exit codes, killing."""

from __future__ import annotations

import logging
import sys
import threading
from pathlib import Path

import pytest

from iceberg_airflow import java
from iceberg_airflow.lanes import Ended, LocalLane, SparkLane, application, python_environment, quiet_driver, require_connection
from iceberg_ops.errors import OptionError, RuntimeMissingError

pytestmark = pytest.mark.airflow
LOG = logging.getLogger("task")


def local(program: str) -> LocalLane:
    return LocalLane(log=LOG, command=(sys.executable, "-c", program))


def test_spark_is_called_in_client_mode_on_the_connections_master() -> None:
    lane = SparkLane(log=LOG, name="append lake.nyc.flights", conf={"spark.ui.enabled": "false"}, driver_memory="1g")
    hook = lane._make_hook(Path("/jobs/job.json"))
    assert hook._build_spark_submit_command(str(application())) == [
        *("spark-submit", "--master", "local[2]"),
        *("--conf", f"spark.driver.extraJavaOptions={quiet_driver()['spark.driver.extraJavaOptions']}"),
        *("--conf", "spark.ui.enabled=false"),
        *("--driver-memory", "1g", "--name", "append lake.nyc.flights"),
        *(str(application()), "--job-spec", "/jobs/job.json"),
    ]


def test_spark_runs_the_interpreter_that_runs_airflow() -> None:
    hook = SparkLane(log=LOG, name="x")._make_hook(Path("/jobs/job.json"))
    hook._build_spark_submit_command(str(application()))
    assert hook._env["PYSPARK_PYTHON"] == hook._env["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_a_missing_spark_connection_is_named_instead_of_calling_yarn() -> None:
    with pytest.raises(OptionError, match="Spark connection 'spark_prod' is not defined"):
        require_connection("spark_prod")


def test_the_application_is_where_it_was_installed() -> None:
    assert application().name == "main.py"
    assert str(application().parents[1]) in python_environment()["PYTHONPATH"]


def test_a_missing_application_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEBERG_OPS_SPARK_APPLICATION", "/nowhere/main.py")
    with pytest.raises(RuntimeMissingError, match=r"/nowhere/main\.py is not there"):
        application()


def test_the_local_lane_streams_output_and_gives_code_and_last_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        ended = local("import sys; print('reading'); print(sys.argv[1:]); print('error: X: y', file=sys.stderr); sys.exit(3)").run(
            Path("/j")
        )
    assert ended.exit_code == 3
    assert "reading" in caplog.text
    assert "['--job-spec', '/j']" in caplog.text


def test_a_lane_that_ends_well_says_so() -> None:
    assert local("print('done')").run(Path("/j")) == Ended(0, "done")


def test_killing_ends_the_process_and_what_it_started() -> None:
    started = threading.Event()
    log = logging.getLogger("killed")
    log.setLevel(logging.INFO)
    log.addHandler(_Notify(started))
    lane = LocalLane(log=log, command=(sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)"))
    ended: list[Ended] = []
    worker = threading.Thread(target=lambda: ended.append(lane.run(Path("/j"))))
    worker.start()
    assert started.wait(30)
    lane.kill()
    worker.join(30)
    assert ended[0].exit_code != 0


class _Notify(logging.Handler):
    def __init__(self, event: threading.Event) -> None:
        super().__init__()
        self.event = event

    def emit(self, record: logging.LogRecord) -> None:
        self.event.set()


def a_java(folder: Path, version: str) -> Path:
    path = folder / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return folder


@pytest.mark.parametrize(("version", "found"), [("17.0.15", 17), ("21", 21), ("25.0.1", 25)])
def test_a_new_enough_java_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, found: int) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, version)))
    assert java.find_java().startswith(f"Java {found} at ")


@pytest.mark.parametrize(("version", "found"), [("1.8.0_392", 8), ("11.0.2", 11)])
def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, found: int) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, version)))
    with pytest.raises(RuntimeMissingError, match=f"Spark needs Java 17 or newer; .* is version {found}"):
        java.find_java()


def test_no_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeMissingError, match="there is no java in PATH"):
        java.find_java()


def test_a_java_home_without_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RuntimeMissingError, match="there is no java in JAVA_HOME = "):
        java.find_java()
