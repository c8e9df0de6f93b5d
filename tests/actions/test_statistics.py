"""Statistics agree with the table, are registered with their snapshot, and other engines accept the metadata."""

from __future__ import annotations

import io as bytes_io
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties, UpdateSpec
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import CommitFailedError, NoSuchSnapshotError, NoSuchTableError, SchemaError, ValidationError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.serde.puffins.puffin import read_footer
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.statistics import StatisticsFile
from iceberg_ops.spec.transforms import IDENTITY, VOID, Transform, bucket
from iceberg_ops.spec.types import BINARY, DATE, DOUBLE, INT, LONG, STRING, UNKNOWN, DecimalType, NestedField, StructType
from iceberg_ops.spec.updates import RemoveSnapshots, SetPartitionStatistics, SetStatistics, UpgradeFormatVersion
from iceberg_ops.table.table import Table
from tests.actions.lake import Lake, make_lake, numbered
from tests.builders import sql_catalog
from tests.catalog.wrappers import FailsNTimes, Meddles

SCHEMA = Schema.of(
    NestedField(1, "id", LONG, required=True),
    NestedField(2, "kind", STRING),
    NestedField(3, "score", DOUBLE),
    NestedField(4, "day", DATE),
    NestedField(5, "price", DecimalType(precision=9, scale=2)),
    NestedField(6, "point", StructType((NestedField(7, "x", INT),))),
    NestedField(8, "raw", BINARY),
)
BY_KIND = PartitionSpec(1, (PartitionField((2,), 1000, IDENTITY, "kind"),))


class Place:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.catalog = sql_catalog(folder)
        self.catalog.create_namespace(("db",))
        self.count = 0

    def create(self, spec: PartitionSpec = UNPARTITIONED, version: int = 2) -> None:
        self.catalog.create_table(("db", "t"), SCHEMA, spec=spec, properties={"format-version": str(version)})

    @property
    def table(self) -> Table:
        return self.catalog.load_table(("db", "t"))

    def append(self, first: int, rows: int) -> Table:
        table = self.table
        self.count += 1
        writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=f"op{self.count}")
        ids = range(first, first + rows)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "kind": pa.array([None if i % 3 == 2 else f"k{i % 3}" for i in ids], pa.string()),
            "score": pa.array([float(i % 7) for i in ids], pa.float64()),
            "day": pa.array([i % 11 for i in ids], pa.int32()).cast(pa.date32()),
            "price": pa.array([Decimal(i % 13) for i in ids], pa.decimal128(9, 2)),
            "raw": pa.array([bytes([1, i % 5]) for i in ids], pa.binary()),
        }
        writer.write(pa.RecordBatch.from_pydict(columns))
        return commit(self.catalog, table, AppendFiles(added=tuple(writer.close()))).table

    def delete(self, positions: list[int]) -> None:
        """The first rows of every file."""
        table = self.table
        self.count += 1
        context = WriteContext.for_table(table.metadata)
        tasks = plan(table, Scan()).tasks

        written = write_row_deletes(table.io, context, [(t, np.array(positions)) for t in tasks], operation_id=f"op{self.count}")
        commit(self.catalog, table, RowDelta(added_deletes=written.added, removed_deletes=written.replaced, isolation=None))

    def run(
        self, action: str, dry_run: bool = False, run_key: str | None = None, catalog: Any = None, **options: str
    ) -> ActionReport:
        named = {k.replace("_", "-"): v for k, v in options.items()}
        config = CatalogConfig(name="c", type="sql")
        job = JobSpec(job=action, table="c.db.t", catalog=config, options=named, dry_run=dry_run, run_key=run_key)
        return run_job(job, catalog=catalog or self.catalog)

    def partition_stats(self) -> list[dict[str, Any]]:
        (file,) = self.table.metadata.partition_statistics
        data = self.table.io.read(file.statistics_path)
        assert len(data) == file.file_size_in_bytes
        rows: list[dict[str, Any]] = pq.read_table(bytes_io.BytesIO(data)).to_pylist()
        return rows


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_distinct_values_are_counted_per_column_with_deletes_applied(place: Place) -> None:
    place.create()
    place.append(0, 1000)
    place.append(500, 1000)
    place.delete([0, 1])
    report = place.run("compute_table_stats", run_key="k")
    counts = {k.removeprefix("ndv."): v for k, v in report.metrics.items() if k.startswith("ndv.")}
    assert counts == {"id": 1498, "kind": 2, "score": 7, "day": 11, "price": 13, "raw": 5}
    assert report.metrics["rows-count"] == 1996
    (file,) = place.table.metadata.statistics
    head = place.table.metadata.branch_head("main")
    assert head is not None
    assert file.snapshot_id == head.snapshot_id
    data = place.table.io.read(file.statistics_path)
    footer = read_footer(bytes_io.BytesIO(data), "stats")
    assert (len(data), footer.size) == (file.file_size_in_bytes, file.file_footer_size_in_bytes)
    assert [(b.fields, b.properties["ndv"], b.sequence_number) for b in footer.blobs][:2] == [
        ((1,), "1498", head.sequence_number), ((2,), "2", head.sequence_number)
    ]  # fmt: skip
    assert place.run("compute_table_stats", run_key="k").status == "already-committed"


def test_only_the_columns_and_the_snapshot_asked_for_are_counted(place: Place) -> None:
    place.create()
    first = place.append(0, 10).metadata.branch_head("main")
    place.append(10, 10)
    assert first is not None
    report = place.run("compute_table_stats", columns="ID", snapshot_id=str(first.snapshot_id))
    assert (report.metrics["ndv.id"], report.metrics["columns-count"]) == (10, 1)
    assert [f.snapshot_id for f in place.table.metadata.statistics] == [first.snapshot_id]
    with pytest.raises(SchemaError, match="'point' of type"):
        place.run("compute_table_stats", columns="point")
    with pytest.raises(SchemaError, match="'nope' is not a column"):
        place.run("compute_table_stats", columns="nope")
    with pytest.raises(NoSuchSnapshotError):
        place.run("compute_table_stats", snapshot_id="42")


@pytest.mark.parametrize("action", ["compute_table_stats", "compute_partition_stats"])
def test_a_dry_run_and_an_empty_table_write_nothing(place: Place, action: str) -> None:
    place.create(BY_KIND)
    assert place.run(action).status == "nothing-to-do"
    place.append(0, 6)
    assert place.run(action, dry_run=True).status == "planned"
    assert place.table.metadata.statistics == place.table.metadata.partition_statistics == ()


@pytest.mark.parametrize("action", ["compute_table_stats", "compute_partition_stats"])
def test_what_a_snapshot_has_statistics_of_is_not_counted_again(place: Place, action: str) -> None:
    place.create(BY_KIND)
    place.append(0, 6)
    first = place.run(action)
    before = place.table
    for dry_run in (True, False):
        report = place.run(action, dry_run=dry_run)
        assert (report.status, [s.reason for s in report.skipped]) == (
            "nothing-to-do",
            ["it already holds these statistics of the snapshot"],
        )
        assert report.metrics == {k: v for k, v in first.metrics.items() if k != "rows-count"}
    assert place.table.metadata_location == before.metadata_location
    place.append(6, 6)
    assert place.run(action).status == "committed"


@pytest.mark.parametrize("action", ["compute_table_stats", "compute_partition_stats"])
def test_a_snapshot_that_another_engine_expires_at_the_last_moment_is_a_conflict_by_its_id(place: Place, action: str) -> None:
    """Another engine's expiry knows no lease."""
    place.create(BY_KIND)
    place.append(0, 6)
    first = place.table.metadata.snapshots[0].snapshot_id
    place.append(6, 6)

    def expire() -> None:
        place.catalog.commit_table(place.table, [], [RemoveSnapshots((first,))])

    with pytest.raises(ValidationError, match=f"statistics for snapshot {first}: it is not in table"):
        place.run(action, snapshot_id=str(first), catalog=Meddles(place.catalog, expire))
    assert place.table.metadata.statistics == place.table.metadata.partition_statistics == ()
    assert not [p for p in (Path(place.folder) / "warehouse").rglob("*stats*") if p.is_file()]


@pytest.mark.parametrize("change", ["cut short", "deleted", "in another store"])
@pytest.mark.parametrize("action", ["compute_table_stats", "compute_partition_stats"])
def test_statistics_whose_file_is_not_whole_are_made_again(place: Place, action: str, change: str) -> None:
    place.create(BY_KIND)
    place.append(0, 6)
    place.run(action)
    metadata = place.table.metadata
    stored = (*metadata.statistics, *metadata.partition_statistics)[0]
    path = Path(stored.statistics_path.removeprefix("file:"))
    if change == "cut short":
        path.write_bytes(path.read_bytes()[:-1])
    elif change == "deleted":
        path.unlink()
    else:
        elsewhere = replace(stored, statistics_path="s3://bucket/stats")
        set_ = SetStatistics(elsewhere) if isinstance(elsewhere, StatisticsFile) else SetPartitionStatistics(elsewhere)
        place.catalog.commit_table(place.table, [], [set_])
    assert place.run(action, dry_run=True).status == "planned"
    assert place.run(action).status == "committed"
    assert place.run(action).status == "nothing-to-do"


@pytest.mark.parametrize("kept", [0, 8], ids=["no Parquet", "a footer that does not decode"])
def test_a_partition_statistics_file_that_cannot_be_read_is_made_again(place: Place, kept: int) -> None:
    place.create(BY_KIND)
    place.append(0, 6)
    place.run("compute_partition_stats")
    (file,) = place.table.metadata.partition_statistics
    path = Path(file.statistics_path.removeprefix("file:"))
    size = file.file_size_in_bytes
    path.write_bytes(b"x" * (size - kept) + path.read_bytes()[size - kept :])
    assert place.run("compute_partition_stats").status == "committed"
    assert len(place.partition_stats()) == 3


def test_more_columns_than_the_statistics_have_are_counted(place: Place) -> None:
    place.create()
    place.append(0, 6)
    assert place.run("compute_table_stats", columns="id").status == "committed"
    assert place.run("compute_table_stats", columns="ID").status == "nothing-to-do"
    assert place.run("compute_table_stats").status == "committed"
    few = place.run("compute_table_stats", columns="kind")
    assert (few.status, few.metrics["ndv.kind"], len(place.table.metadata.statistics[0].blob_metadata)) == ("nothing-to-do", 2, 6)


@pytest.mark.parametrize("change", ["format version", "partition field"])
def test_partition_statistics_that_would_get_other_columns_now_are_made_again(place: Place, change: str) -> None:
    place.create(BY_KIND)
    place.append(0, 6)
    place.run("compute_partition_stats")
    if change == "format version":
        place.catalog.commit_table(place.table, [], [UpgradeFormatVersion(3)])
    else:
        spec = SpecEvolution.of_table(place.table.metadata).add_field("id", bucket(4)).apply()
        commit(place.catalog, place.table, UpdateSpec(spec=spec))
    assert place.run("compute_partition_stats").status == "committed"
    assert place.run("compute_partition_stats").status == "nothing-to-do"


@pytest.mark.parametrize("error", [CommitFailedError, NoSuchTableError])
@pytest.mark.parametrize("action", ["compute_table_stats", "compute_partition_stats"])
def test_statistics_that_could_not_be_committed_are_not_left_behind(place: Place, action: str, error: type[Exception]) -> None:
    place.create(BY_KIND)
    place.append(0, 6)
    commit(place.catalog, place.table, UpdateProperties(updates={"commit.retry.num-retries": "0"}))
    folder = Path(place.table.location.removeprefix("file:")) / "metadata"
    before = {p.name for p in folder.rglob("*") if p.is_file() and p.suffix != ".json"}
    with pytest.raises(error):
        place.run(action, catalog=FailsNTimes(place.catalog, 99, error))
    assert {p.name for p in folder.rglob("*") if p.is_file() and p.suffix != ".json"} == before


@pytest.mark.parametrize("version", [2, 3])
def test_partitions_are_counted_from_manifests(place: Place, version: int) -> None:
    """STAT-04, STAT-05, STAT-06"""
    place.create(BY_KIND, version)
    place.append(0, 30)
    place.append(30, 30)
    place.delete([0])
    head = place.table.metadata.branch_head("main")
    report = place.run("compute_partition_stats")
    assert (report.status, report.metrics["partitions-count"]) == ("committed", 3)
    rows = place.partition_stats()
    assert [r["partition"] for r in rows] == [{"kind": None}, {"kind": "k0"}, {"kind": "k1"}]
    assert head is not None
    for r in rows:
        assert (r["data_record_count"], r["data_file_count"], r["position_delete_record_count"]) == (20, 2, 2)
        assert r["total_record_count"] == (18 if version == 3 else None)
        assert r["position_delete_file_count"] == (0 if version == 3 else 2)
        assert r.get("dv_count") == (2 if version == 3 else None)
        assert (r["last_updated_snapshot_id"], r["last_updated_at"]) == (head.snapshot_id, head.timestamp_ms)


@pytest.mark.parametrize("transform", [IDENTITY, VOID], ids=str)
def test_partitions_by_columns_of_type_unknown_alone_are_nothing_to_count(place: Place, transform: Transform) -> None:
    """A Parquet file stores nothing of such a column, so none of the struct of partition values either."""
    by_unknown = PartitionField((2,), 1000, transform, "u")
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "u", UNKNOWN))
    for name, spec in (("alone", (by_unknown,)), ("beside", (by_unknown, PartitionField((1,), 1001, IDENTITY, "id")))):
        place.catalog.create_table(("db", name), schema, spec=PartitionSpec(0, spec), properties={"format-version": "3"})
        table = place.catalog.load_table(("db", name))
        writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=name)
        writer.write(pa.RecordBatch.from_pydict({"id": [1, 2], "u": [None, None]}))
        commit(place.catalog, table, AppendFiles(added=tuple(writer.close())))
    job = JobSpec(job="compute_partition_stats", table="c.db.alone", catalog=CatalogConfig(name="c", type="sql"))
    assert run_job(job, catalog=place.catalog).status == "nothing-to-do"
    beside = JobSpec(job="compute_partition_stats", table="c.db.beside", catalog=CatalogConfig(name="c", type="sql"))
    assert run_job(beside, catalog=place.catalog).metrics["partitions-count"] == 2


def test_equality_deletes_are_counted_and_leave_the_total_unknown(place: Place) -> None:
    place.create(BY_KIND)
    table = place.append(0, 6)
    context = WriteContext.for_table(table.metadata)
    rows = pa.RecordBatch.from_pydict({"id": pa.array([0], pa.int64())})
    files = write_equality_deletes(table.io, context, (1,), [rows], partition=("k0",), operation_id="eq")
    commit(place.catalog, table, RowDelta(added_deletes=tuple(files), isolation=None))
    place.run("compute_partition_stats")
    found = {r["partition"]["kind"]: (r["equality_delete_file_count"], r["total_record_count"]) for r in place.partition_stats()}
    assert found == {None: (0, 2), "k0": (1, None), "k1": (0, 2)}


def test_partitions_of_every_spec_share_one_type(place: Place) -> None:
    place.create(BY_KIND)
    table = place.append(0, 6)
    commit(place.catalog, table, UpdateSpec(spec=SpecEvolution.of_table(table.metadata).add_field("id", bucket(2)).apply()))
    place.append(6, 6)
    place.run("compute_partition_stats")
    rows = place.partition_stats()
    assert {tuple(r["partition"]) for r in rows} == {("kind", "id_bucket_2")}
    assert sum(r["data_record_count"] for r in rows) == 12
    assert {r["spec_id"] for r in rows} == {0, 1}


@pytest.mark.oracle
def test_pyiceberg_takes_the_metadata(place: Place) -> None:
    from pyiceberg.table import StaticTable

    place.create(BY_KIND)
    place.append(0, 30)
    place.run("compute_table_stats")
    place.run("compute_partition_stats")
    found = StaticTable.from_metadata(place.table.metadata_location)
    (file,) = found.metadata.statistics
    assert file.blob_metadata[0].type == "apache-datasketches-theta-v1"
    assert file.blob_metadata[0].properties == {"ndv": "30"}
    assert len(found.metadata.partition_statistics) == 1
    assert found.scan().to_arrow().num_rows == 30


@pytest.mark.parametrize("job", ["compute_table_stats", "compute_partition_stats"])
def test_the_snapshot_that_is_counted_does_not_expire_meanwhile(job: str) -> None:
    lake = make_lake(partitioned=True)
    for i in range(3):
        lake.append(numbered(10 * i, 3))
    oldest = lake.table.metadata.snapshots[0].snapshot_id
    real, expired = lake.catalog.commit_table, list[str]()

    def late(*args: Any) -> Any:
        if not expired:
            expired.append(lake.run("expire_snapshots", older_than="2100-01-01T00:00:00Z", retain_last=1).status)
        return real(*args)

    lake.catalog.commit_table = late  # type: ignore[method-assign]
    assert lake.run(job, snapshot_id=oldest).status == "committed"
    metadata = lake.table.metadata
    assert [s.snapshot_id for s in (*metadata.statistics, *metadata.partition_statistics)] == [oldest]
    assert not [p for p in lake.paths() if "/leases/" in p]


def total_of_each_partition(lake: Lake) -> list[int | None]:
    lake.run("compute_partition_stats")
    file = lake.table.metadata.partition_statistics[-1]
    return [r["total_record_count"] for r in pq.read_table(bytes_io.BytesIO(lake.table.io.read(file.statistics_path))).to_pylist()]


def test_the_total_is_null_where_a_vector_does_not_apply_to_exactly_one_file() -> None:
    lake = make_lake(version=3, partitioned=True)
    lake.append(numbered(1, 5, "a"))
    lake.append(numbered(11, 5, "b"))
    task = lake.tasks()[0]
    again = AppendFiles(added=(replace(task.data_file, first_row_id=None),), merge=False)
    commit(lake.catalog, lake.table, again)
    assert sorted(total_of_each_partition(lake)) == [5, 10], "without a vector it is exact"  # type: ignore[type-var]
    lake.delete_positions((task, [1]))
    assert len(lake.rows()) == 13
    totals = total_of_each_partition(lake)
    assert totals.count(None) == 1
    assert 5 in totals


def test_the_total_is_exact_where_each_vector_applies_to_one_file() -> None:
    lake = make_lake(version=3, partitioned=True)
    lake.append(numbered(1, 5, "a"), numbered(11, 5, "a"))
    lake.delete_positions((lake.tasks()[0], [1, 2]))
    assert total_of_each_partition(lake) == [8]
    assert len(lake.rows()) == 8
