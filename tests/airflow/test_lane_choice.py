"""Lane auto in Airflow: the rule of the command line, with the Spark connection's master."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_airflow.lane_choice import main
from iceberg_airflow.operators import IcebergOpsOperator
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import OptionError
from tests.airflow.fakes import FakeLane, a_context, a_report, with_lane
from tests.builders import SCHEMA


@pytest.fixture
def properties(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The default connections: a catalog with six small files in ``nyc.flights``, and a cluster."""
    told = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path / "warehouse"), "spark-from-bytes": "1"}
    catalog = load_catalog(CatalogConfig(name="lake", type="sql", properties=told))
    catalog.create_namespace(("nyc",))
    table = catalog.create_table(("nyc", "flights"), SCHEMA)
    for i in range(6):
        writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"op{i}")
        writer.write(pa.RecordBatch.from_pydict({"id": pa.array([i], pa.int64()), "data": ["x"], "region": ["a"]}))
        table = commit(catalog, table, AppendFiles(added=tuple(writer.close()))).table
    extra = {"name": "lake", "type": "sql", **told}
    monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps({"conn_type": "iceberg_ops", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "spark://master", "port": 7077}))
    return told


def lane_of(job: str, **parts: object) -> JobSpec:
    lane = FakeLane(a_report)
    with_lane(IcebergOpsOperator(task_id="t", job=job, table="nyc.flights", **parts), lane).execute(a_context())
    return lane.seen[0]


@pytest.mark.usefixtures("properties")
def test_much_to_rewrite_goes_to_the_cluster() -> None:
    job = lane_of("rewrite_data_files")
    assert job.lane == "spark"
    assert "not less than spark-from-bytes 1" in job.lane_reason


@pytest.mark.usefixtures("properties")
@pytest.mark.parametrize(("job", "parts"), [("rewrite_data_files", {"plan_only": True}), ("expire_snapshots", {})])
def test_what_needs_no_cluster_stays(job: str, parts: dict[str, object]) -> None:
    assert (lane_of(job, **parts).lane, lane_of(job, **parts).lane_reason) == ("local", "")


@pytest.mark.usefixtures("properties")
def test_a_master_on_this_machine_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    assert lane_of("rewrite_data_files").lane == "local"


def test_a_bad_threshold_is_the_tasks_error(properties: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"name": "lake", "type": "sql", **properties, "spark-from-bytes": "much"}
    monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps({"conn_type": "iceberg_ops", "extra": extra}))
    with pytest.raises(OptionError, match="spark-from-bytes = 'much'"):
        lane_of("rewrite_data_files")


def test_the_question_is_answered_in_a_file(tmp_path: Path, properties: dict[str, str]) -> None:
    catalog = CatalogConfig(name="lake", type="sql", properties=properties)
    spec = tmp_path / "job.json"

    spec.write_bytes(to_json(JobSpec(job="compute_table_stats", table="lake.nyc.flights", catalog=catalog)))
    assert main([str(spec), "yarn", str(tmp_path / "answer.json")]) == 0
    assert json.loads((tmp_path / "answer.json").read_text())["lane"] == "spark"
