"""Engines as processes: the exact spark-submit call, output in the log, exit codes."""

from __future__ import annotations

import json
import logging
import os
import sys
from pathlib import Path

import pytest

from iceberg_airflow import java, lanes
from iceberg_airflow.lanes import LocalLane, SparkLane, application, quiet_driver, spark_master
from iceberg_airflow.outcome import ProcessEnd
from iceberg_airflow.processes import Processes, python_environment
from iceberg_ops.errors import OptionError, RuntimeMissingError

pytestmark = pytest.mark.airflow
LOG = logging.getLogger("task")


def local(program: str) -> LocalLane:
    return LocalLane(log=LOG, processes=Processes(), program=(sys.executable, "-c", program))


def spark(**parts: object) -> SparkLane:
    return SparkLane(log=LOG, processes=Processes(), name="append lake.nyc.flights", **parts)  # type: ignore[arg-type]


def test_spark_is_called_in_client_mode_on_the_connections_master() -> None:
    lane = spark(conf={"spark.ui.enabled": "false"}, driver_memory="1g")
    assert lane.command(Path("/jobs/job.json")) == [
        *("spark-submit", "--master", "local[2]"),
        *("--conf", f"spark.driver.extraJavaOptions={quiet_driver()['spark.driver.extraJavaOptions']}"),
        *("--conf", "spark.ui.enabled=false"),
        *("--driver-memory", "1g", "--name", "append lake.nyc.flights"),
        *(str(application()), "--job-spec", "/jobs/job.json"),
    ]


def test_kubernetes_without_its_provider_is_told_by_the_packages_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow's hook failed by `NameError: name 'kube_client' is not defined`."""
    monkeypatch.setenv("AIRFLOW_CONN_K8S", json.dumps({"conn_type": "spark", "host": "k8s://https://cluster", "port": 443}))
    monkeypatch.setattr(lanes, "has_kubernetes", lambda: False)
    with pytest.raises(RuntimeMissingError, match="names k8s://https://cluster: Airflow needs apache-airflow-providers-cncf-kub"):
        spark(conn_id="k8s").command(Path("/jobs/job.json"))


def test_spark_runs_the_interpreter_that_runs_airflow() -> None:
    assert python_environment()["PYSPARK_PYTHON"] == python_environment()["PYSPARK_DRIVER_PYTHON"] == sys.executable


def test_no_setting_with_a_secret_in_its_value_is_on_the_command_line() -> None:
    """A password in a URI under another name was seen by every user of the machine, and in the task's log."""
    conf = {
        "spark.sql.catalog.lake.uri": "jdbc:postgresql://me:geheim-1@db/x",
        "spark.app.DB_PASS": "geheim-2",
        "spark.driver.extraJavaOptions": "-Xss4m -Djavax.net.ssl.keyStorePassword=geheim-3",
        "spark.ui.enabled": "false",
    }
    command = " ".join(spark(conf=conf).command(Path("/jobs/job.json")))
    assert "geheim" not in command
    assert "extraJavaOptions" not in command  # on the command line it would win over the file
    assert "--properties-file /jobs/job.json.spark.properties" in command
    assert "--conf spark.ui.enabled=false" in command


def test_settings_that_hold_secrets_are_in_a_file_instead_of_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """spark-submit is a program here that shows what it was given; Spark itself reads such a file in test_spark_lane.py."""
    (tmp_path / "spark-submit").write_text('#!/bin/sh\necho "$@"\nwhile [ "$1" != --properties-file ]; do shift; done\ncat "$2"\n')
    (tmp_path / "spark-submit").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    lane = spark(conf={"spark.hadoop.fs.s3a.secret.key": "a/B=\\ é", "spark.ui.enabled": "false"})
    with caplog.at_level(logging.INFO):
        lane.run(tmp_path / "private-job.json", b"{}")
    command, settings = caplog.messages[-2:]
    assert "--load-spark-defaults --properties-file" in command
    assert "--conf spark.ui.enabled=false" in command
    assert "s3a" not in command
    assert settings == "spark\\u002ehadoop\\u002efs\\u002es3a\\u002esecret\\u002ekey=a\\u002fB\\u003d\\u005c\\u0020\\u00e9"
    assert list(tmp_path.glob("private-*")) == []


def test_cluster_mode_is_refused_because_a_stopped_task_could_not_end_its_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="deploy mode cluster"):
        spark(conf={"spark.submit.deployMode": "cluster"}).command(Path("/jobs/job.json"))
    document = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps(document))
    with pytest.raises(OptionError, match="Spark connection 'spark_default' asks for deploy mode cluster"):
        spark().command(Path("/jobs/job.json"))


def test_a_missing_spark_connection_is_named_instead_of_calling_yarn() -> None:
    with pytest.raises(OptionError, match="Spark connection 'spark_prod' is not defined"):
        spark(conn_id="spark_prod").command(Path("/jobs/job.json"))


@pytest.mark.parametrize("host", [{}, {"host": ""}, {"host": " "}], ids=repr)
def test_a_spark_connection_without_a_host_names_no_master(host: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted as a cluster: lane auto sent large rewrites to ``spark-submit --master spark://``, which cannot run."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", **host}))
    assert spark_master("spark_default") is None
    with pytest.raises(OptionError, match="Spark connection 'spark_default' has no host: it must name a master"):
        spark().command(Path("/jobs/job.json"))


def test_the_application_is_where_it_was_installed() -> None:
    assert application().name == "main.py"
    assert str(application().parents[1]) in python_environment()["PYTHONPATH"]


def test_a_missing_application_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEBERG_OPS_SPARK_APPLICATION", "/nowhere/main.py")
    with pytest.raises(RuntimeMissingError, match=r"/nowhere/main\.py is not there"):
        application()


def test_the_local_lane_streams_output_and_gives_code_and_last_line(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    program = "import sys; print('reading'); print(open(sys.argv[2]).read()); print('error: X: y', file=sys.stderr); sys.exit(3)"
    with caplog.at_level(logging.INFO):
        ended = local(program).run(tmp_path / "job.json", b"the job spec")
    assert ended == ProcessEnd(3, "error: X: y")
    assert "reading" in caplog.text
    assert "the job spec" in caplog.text


def test_a_lane_that_ends_well_says_so(tmp_path: Path) -> None:
    assert local("print('done')").run(tmp_path / "job.json", b"{}") == ProcessEnd(0, "done")


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


def test_settings_that_are_no_text_are_written_as_spark_reads_them() -> None:
    conf = {"spark.my.token": 12345, "spark.a.password": True, "spark.speculation": False, "spark.x": 0.5, "spark.y": "z"}
    assert spark(conf=conf).conf == {
        "spark.my.token": "12345", "spark.a.password": "true", "spark.speculation": "false", "spark.x": "0.5", "spark.y": "z"
    }  # fmt: skip


@pytest.mark.parametrize("conf", ["x: 1", ["x"], 5])
def test_settings_that_are_no_mapping_are_refused(conf: object) -> None:
    with pytest.raises(OptionError, match="spark_conf must be a mapping of names to values; it is of type"):
        spark(conf=conf)


@pytest.mark.parametrize("value", [None, ["secret"], {"a": "secret"}])
def test_a_setting_that_has_no_text_is_refused_and_not_shown(value: object) -> None:
    with pytest.raises(
        OptionError, match=r"^spark_conf spark\.my\.token: must be a text, a number or a truth value; it is of type [a-zA-Z]+$"
    ):
        spark(conf={"spark.my.token": value})
