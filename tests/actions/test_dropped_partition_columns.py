"""A dropped partition column: v1 keeps its field as void, and the table can still be written; ``_partition`` and statistics
distinguish the old field from another one with the same name or id (PART-04, PART-12, STAT-05, STAT-06)."""

from __future__ import annotations

import io as bytes_io
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.compute_partition_stats import checked_partition_union
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec, UpgradeFormatVersion
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task, scan_table
from iceberg_ops.data.writing.delete_files import write_equality_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import OptionError, SchemaError, UnsupportedError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.serde.json.metadata_json import metadata_from_json, metadata_to_json
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField, StructType
from iceberg_ops.table.table import Table
from tests.actions.rows_place import RowsPlace
from tests.data.files import new_io

SCHEMA = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "kind", STRING), NestedField(3, "region", STRING))
BY_REGION = PartitionSpec(0, (PartitionField((3,), 1000, IDENTITY, "region"),))
IDS = pa.schema([pa.field("id", pa.int64(), False), pa.field("kind", pa.string())])


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i, "kind": f"k{i}"} for i in ids]


def drop_region(place: RowsPlace) -> Table:
    """No longer partition by region, and drop the column."""
    spec = SpecEvolution.of_table(place.table().metadata).remove_field("region").apply()
    table = commit(place.catalog, place.table(), UpdateSpec(spec=spec)).table
    schema = SchemaEvolution.of_table(table.metadata).drop_column("region").apply()
    return commit(place.catalog, table, UpdateSchema(schema=schema)).table


def void_table(place: RowsPlace) -> Table:
    """A v1 table of three rows whose only partition field is the void that is left of a dropped column."""
    place.create(SCHEMA, BY_REGION, format__version="1")
    schema = pa.schema([*IDS, pa.field("region", pa.string())])
    place.run("append", source=place.source([{**r, "region": "eu"} for r in rows(1, 2, 3)], schema))
    table = drop_region(place)
    assert [str(f.transform) for f in table.metadata.spec.fields] == ["void"]
    return table


WRITES: dict[str, tuple[Callable[[RowsPlace], Any], set[int]]] = {
    "append": (lambda p: p.run("append", source=p.source(rows(4), IDS)), {1, 2, 3, 4}),
    "overwrite": (lambda p: p.run("overwrite", where="id > 0", source=p.source(rows(7), IDS)), {7}),
    "delete": (lambda p: p.run("delete", where="id = 2", change=RowChange(mode="copy-on-write")), {1, 3}),
    "update": (lambda p: p.update("copy-on-write", {"kind": "'x'"}, "id = 2"), {1, 2, 3}),
    "merge": (
        lambda p: p.merge(
            "copy-on-write", p.source(rows(3, 9), IDS), "target.id = source.id",
            MergeClause(when="matched", action="delete"), MergeClause(when="not-matched", action="insert"),
        ),
        {1, 2, 9},
    ),
    "rewrite": (lambda p: p.run("rewrite_data_files", options={"rewrite-all": "true"}), {1, 2, 3}),
    "sorting rewrite": (lambda p: p.run("rewrite_data_files", options={"sort-order": "kind", "rewrite-all": "true"}), {1, 2, 3}),
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_every_write_goes_on_after_a_void_fields_column_was_dropped(place: RowsPlace, write: str) -> None:
    void_table(place)
    do, wanted = WRITES[write]
    do(place)
    assert {r["id"] for r in place.rows()} == wanted
    head = place.table().metadata.default_spec_id
    assert {t.data_file.partition for t in plan(place.table(), Scan()).tasks if t.spec_id == head} <= {(None,)}


def test_an_upsert_needs_no_key_for_a_void_field(place: RowsPlace) -> None:
    """Also where its column is there and is not a key."""
    table = void_table(place)
    commit(place.catalog, table, UpgradeFormatVersion(format_version=2))
    place.run("upsert", source=place.source([{"id": 2, "kind": "new"}], IDS), options={"upsert-keys": "id"})
    assert {(r["id"], r["kind"]) for r in place.rows()} == {(1, "k1"), (2, "new"), (3, "k3")}


def test_files_are_imported_beside_a_void_field(place: RowsPlace) -> None:
    void_table(place)
    folder = place.folder / "files"
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows(8), IDS), folder / "a.parquet")
    place.run("add_files", options={"source-path": str(folder)})
    assert {r["id"] for r in place.rows()} == {1, 2, 3, 8}


def test_no_file_is_written_in_a_spec_whose_column_is_gone(place: RowsPlace) -> None:
    place.create(SCHEMA, BY_REGION)
    place.run("append", source=place.source(rows(1), IDS))
    table = drop_region(place)
    with pytest.raises(OptionError, match=r"output-spec-id 0: its field 'region' comes from a column that was dropped \(id 3\)"):
        place.run("rewrite_data_files", options={"output-spec-id": "0"})
    context = WriteContext.for_table(table.metadata, spec_id=0)
    writer = PartitionedWriter(context, table.io, operation_id="op")
    with pytest.raises(SchemaError, match="field 'region' comes from a column that was dropped"):
        writer.write(pa.RecordBatch.from_pylist(rows(1), IDS))


def replaced_region(place: RowsPlace, version: str) -> Table:
    """Partitioned by region, then by another column of that name."""
    place.create(SCHEMA, BY_REGION, format__version=version)
    with_region = pa.schema([*IDS, pa.field("region", pa.string())])
    place.run("append", source=place.source([{**r, "region": "old"} for r in rows(1, 2)], with_region))
    table = drop_region(place)
    schema = SchemaEvolution.of_table(table.metadata).add_column("region", STRING).apply()
    table = commit(place.catalog, table, UpdateSchema(schema=schema)).table
    table = commit(place.catalog, table, UpdateSpec(spec=SpecEvolution.of_table(table.metadata).add_field("region").apply())).table
    place.run("append", source=place.source([{**r, "region": "new"} for r in rows(3)], with_region))
    return place.table()


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_the_values_of_two_fields_of_one_name_stand_apart(place: RowsPlace, version: str) -> None:
    table = replaced_region(place, version)
    shown = {r["id"]: r["_partition"] for r in scan_table(table, Scan(), columns=["id", "_partition"]).to_pylist()}
    old, new = {"region_1000": "old", "region": None}, {"region_1000": None, "region": "new"}
    assert shown == {1: old, 2: old, 3: new}


def statistics(place: RowsPlace) -> list[dict[str, Any]]:
    place.run("compute_partition_stats")
    table = place.table()
    file = table.metadata.partition_statistics[-1]
    return pq.read_table(bytes_io.BytesIO(table.io.read(file.statistics_path))).to_pylist()


@pytest.mark.parametrize("version", ["1", "2", "3"])
def test_statistics_count_two_fields_of_one_name_apart(place: RowsPlace, version: str) -> None:
    replaced_region(place, version)
    found = [(r["partition"], r["data_record_count"]) for r in statistics(place)]
    assert found == [({"region_1000": None, "region": "new"}, 1), ({"region_1000": "old", "region": None}, 2)]


def test_partitions_of_two_specs_are_two_also_where_their_values_are_equal(place: RowsPlace) -> None:
    place.create(SCHEMA, BY_REGION)
    place.run("append", source=place.source(rows(1, 2), IDS))
    table = place.table()
    commit(place.catalog, table, UpdateSpec(spec=SpecEvolution.of_table(table.metadata).add_field("kind").apply()))
    place.run("append", source=place.source([{"id": 3, "kind": None}], IDS))
    assert [(r["spec_id"], r["data_record_count"]) for r in statistics(place)] == [(0, 2), (1, 1)]


def test_a_delete_that_applies_everywhere_leaves_no_total_exact(place: RowsPlace) -> None:
    place.create(SCHEMA, UNPARTITIONED)
    place.run("append", source=place.source(rows(1), IDS))
    table = place.table()
    commit(place.catalog, table, UpdateSpec(spec=SpecEvolution.of_table(table.metadata).add_field("kind").apply()))
    place.run("append", source=place.source(rows(2, 3), IDS))
    assert {r["total_record_count"] for r in statistics(place)} == {1}
    table = place.table()
    context = WriteContext.for_table(table.metadata, spec_id=0)
    ids = pa.RecordBatch.from_pydict({"id": pa.array([2], pa.int64())})
    deletes = write_equality_deletes(table.io, context, (1,), [ids], partition=(), operation_id="eq")
    commit(place.catalog, table, RowDelta(added_deletes=tuple(deletes), isolation=None))
    assert {r["total_record_count"] for r in statistics(place)} == {None}


def without_field_ids(table: Table) -> Table:
    """The table with v1 specs as old writers made them: without field ids, counted from 1000 in each."""
    document = json.loads(metadata_to_json(table.metadata))
    region = {"name": "region", "transform": "identity", "source-id": 3}
    spec = [{"name": "bucketed", "transform": "bucket[2]", "source-id": 1}, region]
    document["partition-specs"] = [{"spec-id": 0, "fields": [region]}, {"spec-id": 1, "fields": spec}]
    document["partition-spec"], document["default-spec-id"], document["last-partition-id"] = spec, 1, 1001
    return replace(table, metadata=metadata_from_json(json.dumps(document).encode(), "v1.metadata.json"))


def test_values_of_v1_fields_without_ids_are_never_taken_for_each_others(place: RowsPlace) -> None:
    """PART-04: a region of spec 0 and a bucket of spec 1 both have the id 1000."""
    place.create(SCHEMA, BY_REGION, format__version="1")
    with_region = pa.schema([*IDS, pa.field("region", pa.string())])
    place.run("append", source=place.source([{**r, "region": "eu"} for r in rows(1)], with_region))
    table = without_field_ids(place.table())
    shown = scan_table(table, Scan(), columns=["_partition"]).to_pylist()
    assert shown == [{"_partition": {"region_1000": "eu", "region": None, "bucketed": None}}]
    with pytest.raises(UnsupportedError, match=r"'region' \(identity\) and 'bucketed' \(bucket\[2\]\) share the field id 1000"):
        checked_partition_union(table.metadata)


def test_a_struct_that_its_dropped_partition_column_made_present_stays_so() -> None:
    """A file that lacks the struct: dropping one of its fields made it NULL, so that s IS NULL found rows that it did not."""
    before = Schema.of(
        NestedField(1, "id", LONG), NestedField(2, "s", StructType((NestedField(3, "a", LONG), NestedField(4, "b", LONG))))
    )
    after = Schema.of(NestedField(1, "id", LONG), NestedField(2, "s", StructType((NestedField(4, "b", LONG),))))
    spec = PartitionSpec(0, (PartitionField((3,), 1000, IDENTITY, "a"),))
    io, sink = new_io(), bytes_io.BytesIO()
    ids = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table({"id": [1]}, schema=ids), sink)
    io.write("memory://t/f.parquet", sink.getvalue())
    file = DataFile(
        file_path="memory://t/f.parquet", file_format=FileFormat.PARQUET, record_count=1, file_size_in_bytes=1, partition=(7,)
    )
    for schema, expected in ((before, {"a": 7, "b": None}), (after, {"b": None})):
        context = ReadContext(table_schema=schema, projected=schema, schemas=(before, after), specs={0: spec})
        found = [row for batch in read_task(FileScanTask(file, 1), context, io) for row in batch.to_pylist()]
        assert found == [{"id": 1, "s": expected}]
