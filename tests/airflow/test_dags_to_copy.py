"""The DAG files of the documentation: each is loaded as Airflow loads it, and its tasks run, in order, on a real table."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import AirflowSkipException
from airflow.serialization.serialized_objects import DagSerialization

from iceberg_airflow import IcebergOpsOperator
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.cli.main import run
from iceberg_ops.config.job_spec import CatalogConfig
from tests.airflow.fakes import FakeLane, a_context, a_report, with_lane
from tests.docs.markdown import ROOT, blocks

pytestmark = pytest.mark.airflow
PAGE = ROOT / "docs" / "airflow-dags.md"
DAY = "2026-02-03"
FILES = {text.split('DAG(\n    "')[1].split('"')[0] if "DAG(" in text else "from_policy": text for text in blocks(PAGE, "python")}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog with a table of two files, and what the examples read."""
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path / "warehouse")}
    extra = {"name": "lake", "type": "sql", **properties}
    monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps({"conn_type": "iceberg_ops", "extra": extra}))
    monkeypatch.setenv("ICEBERG_OPS_CATALOGS", str(tmp_path / "catalogs.yml"))
    catalogs = {"catalogs": [{"name": "lake", "type": "sql", "properties": properties}]}
    (tmp_path / "catalogs.yml").write_text(json.dumps(catalogs))
    rows = pa.table({"id": [1, 2, 3], "customer": ["ada", "bob", "nobody"], "amount": [1.0, 2.0, 3.0]})
    for folder in ("orders", "corrections"):
        (tmp_path / folder / DAY).mkdir(parents=True)
        pq.write_table(rows, tmp_path / folder / DAY / "0.parquet")
    (tmp_path / "changes" / DAY).mkdir(parents=True)
    (tmp_path / "changes" / DAY / "0.csv").write_text("id,customer,amount,op,seq\n1,ada,9.5,U,2\n1,ada,8.5,U,1\n2,,,D,3\n")
    catalog = load_catalog(CatalogConfig(name="lake", type="sql", properties=properties))
    catalog.create_namespace(("shop",))
    for name in ("orders", "customers"):
        assert run(["create", f"lake.shop.{name}", "id long, customer string, amount double"]) == 0
        for _ in range(2):
            assert run(["append", f"lake.shop.{name}", "--from", str(tmp_path / "orders" / DAY)]) == 0


def dag_of(name: str, folder: Path) -> Any:
    """The DAG of a block, copied into a folder with its paths changed, as the page says to do."""
    (folder / "dags" / "policies").mkdir(parents=True)
    (folder / "dags" / "policies" / "maintenance.yml").write_bytes((ROOT / "dags" / "policies" / "maintenance.yml").read_bytes())
    (folder / "dags" / f"{name}.py").write_text(FILES[name].replace("/data/landing", str(folder)))
    bag = DagBag(str(folder / "dags"))
    assert bag.import_errors == {}
    (dag,) = bag.dags.values()
    return dag


@pytest.mark.parametrize("name", FILES)
def test_a_dag_to_copy_loads_and_every_task_has_owner_limit_and_retry_policy(name: str, tmp_path: Path) -> None:
    dag = dag_of(name, tmp_path)
    assert DagSerialization.from_dict(json.loads(json.dumps(DagSerialization.to_dict(dag)))).dag_id == dag.dag_id
    for task in dag.tasks:
        assert task.owner != "airflow"
        assert task.execution_timeout or dag.dag_id == "table_maintenance"


def play(dag: Any) -> list[str]:
    """Run every task in order, as Airflow does, until one is skipped; the ids of those that ran."""
    ran = []
    for task in dag.topological_sort():
        context = a_context(ds=DAY, params=dict(dag.params), run_id=datetime.now(UTC).isoformat())
        context["ti"].task_id = task.task_id
        task.render_template_fields(context)
        task.pre_execute(context)
        try:
            task.execute(context)
        except AirflowSkipException:
            return ran
        ran.append(task.task_id)
    return ran


RAN: dict[str, tuple[list[str], int]] = {
    "orders_maintenance": (["plan_compaction", "compact", "expire", "check"], 6),
    "orders_load": (["append"], 9),
    "orders_changes": (["upsert"], 3),
    "orders_corrections": (["merge"], 6),
    "orders_forget": (["mark", "delete", "rewrite", "expire"], 4),
}


@pytest.mark.parametrize("name", RAN)
@pytest.mark.usefixtures("lake")
def test_a_dag_to_copy_does_what_it_says(name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    tasks, rows = RAN[name]
    assert play(dag_of(name, tmp_path)) == tasks
    capfdbinary.readouterr()
    assert run(["scan", "lake.shop.orders", "--json"]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == rows


def test_what_a_dag_to_copy_gives_to_spark_is_a_job(tmp_path: Path) -> None:
    (task,) = dag_of("orders_sort", tmp_path).tasks
    assert isinstance(task, IcebergOpsOperator)
    context = a_context(ds=DAY)
    task.render_template_fields(context)
    lane = FakeLane(a_report)
    with_lane(task, lane).execute(context)
    assert lane.seen[0].table == "lake.shop.orders"


def test_every_dag_of_the_page_is_run_or_looked_at() -> None:
    assert {*FILES} == {*RAN, "orders_sort", "from_policy", "shop_manifests"}
