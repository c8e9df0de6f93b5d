"""The DAG files that users deploy: a form for one action, and maintenance from a policy, theirs or the sample."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from airflow._shared.module_loading import find_path_from_directory
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import ParamValidationError

from iceberg_airflow.discovery import discover
from iceberg_airflow.work import Request, read_policy
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig
from tests.airflow.dag_files import ROOT, DagFolderSuite

pytestmark = pytest.mark.airflow
DAGS = ROOT / "dags"
SAMPLE = DAGS / "policies" / "maintenance.yml"


class TestDeployedDags(DagFolderSuite):
    folder = DAGS
    ids = frozenset({"iceberg_maintenance", "table_maintenance"})


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return DagBag(str(DAGS))


def test_the_form_offers_table_action_options_where_and_dry_run(bag: DagBag) -> None:
    params = bag.dags["iceberg_maintenance"].params
    assert {"table", "action", "options", "where", "dry_run"} <= set(params)
    params.validate()
    assert params["dry_run"] is True
    schema = params.get_param("action").schema
    assert "expire_snapshots" in schema["enum"]


@pytest.mark.parametrize(
    ("name", "value"), [("table", "flights"), ("action", "vacuum"), ("options", "min-input-files=2"), ("dry_run", "yes")]
)
def test_the_form_refuses_what_can_not_be(bag: DagBag, name: str, value: str) -> None:
    param = bag.dags["iceberg_maintenance"].params.get_param(name)
    with pytest.raises(ParamValidationError):
        Param(value, **param.schema).resolve()


def test_steps_of_a_table_follow_each_other(bag: DagBag) -> None:
    dag: DAG = bag.dags["table_maintenance"]  # type: ignore[assignment]
    order = ["rewrite_data_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]
    for earlier, later in itertools.pairwise(order):
        assert f"maintain.run_{earlier}" in dag.get_task(f"maintain.plan_{later}").upstream_task_ids
        assert dag.get_task(f"maintain.plan_{later}").trigger_rule == "none_failed"
    assert "maintain.run_remove_orphan_files" in dag.get_task("maintain.verify").upstream_task_ids


def test_the_environment_may_name_the_policy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = tmp_path / "mine.yml"
    policy.write_text(
        "version: 1\ncatalogs: {lake: {type: sql}}\ndefaults: {schedule: '@daily', maintenance: [{action: rewrite_manifests}]}"
    )
    monkeypatch.setenv("ICEBERG_OPS_POLICY", str(policy))
    found = DagBag(str(DAGS / "table_maintenance.py")).dags
    assert list(found) == ["table_maintenance__daily"]
    assert found["table_maintenance__daily"].get_task("discover").policy == str(policy)  # type: ignore[attr-defined]


def test_a_catalog_without_any_table_the_sample_matches_is_fine(tmp_path: Path) -> None:
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path)}
    config = CatalogConfig(name="lake", type="sql", properties=properties)
    assert discover(Request(catalog=config, policy=str(SAMPLE)), load_catalog(config), read_policy(SAMPLE)).tables == []


def test_what_users_deploy_does_not_know_the_demo() -> None:
    deployed = [p for top in ("dags", "plugins", "docker") for p in (ROOT / top).rglob("*") if p.suffix in {".py", ".yml", ".conf"}]
    deployed += [ROOT / name for name in ("Dockerfile", "docker-compose.yml", ".env.example")]
    named = re.compile(r"\b(demo|nyc\w*|flights|landing)\b", re.IGNORECASE)
    assert [f"{p.name}: {found.group()}" for p in deployed for found in named.finditer(p.read_text())] == []


def test_airflow_loads_one_plugin_and_no_module_of_the_package_as_a_plugin() -> None:
    """It would run every module of the folder in every component, under its bare name."""
    found = find_path_from_directory(str(ROOT / "plugins"), ".airflowignore")
    assert [Path(path).name for path in found] == ["iceberg_plugin.py"]
