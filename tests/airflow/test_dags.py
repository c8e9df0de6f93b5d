"""The DAG files: they load without a catalog, a table or an engine, are thin, and say who owns them and what they do."""

from __future__ import annotations

import ast
import itertools
import json
import subprocess
import sys
from pathlib import Path

import pytest
from airflow._shared.module_loading import find_path_from_directory
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization

pytestmark = pytest.mark.airflow
ROOT = Path(__file__).resolve().parents[2]
DAGS = ROOT / "dags"
FILES = sorted(DAGS.glob("*.py"))
IDS = ["flights_corrections", "flights_ingest", "iceberg_maintenance", "reference_tables", "table_maintenance"]


@pytest.fixture(scope="module")
def bag() -> DagBag:
    return DagBag(str(DAGS))


def test_every_file_loads(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert sorted(bag.dags) == IDS


@pytest.mark.parametrize("dag_id", IDS)
def test_a_dag_has_owner_tags_documentation_retries_and_a_time_limit(bag: DagBag, dag_id: str) -> None:
    dag = bag.dags[dag_id]
    assert dag.tags
    assert dag.doc_md
    assert not dag.catchup
    for task in dag.tasks:
        assert task.owner == "data-platform", task.task_id
        assert task.retries >= 1, task.task_id
        assert task.execution_timeout, task.task_id


@pytest.mark.parametrize("dag_id", IDS)
def test_tasks_retry_by_the_kind_of_error(bag: DagBag, dag_id: str) -> None:
    without = [t.task_id for t in bag.dags[dag_id].tasks if t.retry_policy is None]
    assert without == []


@pytest.mark.parametrize("dag_id", IDS)
def test_a_dag_survives_serialization(bag: DagBag, dag_id: str) -> None:
    document = json.loads(json.dumps(DagSerialization.to_dict(bag.dags[dag_id])))
    assert DagSerialization.from_dict(document).dag_id == dag_id


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_a_dag_file_is_thin(path: Path) -> None:
    tree = ast.parse(path.read_text())
    statements = sum(isinstance(node, ast.stmt) for node in ast.walk(tree))
    assert statements < 40
    assert not [n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_a_dag_file_imports_only_the_authoring_interface(path: Path) -> None:
    top_level = {
        (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    allowed = ("__future__", "airflow.sdk", "datetime", "iceberg_airflow", "iceberg_ops.config", "pathlib", "typing")
    assert [m for m in top_level if not m.startswith(allowed)] == []


def test_parsing_loads_no_engine_and_no_heavy_library() -> None:
    program = f"""
import runpy, sys
sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / "plugins")!r}]
for path in {[str(p) for p in FILES]!r}:
    runpy.run_path(path)
heavy = ("pyarrow", "pandas", "polars", "pyspark", "fastavro", "sqlglot", "demo", "iceberg_ops.actions",
         "iceberg_ops.table", "iceberg_ops.scan", "iceberg_ops.data", "iceberg_ops.commit", "iceberg_ops.catalog")
print([m for m in heavy if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout.strip().splitlines()[-1:] == ["[]"], done.stderr[-2000:]


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


def test_a_day_is_ingested_under_one_run_key(bag: DagBag) -> None:
    dag = bag.dags["flights_ingest"]
    assert dag.get_task("append").upstream_task_ids == {"land", "create_table"}
    assert "land" in str(dag.get_task("append").run_key)


def test_steps_of_a_table_follow_each_other(bag: DagBag) -> None:
    dag: DAG = bag.dags["table_maintenance"]  # type: ignore[assignment]
    order = ["rewrite_data_files", "rewrite_manifests", "expire_snapshots", "remove_orphan_files"]
    for earlier, later in itertools.pairwise(order):
        assert f"maintain.run_{earlier}" in dag.get_task(f"maintain.plan_{later}").upstream_task_ids
        assert dag.get_task(f"maintain.plan_{later}").trigger_rule == "none_failed"
    assert "maintain.run_remove_orphan_files" in dag.get_task("maintain.verify").upstream_task_ids


def test_airflow_loads_one_plugin_and_no_module_of_the_package_as_a_plugin() -> None:
    """It would run every module of the folder in every component, under its bare name."""
    found = find_path_from_directory(str(ROOT / "plugins"), ".airflowignore")
    assert [Path(path).name for path in found] == ["iceberg_plugin.py"]
