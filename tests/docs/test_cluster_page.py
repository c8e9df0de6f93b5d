"""docs/cluster.md: its connections are those that Airflow turns into the right master, its settings those that are tested."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from demo.cluster_stack import ClusterStack
from demo.places import Places
from tests.docs.markdown import ROOT, blocks
from tests.spark.cluster import shipped_python

PAGE = ROOT / "docs" / "cluster.md"
CONNECTION = re.compile(r"AIRFLOW_CONN_SPARK_DEFAULT='(.*)'")
MASTERS = ["spark://spark-master:7077", "k8s://https://kubernetes.default.svc:443", "yarn"]


@pytest.mark.airflow
def test_a_connection_means_its_cluster_in_client_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    import logging

    from airflow.providers.apache.spark.hooks import spark_submit

    from iceberg_airflow import lanes
    from iceberg_airflow.lanes import SparkLane
    from iceberg_airflow.processes import Processes

    # As if Airflow's provider for Kubernetes were installed.
    monkeypatch.setattr(lanes, "has_kubernetes", lambda: True)
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    masters = []
    for connection in CONNECTION.findall(PAGE.read_text()):
        monkeypatch.setenv("AIRFLOW_CONN_CLUSTER", connection)
        lane = SparkLane(log=logging.getLogger("task"), processes=Processes(), name="append", conn_id="cluster")
        command = lane.command(Path("/jobs/job.json"))
        masters.append(command[command.index("--master") + 1])
        assert "cluster" not in command
    assert masters == MASTERS


def test_the_settings_that_ship_packages_and_python_are_those_that_tests_use(tmp_path: Path) -> None:
    named = {line.split()[0] for block in blocks(PAGE) for line in block.splitlines() if line.startswith("spark.")}
    tested = {setting.partition("=")[0] for setting in shipped_python(tmp_path)} | {"spark.submit.pyFiles"}
    assert tested <= named
    assert not [name for name in named if re.search("secret|password|token", name, re.IGNORECASE)]


def test_the_page_says_where_the_demo_keeps_its_tables(tmp_path: Path) -> None:
    stack = ClusterStack(Places.of(tmp_path))
    text = PAGE.read_text()
    assert f"`{stack.catalog_properties()['warehouse']}`" in text
    assert stack.up in text
