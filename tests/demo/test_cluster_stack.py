"""The demo's cluster: servers on loopback, no secret in what users of the machine can see, PostgreSQL and the S3 store for real."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from demo.cluster_stack import VERSITYGW, ClusterStack
from demo.credentials import secret_values
from demo.places import Places
from demo.printing import Printer, Step
from demo.processes import DemoError, Program, pid_of, stop_all
from demo.spark_cluster import SparkCluster
from demo.stack import Server
from demo.story import start_servers
from demo.table_states import catalog_config
from demo.tables import ensure_table
from iceberg_airflow.hook import catalog_config as config_of_connection
from iceberg_ops.catalog.load import load_catalog
from tests.servers.process import missing


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterStack:
    if not VERSITYGW.is_file():  # tests that do not start it need no more than a path
        monkeypatch.setattr("demo.cluster_stack.VERSITYGW", Path(sys.executable))
    made = ClusterStack(Places.of(tmp_path / "demo"))
    made.places.make()
    return made


@pytest.fixture
def storage(stack: ClusterStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[ClusterStack]:
    """PostgreSQL and the S3 store run."""
    if not VERSITYGW.is_file():
        missing("versitygw")
    servers = [server for server in stack.servers() if server.name in stack.storage]
    monkeypatch.setattr(ClusterStack, "servers", lambda _: servers)
    try:
        start_servers(stack, Step("start", Printer()))
        yield stack
    finally:
        stop_all(stack.places)
        stack.remove()


def programs(stack: ClusterStack) -> dict[str, Program]:
    return {server.name: server.program() for server in stack.servers()}


def test_a_master_and_two_workers_stand_beside_the_storage(stack: ClusterStack) -> None:
    assert list(programs(stack)) == [*stack.storage, "spark-master", "spark-worker-1", "spark-worker-2"]


def test_no_command_line_and_no_setting_of_spark_holds_a_secret(stack: ClusterStack) -> None:
    shown = [" ".join(map(str, program.command)) for program in programs(stack).values()]
    shown += [json.dumps(SparkCluster(stack.places).settings())]
    assert [(name, text) for name, value in secret_values(stack.places).items() for text in shown if value in text] == []


def test_spark_runs_without_secrets_and_without_this_checkout(stack: ClusterStack, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "SPARK_HOME", "PYSPARK_PYTHON", "AIRFLOW_CONN_LAKE"):
        monkeypatch.setenv(name, "x")
    for name, program in programs(stack).items():
        if name.startswith("spark"):
            assert not set(secret_values(stack.places).values()) & set(program.environment.values())
            assert set(program.environment) <= {
                *("HOME", "JAVA_HOME", "LANG", "PATH", "TMPDIR"),
                *("SPARK_DAEMON_MEMORY", "SPARK_LOCAL_IP", "SPARK_NO_DAEMONIZE", "SPARK_MASTER_OPTS"),
            }


def test_every_server_listens_on_loopback_at_a_port_of_its_own(stack: ClusterStack) -> None:
    commands = {name: " ".join(map(str, program.command)) for name, program in programs(stack).items()}
    assert all("127.0.0.1" in command for command in commands.values())
    ports = json.loads(stack.places.ports_file.read_text())
    assert len(set(ports.values())) == len(ports) == 4
    assert {name: port for name, port in ports.items() if not any(str(port) in c for c in commands.values())} == {}


def test_spark_submit_finds_the_settings_and_executors_the_packages(stack: ClusterStack, tmp_path: Path) -> None:
    SparkCluster(stack.places).prepare()
    defaults = Path(stack.environment()["SPARK_CONF_DIR"]) / "spark-defaults.conf"
    told = dict(line.split(" ", 1) for line in defaults.read_text().splitlines())
    assert told == SparkCluster(stack.places).settings()
    archive = Path(told["spark.submit.pyFiles"].removeprefix("file://"))
    with zipfile.ZipFile(archive) as made:
        assert {name.partition("/")[0] for name in made.namelist()} == {"iceberg_ops", "spark_jobs"}
    command = [sys.executable, "-c", "import spark_jobs.runners.changes as m; print(m.__file__)"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(archive)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{archive}/spark_jobs/runners/changes.pyc"


def test_a_location_is_found_among_the_stores_files(stack: ClusterStack) -> None:
    found = stack.file_of("s3://lake/warehouse/nyc/flights/data/a.parquet")
    assert found == stack.places.root / "s3" / "data" / "lake" / "warehouse" / "nyc" / "flights" / "data" / "a.parquet"


def test_a_missing_store_is_told_before_anything_starts(stack: ClusterStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("demo.cluster_stack.VERSITYGW", Path("/nowhere/versitygw"))
    with pytest.raises(DemoError, match="S3 store is not installed") as caught:
        stack.servers()
    assert "make servers" in caught.value.next_step


def test_a_table_is_made_in_postgresql_and_the_store_and_is_there_after_a_restart(storage: ClusterStack) -> None:
    assert ensure_table(catalog_config(storage), "airlines") == "demo.nyc.airlines"
    stop_all(storage.places)
    assert [pid_of(name, storage.places) for name in storage.storage] == [None, None]
    start_servers(storage, Step("start again", Printer()))
    table = load_catalog(catalog_config(storage)).load_table(("nyc", "airlines"))
    assert storage.file_of(table.metadata_location).is_file()


@pytest.mark.airflow
def test_the_airflow_connection_is_the_same_catalog(stack: ClusterStack) -> None:
    from airflow.sdk import Connection

    told = json.loads(stack.environment()["AIRFLOW_CONN_ICEBERG_DEFAULT"])
    connection = Connection(conn_id="iceberg_default", **{**told, "extra": json.dumps(told["extra"])})
    assert config_of_connection(connection) == catalog_config(stack)


def test_a_server_that_ends_at_once_is_named_with_its_last_line(stack: ClusterStack, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", "import sys; sys.exit('cannot bind')"]
    broken = Server("s3", lambda: Program("s3", command, dict(os.environ), stack.places.root), lambda: False)
    monkeypatch.setattr(ClusterStack, "servers", lambda _: [broken])
    with pytest.raises(DemoError, match="s3 ended by itself: cannot bind"):
        start_servers(stack, Step("start", Printer()))
