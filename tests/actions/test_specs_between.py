"""A partition spec that changes between planning and commit: no deleted row reappears, and no key is duplicated."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec import structs

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec
from iceberg_ops.config.job_spec import Source
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY, bucket, truncate
from tests.actions.lake import NOW, Lake, make_lake, numbered
from tests.builders import IDENTIFIER, make_table, sql_catalog
from tests.catalog.wrappers import Meddles

BUCKETS = PartitionSpec(1, (PartitionField((1,), 1001, bucket(2), "id_bucket"),))
PLAIN = PartitionSpec(1, ())


@pytest.mark.parametrize("spec", [BUCKETS, PLAIN], ids=["buckets", "unpartitioned"])
@pytest.mark.parametrize("options", [{}, {"partial-progress.enabled": "true"}, {"sort-order": "id"}], ids=str)
def test_an_equality_delete_of_the_old_spec_still_counts_after_a_compaction_into_a_new_one(
    spec: PartitionSpec, options: dict[str, str]
) -> None:
    lake = make_lake(partitioned=True)
    lake.append(numbered(0, 5, "eu"), numbered(10, 5, "eu"))
    commit(lake.catalog, lake.table, UpdateSpec(spec=spec))
    meddling = Meddles(lake.catalog, lambda: lake.delete_ids(1, 12, partition=("eu",)))
    report = lake.run("rewrite_data_files", catalog=meddling, rewrite_all=True, **options)
    assert report.status == "committed"
    assert [row[0] for row in lake.rows()] == [0, 2, 3, 4, 10, 11, 13, 14]
    assert {task.spec_id for task in lake.tasks()} == {1}


def test_an_equality_delete_of_the_same_spec_needs_no_second_rewrite() -> None:
    lake = make_lake(partitioned=True)
    lake.append(numbered(0, 5, "eu"), numbered(10, 5, "eu"))
    meddling = Meddles(lake.catalog, lambda: lake.delete_ids(1, 12, partition=("eu",)))
    report = lake.run("rewrite_data_files", catalog=meddling, rewrite_all=True)
    assert report.status == "committed"
    assert "re-planned" not in {group.status for group in report.groups}
    assert [row[0] for row in lake.rows()] == [0, 2, 3, 4, 10, 11, 13, 14]


def upsert_lake(tmp_path: Path) -> Lake:
    catalog = sql_catalog(tmp_path, name="test")
    catalog.create_namespace(("ns",))
    make_table(catalog)
    by_id = PartitionSpec(0, (PartitionField((1,), 1000, bucket(2), "id_bucket"),))
    commit(catalog, catalog.load_table(IDENTIFIER), UpdateSpec(spec=by_id))
    return Lake(catalog)


def upsert(lake: Lake, tmp_path: Path, catalog: Any = None, **more: Any) -> ActionReport:
    path = tmp_path / "changes.parquet"
    pq.write_table(pa.table({"id": [1, 2], "data": ["new", "new"], "region": ["eu", "eu"]}), path)
    job = structs.replace(lake.job("upsert", **{"upsert-keys": "id"}), source=Source(format="parquet", paths=[str(path)]), **more)
    return run_job(job, catalog=catalog or lake.catalog, now=lambda: NOW)


def keys(lake: Lake, branch: str = "main") -> list[int]:
    return [row[0] for row in lake.rows(Scan(ref=branch))]


TWO = PartitionSpec(2, (PartitionField((1,), 1001, truncate(10), "id_trunc"),))


def test_an_upsert_finds_rows_that_a_compaction_moved_into_a_new_spec_meanwhile(tmp_path: Path) -> None:
    lake = upsert_lake(tmp_path)
    lake.append(numbered(0, 5, "eu"))

    def evolve_and_compact() -> None:
        commit(lake.catalog, lake.table, UpdateSpec(spec=TWO))
        lake.run("rewrite_data_files", rewrite_all=True)

    report = upsert(lake, tmp_path, Meddles(lake.catalog, evolve_and_compact))
    assert (report.status, report.metrics["evaluations-count"]) == ("committed", 2)
    assert keys(lake) == [0, 1, 2, 3, 4]
    assert [row[1] for row in lake.rows()][1:3] == ["new", "new"]


def test_an_upsert_to_a_branch_that_is_yet_to_be_made_finds_the_rows_of_main(tmp_path: Path) -> None:
    lake = upsert_lake(tmp_path)
    lake.append(numbered(0, 5, "eu"))
    commit(lake.catalog, lake.table, UpdateSpec(spec=TWO))
    assert upsert(lake, tmp_path, branch="audit").status == "committed"
    assert (keys(lake, "audit"), keys(lake)) == ([0, 1, 2, 3, 4], [0, 1, 2, 3, 4])


def test_an_upsert_to_a_branch_that_is_yet_to_be_made_finds_what_comes_to_main_meanwhile(tmp_path: Path) -> None:
    lake = upsert_lake(tmp_path)
    commit(lake.catalog, lake.table, UpdateSpec(spec=TWO))

    def rows_of_the_old_spec() -> None:
        table = lake.table
        old = replace(table, metadata=replace(table.metadata, default_spec_id=1))
        writer = PartitionedWriter(WriteContext.for_table(old.metadata), table.io, operation_id="old")
        writer.write(pa.RecordBatch.from_pydict({"id": [1, 2], "data": ["old", "old"], "region": ["eu", "eu"]}))
        commit(lake.catalog, table, AppendFiles(added=tuple(writer.close())))

    report = upsert(lake, tmp_path, Meddles(lake.catalog, rows_of_the_old_spec), branch="audit")
    assert report.status == "committed"
    assert keys(lake, "audit") == [1, 2]


@pytest.mark.parametrize("version", [2, 3])
def test_a_schema_that_a_live_equality_delete_needs_is_not_cleaned(version: int) -> None:
    lake = make_lake(version=version)
    lake.append(numbered(0, 5))
    lake.delete_ids(1)
    fields = [f for f in lake.table.schema.fields if f.name != "id"]
    commit(lake.catalog, lake.table, UpdateSchema(schema=Schema.of(*fields)))
    lake.append([("x", "a")])  # type: ignore[list-item]
    before = sorted(map(str, scan_table(lake.table).to_pylist()))
    report = lake.run("expire_snapshots", older_than="0s", retain_last=1, clean_expired_metadata="true")
    assert report.status == "committed"
    assert sorted(map(str, scan_table(lake.table).to_pylist())) == before
    assert len(before) == 5
    assert any(1 in s.fields_by_id for s in lake.table.metadata.schemas)


def test_a_schema_that_a_partition_field_or_sort_order_needs_is_not_cleaned() -> None:
    lake = make_lake(partitioned=True)
    lake.append(numbered(0, 3, "eu"))
    commit(lake.catalog, lake.table, UpdateSpec(spec=PLAIN))
    fields = [f for f in lake.table.schema.fields if f.name != "region"]
    commit(lake.catalog, lake.table, UpdateSchema(schema=Schema.of(*fields)))
    lake.append([(7, "x")])  # type: ignore[list-item]
    lake.run("expire_snapshots", older_than="0s", retain_last=1, clean_expired_metadata="true")
    table = lake.table
    assert {s.spec_id for s in table.metadata.partition_specs} == {0, 1}, "files of the old spec are live"
    assert table.partition_type(0).fields[0].type == IDENTITY.result_type(table.metadata.all_fields_by_id[3].type)
    assert len(lake.rows()) == 4
