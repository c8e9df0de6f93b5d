"""docker-compose.yml describes what ``make demo-cluster`` runs natively: the same kinds of servers, started by the same commands,
with the same variables and settings; only hosts, ports and folders differ."""

from __future__ import annotations

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest

from demo.cluster_stack import BUCKET, ClusterStack
from demo.credentials import S3_ACCESS_KEY, S3_SECRET_KEY, credentials
from demo.places import Places
from demo.postgresql import DATABASES, OWNER
from demo.settings import airflow_environment
from demo.spark_cluster import WORKERS, SparkCluster
from tests.deploy.documents import ROOT, example_variables, services, spark_defaults, substituted

CONTAINERS_ALONE = {
    "AIRFLOW__CORE__DAGS_FOLDER",  # the demo has two folders, which a bundle list names
    "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK",  # the demo asks the api-server
}
PLACE_OF_A_SETTING = {"spark.driver.host", "spark.driver.bindAddress", "spark.executor.memory"}


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterStack:
    monkeypatch.setattr("demo.cluster_stack.VERSITYGW", Path(__file__))  # its place is read, and nothing is started
    return ClusterStack(Places.of(tmp_path / "demo"))


def command_of(demo: ClusterStack, name: str) -> list[str]:
    (server,) = (server for server in demo.servers() if server.name == name)
    return [str(word) for word in server.program().command]


def command_in_compose(name: str) -> list[str]:
    return substituted(" ".join(services()[name]["command"])).split()


def options(command: list[str]) -> dict[str, str]:
    """Options and their values, without hosts, ports and folders."""
    found = dict(itertools.pairwise(command))
    named = {name: value for name, value in found.items() if name.startswith("--")}
    return {name: "..." if re.search(r"[/:$]|^[0-9.]+$|^spark-", value) else value for name, value in named.items()}


def test_airflows_variables_are_those_of_the_demo(demo: ClusterStack) -> None:
    theirs, ours = services()["airflow-scheduler"]["environment"], airflow_environment(demo)
    named = {key for key in theirs if key.startswith(("AIRFLOW", "ICEBERG_OPS_"))}
    assert named - set(ours) == CONTAINERS_ALONE
    for key in (
        "AIRFLOW__CORE__EXECUTOR",
        "AIRFLOW__CORE__PARALLELISM",
        "AIRFLOW__CORE__LOAD_EXAMPLES",
        "ICEBERG_OPS_DRIVER_MEMORY",
    ):
        assert substituted(theirs[key]) == ours[key], key


def test_both_have_one_postgresql_with_two_databases(demo: ClusterStack) -> None:
    place = r"(\w+\+\w+)://(\w+):[^@]+@[^/]+/(\w+)"
    theirs = re.fullmatch(place, substituted(services()["airflow-scheduler"]["environment"]["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]))
    ours = re.fullmatch(place, demo.environment()["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"])
    assert theirs
    assert ours
    assert theirs.groups() == ours.groups() == ("postgresql+psycopg2", OWNER, "airflow")
    database = services()["postgres"]["environment"]
    made = re.findall(r"CREATE DATABASE (\w+)", (ROOT / "docker" / "postgres-init.sql").read_text())
    assert (substituted(database["POSTGRES_USER"]), {database["POSTGRES_DB"], *made}) == (OWNER, set(DATABASES))


@pytest.mark.parametrize("key", ["AIRFLOW_CONN_ICEBERG_DEFAULT", "AIRFLOW_CONN_SPARK_DEFAULT"])
def test_a_connection_says_the_same_by_the_same_names(demo: ClusterStack, key: str) -> None:
    def shape(document: dict[str, Any]) -> dict[str, Any]:
        """Addresses and secrets replaced."""
        own = {"name": "...", "password": "...", "port": "...", "s3.access-key-id": "...", "s3.secret-access-key": "..."}
        said = {k: own.get(k, v) for k, v in document.items()}
        return {k: shape(v) if isinstance(v, dict) else re.sub(r"//(s3|postgres|spark-master|127\.0\.0\.1)(:\d+)?", "//...", v)
                for k, v in said.items()}  # fmt: skip

    theirs = json.loads(substituted(services()["airflow-scheduler"]["environment"][key]))
    assert shape(theirs) == shape(json.loads(demo.environment()[key]))


def test_the_store_is_started_in_the_same_way(demo: ClusterStack) -> None:
    theirs, ours = command_in_compose("s3"), command_of(demo, "s3")
    assert options(theirs) == options(ours)
    assert "posix" in theirs
    assert "posix" in ours
    (server,) = (server for server in demo.servers() if server.name == "s3")
    secret = credentials(demo.places)
    assert {k for k, v in server.program().environment.items() if v in (secret[S3_ACCESS_KEY], secret[S3_SECRET_KEY])} == set(
        services()["s3"]["environment"]
    )


def test_the_stores_bucket_is_made_and_tables_lie_in_it(demo: ClusterStack) -> None:
    assert f"/s3/data/{BUCKET} " in substituted(services()["s3"]["command"][0])
    for warehouse in (example_variables()["ICEBERG_WAREHOUSE"], demo.catalog_properties()["warehouse"]):
        assert warehouse == f"s3://{BUCKET}/warehouse"


def test_master_and_workers_are_started_in_the_same_way(demo: ClusterStack) -> None:
    for theirs, ours in (("spark-master", "spark-master"), ("spark-worker", WORKERS[0])):
        in_compose, native = command_in_compose(theirs), command_of(demo, ours)
        started = [word for word in native if word.startswith("org.apache.spark")]
        assert [word for word in in_compose if word.startswith("org.apache.spark")] == started
        # The address of a container is its own, and its work folder is a variable.
        alone = {"--host", "--work-dir"}
        assert set(options(in_compose)) - alone == set(options(native)) - alone
    assert services()["spark-worker"]["deploy"]["replicas"] == len(WORKERS)
    theirs_set = services()["spark-master"]["environment"]["SPARK_MASTER_OPTS"]
    assert theirs_set == SparkCluster(demo.places).master().environment["SPARK_MASTER_OPTS"]


def test_applications_have_the_same_settings(demo: ClusterStack) -> None:
    ours, theirs = SparkCluster(demo.places).settings(), spark_defaults()
    assert set(theirs) <= set(ours)
    assert {k: v for k, v in theirs.items() if ours[k] != v}.keys() <= PLACE_OF_A_SETTING
    assert set(ours) - set(theirs) == {
        "spark.submit.pyFiles",  # the image has the packages
        *("spark.eventLog.enabled", "spark.eventLog.dir", "spark.eventLog.compress", "spark.sql.debug.maxToStringFields"),
        *("spark.driver.defaultJavaOptions", "spark.executor.defaultJavaOptions"),  # the demo's jobs are short
    }


def test_two_applications_fit_on_the_workers(demo: ClusterStack) -> None:
    def mebibytes(text: str) -> int:
        return int(text[:-1]) * {"m": 1, "g": 1024}[text[-1]]

    worker = command_of(demo, WORKERS[0])
    settings = SparkCluster(demo.places).settings()
    example = example_variables()
    native = (int(worker[worker.index("--cores") + 1]), worker[worker.index("--memory") + 1])
    for (cores, memory), told in (
        (native, settings),
        ((int(example["SPARK_WORKER_CORES"]), example["SPARK_WORKER_MEMORY"]), spark_defaults()),
    ):
        assert cores * len(WORKERS) >= 2 * int(told["spark.cores.max"])
        assert mebibytes(memory) >= 2 * mebibytes(told["spark.executor.memory"])
