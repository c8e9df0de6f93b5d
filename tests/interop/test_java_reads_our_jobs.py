"""Iceberg Java reads the results of ingest with a wider schema, upsert, import and statistics with equal rows."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, Source
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY, bucket
from iceberg_ops.spec.types import DATE, DOUBLE, LONG, STRING, NestedField
from spark_jobs.jobs.dispatch import run
from tests.interop.lake import Lake

pytestmark = [pytest.mark.oracle, pytest.mark.java, pytest.mark.spark]

SCHEMA = Schema.of(
    NestedField(1, "id", LONG, True), NestedField(2, "name", STRING), NestedField(3, "score", DOUBLE), NestedField(4, "day", DATE)
)
BY_BUCKET = PartitionSpec(0, (PartitionField((1,), 1000, bucket(3), "id_bucket"),))
BY_DAY = PartitionSpec(0, (PartitionField((4,), 1000, IDENTITY, "day"),))
TYPES = {"id": pa.int64(), "name": pa.string(), "score": pa.float64()}


def rows(ids: range, name: str, **more: Any) -> pa.Table:
    types = pa.schema([*TYPES.items(), *((k, pa.string()) for k in more)])
    return pa.Table.from_pylist([{"id": i, "name": name, "score": i / 2, **more} for i in ids], types)


def job(lake: Lake, session: SparkSession, name: str, table: pa.Table, folder: Path, **parts: Any) -> None:
    path = folder / f"{name}-{len(list(folder.iterdir()))}.parquet"
    pq.write_table(table, path)
    io = {"uri": f"sqlite:///{Path(lake.table.location.removeprefix('file:')).parents[2]}/catalog.db"}
    config = CatalogConfig(name="lake", type="sql", properties=io)
    source = Source(format="parquet", paths=[str(path)])
    run(session, JobSpec(job=name, table=lake.sql_name, catalog=config, source=source, **parts))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("spec", [UNPARTITIONED, BY_BUCKET], ids=["unpartitioned", "by-bucket"])
def test_upserts_and_wider_appends(lake: Lake, session: SparkSession, tmp_path: Path, version: int, spec: PartitionSpec) -> None:
    lake.create(SCHEMA, spec, version=version)
    keys = {"upsert-keys": "id"}
    job(lake, session, "upsert", rows(range(20), "first"), tmp_path, options=keys)
    job(lake, session, "upsert", rows(range(10, 25), "second"), tmp_path, options=keys)
    more = {"delete-when": "op = 'D'", "source-only-columns": "op", **keys}
    job(lake, session, "upsert", rows(range(5), "gone", op="D"), tmp_path, options=more)
    lake.agree(20)
    job(lake, session, "append", rows(range(100, 103), "wide", note="x"), tmp_path, options={"merge-schema": "true"})
    lake.agree(23)
    assert len(lake.java.rows(f"SELECT * FROM {lake.sql_name} WHERE note = 'x'")) == 3


def test_imported_files_and_statistics(lake: Lake, tmp_path: Path) -> None:
    for n, day in enumerate(("2024-01-01", "2024-01-02", "__HIVE_DEFAULT_PARTITION__")):
        at = tmp_path / "old" / f"day={day}"
        at.mkdir(parents=True)
        pq.write_table(rows(range(n * 10, n * 10 + 10), f"n{n}"), at / "part-0.parquet")
    lake.create(SCHEMA, BY_DAY)
    lake.maintain("add_files", source_path=tmp_path / "old")
    lake.agree(30)
    day = lake.java.rows(f"SELECT id FROM {lake.sql_name} WHERE day = DATE '2024-01-02' AND name = 'n1'")
    assert sorted(day["id"].to_pylist()) == list(range(10, 20))
    assert lake.maintain("compute_table_stats").metrics["ndv.id"] == 30
    assert lake.maintain("compute_partition_stats").metrics["partitions-count"] == 3
    lake.agree(30)
    lake.java(f"INSERT INTO {lake.sql_name} VALUES (99, 'java', 1.0, DATE '2024-01-02')")
    lake.agree(31)
    lake.java(f"CALL lake.system.compute_partition_stats(table => '{lake.sql_name}')")
    assert lake.table.metadata.partition_statistics
    assert date(2024, 1, 2) in [r["day"] for r in lake.java.rows(f"SELECT day FROM {lake.sql_name}").to_pylist()]
