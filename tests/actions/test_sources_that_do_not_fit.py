"""Sources of lane local with values of other types than the table's columns: refused, never silently converted."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.config.job_spec import MergeClause, Source
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.errors import DataError, SchemaError, UnsupportedError
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    FixedType,
    IcebergType,
    NestedField,
    StructType,
    list_of,
)
from tests.actions.rows_place import RowsPlace

MONEY, MORE_MONEY = DecimalType(precision=10, scale=2), DecimalType(precision=12, scale=2)
FROM_TABLE = Source(format="table", table="test.db.s")


def struct_of(*fields: tuple[str, IcebergType]) -> StructType:
    return StructType(tuple(NestedField(n, name, t) for n, (name, t) in enumerate(fields, 10)))


def one_column(type_: IcebergType) -> Schema:
    return Schema.of(NestedField(1, "id", LONG), NestedField(2, "c", type_))


@pytest.mark.parametrize(
    ("have", "want"),
    [
        (INT, MONEY),
        (LONG, TIMESTAMP),
        (INT, DATE),
        (BINARY, STRING),
        (DOUBLE, FLOAT),
        (LONG, INT),
        (TIMESTAMP, TIMESTAMPTZ),
        (TIMESTAMP_NS, TIMESTAMP),
        (DATE, TIMESTAMP),
        (UUID, FixedType(length=16)),
        (MORE_MONEY, MONEY),
        (struct_of(("a", LONG), ("b", INT)), struct_of(("b", INT))),
        (struct_of(("b", INT)), struct_of(("a", LONG), ("b", INT))),
        (list_of(10, LONG), list_of(10, TIMESTAMP)),
    ],
    ids=str,
)
def test_a_table_whose_column_is_of_another_type_is_refused(place: RowsPlace, have: IcebergType, want: IcebergType) -> None:
    place.create(one_column(have), name="s", format__version="3")
    place.create(one_column(want), format__version="3")
    for job in ("append", "overwrite"):
        with pytest.raises(UnsupportedError, match=r"source table test\.db\.s: column c is .*: run it with --lane spark"):
            place.run(job, source=FROM_TABLE)


@pytest.mark.parametrize(("have", "want"), [(UUID, FixedType(length=16)), (FixedType(length=16), UUID)], ids=str)
def test_a_table_s_uuid_is_no_fixed_in_any_operation(place: RowsPlace, have: IcebergType, want: IcebergType) -> None:
    place.create(one_column(have), name="s")
    stored = pa.schema({"id": pa.int64(), "c": pa.binary(16)})
    place.run("append", name="s", source=place.source([{"id": 1, "c": b"0123456789abcdef"}], stored))
    place.create(one_column(want))
    every = MergeClause(when="not-matched", action="insert")
    for run in (
        lambda: place.run("append", source=FROM_TABLE),
        lambda: place.run("upsert", source=FROM_TABLE, options={"upsert-keys": "id"}),
        lambda: place.merge("copy-on-write", FROM_TABLE, "target.id = source.id", every),
    ):
        with pytest.raises(UnsupportedError, match=r"column c .*: run it with --lane spark"):
            run()
    assert place.rows() == []


@pytest.mark.parametrize("rows", [[], [{"c": 1}]], ids=["no row", "a row"])
@pytest.mark.parametrize("job", ["append", "overwrite", "upsert"])
def test_a_source_without_a_required_column_is_of_another_schema(place: RowsPlace, job: str, rows: list[dict[str, int]]) -> None:
    place.create(Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "c", LONG)))
    place.create(Schema.of(NestedField(1, "c", LONG)), name="s")
    stored = place.source(rows, pa.schema({"c": pa.int64()}))
    place.run("append", name="s", source=stored)
    for source in (stored, FROM_TABLE):
        with pytest.raises(SchemaError, match="required column 'id' is not in the source"):
            place.run(job, source=source, options={"upsert-keys": "c"} if job == "upsert" else {})


def test_a_table_of_narrower_columns_and_structs_in_another_order_fits(place: RowsPlace) -> None:
    have = struct_of(("a", INT), ("d", MONEY))
    want = struct_of(("d", MORE_MONEY), ("a", LONG))
    place.create(one_column(have), name="s")
    row = {"id": 1, "c": {"a": 1, "d": Decimal("1.50")}}
    stored = pa.schema({"id": pa.int64(), "c": pa.struct({"a": pa.int32(), "d": pa.decimal128(10, 2)})})
    place.run("append", name="s", source=place.source([row], stored))
    place.create(one_column(want))
    place.run("append", source=FROM_TABLE)
    assert place.rows() == [row]


def test_an_older_snapshot_is_taken_with_the_columns_that_it_had(place: RowsPlace) -> None:
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "a", LONG)), name="s")
    place.run("append", name="s", source=place.source([{"id": 1, "a": 10}], pa.schema({"id": pa.int64(), "a": pa.int64()})))
    table = place.table("s")
    renamed = SchemaEvolution.of_table(table.metadata).rename_column("a", "b").apply()
    commit(place.catalog, table, UpdateSchema(schema=renamed))
    source = Source(format="table", table="test.db.s", snapshot_id=table.metadata.current_snapshot_id)
    for name, column in (("t", "a"), ("u", "b")):
        place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, column, LONG)), name=name)
    place.run("append", source=source)
    assert place.rows() == [{"id": 1, "a": 10}]
    with pytest.raises(SchemaError, match="column 'a' is not a column of the table"):
        place.run("append", name="u", source=source)


@pytest.mark.parametrize(
    ("given", "type_", "why"),
    [
        (pa.array([5]), MONEY, "c: the rows hold int64, which is not decimal"),
        (pa.array([5]), TIMESTAMP, "c: the rows hold int64, which is not timestamp"),
        (pa.array([5], pa.int32()), DATE, "c: the rows hold int32, which is not date"),
        (pa.array([5], pa.date32()), TIMESTAMP, "c: the rows hold date32"),
        (pa.array([[5]]), list_of(10, TIMESTAMP), "c.element: the rows hold int64"),
        (pa.array([{"a": 1, "b": 2}]), struct_of(("a", LONG)), "column 'c.b' is not in the table: its columns are c.a"),
    ],
)
def test_rows_of_another_kind_of_type_are_refused(given: pa.Array, type_: IcebergType, why: str) -> None:
    with pytest.raises(DataError, match=why):
        conform(pa.record_batch({"c": given}), Schema.of(NestedField(1, "c", type_)))


@pytest.mark.parametrize("target", ["folder", "nothing"])
def test_a_link_that_a_listing_passes_over_is_refused(place: RowsPlace, tmp_path: Path, target: str) -> None:
    source, elsewhere = tmp_path / "in", tmp_path / "elsewhere"
    source.mkdir()
    elsewhere.mkdir()
    for folder in (source, elsewhere):
        pq.write_table(pa.table({"id": [1]}), folder / "a.parquet")
    os.symlink(elsewhere if target == "folder" else tmp_path / "gone", source / "more")
    place.create(Schema.of(NestedField(1, "id", LONG)))
    with pytest.raises(UnsupportedError, match=r"in/more .*name its target as a path of the source"):
        place.run("append", source=Source(format="parquet", paths=[str(source)]))


def test_folders_of_the_table_outside_its_location_are_no_source(place: RowsPlace, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere" / "data"
    place.create(Schema.of(NestedField(1, "id", LONG)), write_data_path=str(elsewhere))
    place.run("append", source=place.source([{"id": 1}, {"id": 2}], pa.schema({"id": pa.int64()})))
    place.run("delete", where="id = 2")
    for path, how in ((elsewhere, "lies inside"), (elsewhere.parent, "holds")):
        with pytest.raises(DataError, match=f"{how} the table's own folder"):
            place.run("append", source=Source(format="parquet", paths=[str(path)]))
    assert place.rows() == [{"id": 1}]


def not_text(*values: bytes) -> pa.Array:
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("dictionary", [False, True])
def test_a_string_column_that_is_not_utf8_is_refused(place: RowsPlace, tmp_path: Path, nested: bool, dictionary: bool) -> None:
    """Also where the least and greatest value, which the footer has, are text."""
    texts = not_text(b"a", b"b\xff", b"c")
    column = pa.StructArray.from_arrays([texts], ["name"]) if nested else texts
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1, 2, 3], "c": column}), path, use_dictionary=dictionary)
    place.create(one_column(struct_of(("name", STRING)) if nested else STRING))
    before = place.data_on_disk()
    with pytest.raises(DataError, match=r"a\.parquet: column 'c' is a string, and holds bytes that are not UTF-8"):
        place.run("append", source=Source(format="parquet", paths=[str(path)]))
    assert place.data_on_disk() == before


@pytest.mark.parametrize("format_", ["parquet", "avro"])
def test_a_partition_value_too_long_for_a_folder_is_named(place: RowsPlace, format_: str) -> None:
    schema = Schema.of(NestedField(1, "s", STRING), NestedField(2, "k", STRING))
    fields = (PartitionField((2,), 1000, IDENTITY, "k"), PartitionField((1,), 1001, IDENTITY, "s_part"))
    place.create(schema, PartitionSpec(0, fields), write_format_default=format_)
    rows: list[dict[str, Any]] = [{"s": "x" * 300, "k": "k"}]
    source = place.source(rows, pa.schema({"s": pa.string(), "k": pa.string()}))
    with pytest.raises(
        DataError, match=r"column 's': the value 'x+'\.\.\. makes a folder name of 307 bytes for partition field 's_part'"
    ):
        place.run("append", source=source)
