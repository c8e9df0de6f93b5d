"""The demo's DAG files: as thin as the deployed ones, and loaded beside them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

from demo.places import DAG_FOLDERS, POLICY, Places
from demo.settings import airflow_environment
from demo.stack import CATALOG, LocalStack
from demo.story import DAGS
from iceberg_airflow.work import read_policy
from tests.airflow.dag_files import DagFolderSuite

pytestmark = pytest.mark.airflow


class TestDemoDags(DagFolderSuite):
    folder = DAG_FOLDERS["demo"]
    ids = frozenset({"flights_corrections", "flights_ingest", "reference_tables"})


def test_a_day_is_ingested_under_one_run_key() -> None:
    dag = DagBag(str(DAG_FOLDERS["demo"])).dags["flights_ingest"]
    assert dag.get_task("append").upstream_task_ids == {"land", "create_table"}
    assert "land" in str(dag.get_task("append").run_key)  # type: ignore[attr-defined]


def test_the_components_load_the_deployed_dags_and_the_demos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every DAG that the story starts, each from one folder only."""
    environment = airflow_environment(LocalStack(Places.of(tmp_path)))
    bundles = json.loads(environment["AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST"])
    monkeypatch.setenv("ICEBERG_OPS_POLICY", environment["ICEBERG_OPS_POLICY"])
    found = [dag_id for bundle in bundles for dag_id in DagBag(bundle["kwargs"]["path"]).dags]
    assert sorted(found) == sorted(DAGS)


def test_the_policy_is_for_the_demos_catalog() -> None:
    assert list(read_policy(POLICY).catalogs) == [CATALOG]
