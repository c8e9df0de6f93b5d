"""Spark's own reader and ours read the same values, whatever the present and former names of a file's columns.

Tables are generated: columns are renamed, swapped, dropped, added under the names of others, and given wider types, and files are
written in between. The test compares both readers on the same files.
"""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.config.job_spec import RowChange
from iceberg_ops.data.arrow.arrow_schema import arrow_schema
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.metadata_columns import POS
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    DecimalType,
    NestedField,
    StructType,
)
from iceberg_ops.table.table import Table
from spark_jobs.runners import reading
from spark_jobs.runners.native_scan import native_paths
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN, live_rows, task_places
from tests.spark.conftest import Place
from tests.spark.test_native_scan import EVERY, EVERY_ROWS, add_file, native

pytestmark = pytest.mark.spark

NAMES = ("a", "B", "c", "Ä", "d")
D5, D9, D9_4, D18, D38 = DecimalType(5, 2), DecimalType(9, 2), DecimalType(9, 4), DecimalType(18, 6), DecimalType(38, 2)
VALUES: dict[Any, list[Any]] = {
    BOOLEAN: [True, False],
    INT: [5, -(2**31)],
    LONG: [7, 2**62],
    FLOAT: [1.5, -2.25],
    DOUBLE: [2.5, 1e300],
    D5: [Decimal("1.25"), Decimal("-999.99")],
    D9: [Decimal("3.75"), Decimal("-1234567.89")],
    D9_4: [Decimal("1.5000"), Decimal("-12345.6789")],
    D18: [Decimal("1.500000"), Decimal("-123456789012.345678")],
    D38: [Decimal("1.25"), Decimal("9" * 30 + ".99")],
    DATE: [dt.date(2020, 1, 1), dt.date(1969, 12, 31)],
    TIMESTAMP: [dt.datetime(2020, 1, 1, 2, 3, 4, 5), dt.datetime(1969, 1, 1)],
    TIMESTAMPTZ: [dt.datetime(2021, 1, 1, 2, 3, 4, 5, dt.UTC), dt.datetime(1960, 1, 1, tzinfo=dt.UTC)],
    STRING: ["x", "some longer text"],
    BINARY: [b"\x00\x01", b"some longer bytes"],
}
WIDER = {INT: LONG, FLOAT: DOUBLE, D5: D9, D9: D38}


def evolve(place: Place, name: str, *changes: tuple[str, ...]) -> Table:
    """The table after ``changes``, each a schema change of its own: ("rename_column", "a", "b")."""
    for change, *given in changes:
        table = place.table(name)
        evolution = getattr(SchemaEvolution.of_table(table.metadata), change)(*given)
        commit(place.catalog, table, UpdateSchema(schema=evolution.apply()))
    return place.table(name)


def rows_of(schema: Schema, draw: random.Random) -> pa.Table:
    rows = [{f.name: draw.choice([None, *VALUES[f.type]]) for f in schema.fields if f.name != "id"} for _ in range(3)]
    return pa.Table.from_pylist([{"id": i, **row} for i, row in enumerate(rows)], arrow_schema(schema))


def drawn_changes(schema: Schema, draw: random.Random) -> list[tuple[Any, ...]]:
    """One change, or the three that swap two names."""
    named = {f.name: f for f in schema.fields if f.name != "id"}
    free = [n for n in (*NAMES, *(n.swapcase() for n in NAMES)) if n.lower() not in {m.lower() for m in named}]
    change = draw.choice(["rename", "rename", "swap", "add", "add", "widen", "drop"])
    if change == "add" and free:
        return [("add_column", draw.choice(free), draw.choice(list(VALUES)))]
    one = draw.choice(list(named))
    if change == "swap" and len(named) > 1:
        other = draw.choice([n for n in named if n != one])
        return [("rename_column", one, "x"), ("rename_column", other, one), ("rename_column", "x", other)]
    if change == "widen" and named[one].type in WIDER:
        return [("update_type", one, WIDER[named[one].type])]
    if change == "drop" and len(named) > 1:
        return [("drop_column", one)]
    return [("rename_column", one, draw.choice(free))] if free else []


def drawn_table(place: Place, name: str, draw: random.Random) -> Table:
    names = draw.sample(NAMES, draw.randint(2, 4))
    fields = [NestedField(i + 2, n, draw.choice(list(VALUES))) for i, n in enumerate(names)]
    table = place.create(name, Schema.of(NestedField(1, "id", LONG), *fields))
    for i in range(draw.randint(2, 4)):
        table = add_file(place, table, rows_of(table.schema, draw), f"{i}.parquet", store_decimal_as_integer=draw.random() < 0.5)
        for _ in range(draw.randint(1, 3)):
            table = evolve(place, name, *drawn_changes(table.schema, draw))
    return table


def values(place: Place, table: Table, columns: list[str]) -> list[tuple[Any, ...]]:
    tasks = plan(table, Scan()).tasks
    context = ReadContext.for_table(table.metadata, columns=[*columns, POS])
    places = task_places(tasks, table.io)
    found = live_rows(place.session, tasks, context, table.io.properties).toArrow()
    rows = zip(*[found[n].to_pylist() for n in (FILE_COLUMN, POSITION_COLUMN, *columns)], strict=True)
    return sorted(((places[file], position, *row) for file, position, *row in rows), key=lambda row: row[:2])


def by_arrow(place: Place, table: Table, columns: list[str]) -> list[tuple[Any, ...]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "native_paths", lambda *_: {})
        return values(place, table, columns)


def natively_read(table: Table, columns: list[str]) -> int:
    context = ReadContext.for_table(table.metadata, columns=[*columns, POS])
    return len(native_paths(plan(table, Scan()).tasks, context, table.io))


def test_whatever_columns_were_called_both_readers_give_the_same_values(place: Place) -> None:
    files = 0
    for seed in range(40):
        draw = random.Random(seed)
        table = drawn_table(place, f"t{seed}", draw)
        names = [f.name for f in table.schema.fields]
        columns = draw.sample(names, draw.randint(1, len(names)))
        files += natively_read(table, columns)
        assert values(place, table, columns) == by_arrow(place, table, columns), (seed, columns)
    assert files > 40, "Spark's reader is compared with ours"


SWAP = (("rename_column", "a", "x"), ("rename_column", "b", "a"), ("rename_column", "x", "b"))
CHAIN = (("rename_column", "b", "c"), ("rename_column", "a", "b"))
UNDER_OLD = (("rename_column", "a", "old"), ("add_column", "a", D9_4))
IN_ANOTHER_CASE = (("rename_column", "a", "old"), ("add_column", "A", D9_4))


@pytest.mark.parametrize(
    "evolution", [SWAP, CHAIN, UNDER_OLD, IN_ANOTHER_CASE], ids=["swap", "chain", "new", "new in another case"]
)
@pytest.mark.parametrize(("a", "b"), [(D5, D9_4), (D18, D5), (LONG, STRING), (INT, LONG), (DOUBLE, FLOAT), (TIMESTAMP, DATE)])
def test_an_update_keeps_the_values_of_columns_that_took_other_names(
    place: Place, evolution: tuple[tuple[str, ...], ...], a: Any, b: Any, mode: str
) -> None:
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "a", a), NestedField(3, "b", b))
    rows = pa.Table.from_pylist([{"id": i, "a": VALUES[a][i], "b": VALUES[b][i]} for i in (0, 1)], arrow_schema(schema))
    add_file(place, place.create("t", schema), rows, "f.parquet")
    table = evolve(place, "t", *evolution)
    assert native(table) == [True]
    before = [{**row, "id": row["id"] + 100} for row in place.rows("t")]
    place.run("update", "t", where="hash(id) is not null", change=RowChange(mode=mode, set={"id": "id + 100"}))  # type: ignore[arg-type]
    assert place.rows("t") == before


def test_a_delete_finds_the_rows_of_a_column_whose_old_name_another_took(place: Place, mode: str) -> None:
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "price", D5))
    rows = pa.Table.from_pylist([{"id": i, "price": Decimal(f"{i}.25")} for i in range(3)], arrow_schema(schema))
    add_file(place, place.create("t", schema), rows, "f.parquet")
    evolve(place, "t", ("rename_column", "price", "old_price"), ("add_column", "price", D9_4))
    where = "abs(old_price) >= 2 and coalesce(price, null) is null"
    place.run("delete", "t", where=where, change=RowChange(mode=mode))  # type: ignore[arg-type]
    assert [(r["id"], r["old_price"]) for r in place.rows("t")] == [(0, Decimal("0.25")), (1, Decimal("1.25"))]


def test_fields_of_structs_that_swapped_their_names_keep_their_values(place: Place, mode: str) -> None:
    """What is nested is never Spark's to read."""
    inner = StructType((NestedField(3, "a", D5), NestedField(4, "b", D9_4)))
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "s", inner))
    rows = [{"id": 1, "s": {"a": Decimal("1.25"), "b": Decimal("2.5000")}}]
    add_file(place, place.create("t", schema), pa.Table.from_pylist(rows, arrow_schema(schema)), "f.parquet")
    changes = (("rename_column", "s.a", "x"), ("rename_column", "s.b", "a"), ("rename_column", "s.x", "b"))
    assert native(evolve(place, "t", *changes)) == [False]
    place.run("update", "t", where="hash(s.a) is not null", change=RowChange(mode=mode, set={"id": "id + 1"}))  # type: ignore[arg-type]
    assert place.rows("t") == [{"id": 2, "s": {"b": Decimal("1.25"), "a": Decimal("2.5000")}}]


@pytest.mark.parametrize("names", [("a", "A"), ("_iceberg_ops_2", "b"), ("s.x", "b")], ids=["case", "ours", "path of a field"])
def test_a_file_whose_names_could_be_taken_for_others_is_not_spark_s(place: Place, names: tuple[str, str]) -> None:
    """Only the ids are the table's: the names are whatever the writer gave."""
    inner = StructType((NestedField(5, "x", LONG),))
    schema = Schema.of(*[NestedField(i + 1, n, LONG) for i, n in enumerate(("id", "a", "b"))], NestedField(4, "s", inner))
    rows = pa.Table.from_pylist([{"id": 1, "a": 2, "b": 3, "s": {"x": 4}}], arrow_schema(schema))
    fields = [f.with_name({"a": names[0], "b": names[1]}.get(f.name, f.name)) for f in rows.schema]
    table = add_file(place, place.create("t", schema), pa.Table.from_arrays(rows.columns, schema=pa.schema(fields)), "f.parquet")
    assert native(table, ["id", "a", "b"]) == [False]
    assert values(place, table, ["id", "a", "b"]) == [(0, 0, 1, 2, 3)]


CODECS = {"none": True, "snappy": True, "gzip": True, "zstd": True, "lz4": False, "brotli": False}


@pytest.mark.parametrize("page_version", ["1.0", "2.0"])
def test_codecs_that_spark_does_not_read_are_ours(place: Place, page_version: str) -> None:
    rows = pa.Table.from_pylist(EVERY_ROWS * 100, arrow_schema(EVERY))
    table = place.create("t", EVERY)
    for codec in CODECS:
        table = add_file(place, table, rows, f"{codec}.parquet", compression=codec, data_page_version=page_version)
    files = [Path(task.file_path).stem for task in plan(table, Scan()).tasks]
    assert dict(zip(files, native(table), strict=True)) == CODECS
    columns = [f.name for f in EVERY.fields if f.name != "ratio"]  # NaN equals nothing
    assert values(place, table, columns) == by_arrow(place, table, columns)


ENCODINGS = {
    "flag": {"PLAIN": True, "RLE": True},
    "small": {"PLAIN": True, "DELTA_BINARY_PACKED": True, "BYTE_STREAM_SPLIT": False},
    "id": {"PLAIN": True, "DELTA_BINARY_PACKED": True, "BYTE_STREAM_SPLIT": False},
    "value": {"PLAIN": True, "BYTE_STREAM_SPLIT": False},
    "price": {"PLAIN": True, "DELTA_BYTE_ARRAY": False, "BYTE_STREAM_SPLIT": False},
    "at": {"PLAIN": True, "DELTA_BINARY_PACKED": True, "BYTE_STREAM_SPLIT": False},
    "name": {"PLAIN": True, "DELTA_LENGTH_BYTE_ARRAY": True, "DELTA_BYTE_ARRAY": True},
    "raw": {"PLAIN": True, "DELTA_LENGTH_BYTE_ARRAY": True, "DELTA_BYTE_ARRAY": True},
}


def test_encodings_that_spark_does_not_read_are_ours(place: Place) -> None:
    rows = pa.Table.from_pylist(EVERY_ROWS * 50, arrow_schema(EVERY))
    table, wanted = place.create("t", EVERY), {}
    for column, encodings in ENCODINGS.items():
        for encoding, is_spark_s in encodings.items():
            wanted[f"{column}-{encoding}"] = is_spark_s
            table = add_file(
                place, table, rows, f"{column}-{encoding}.parquet", use_dictionary=False, column_encoding={column: encoding}
            )
    files = [Path(task.file_path).stem for task in plan(table, Scan()).tasks]
    assert dict(zip(files, native(table), strict=True)) == wanted
    columns = [f.name for f in EVERY.fields if f.name != "ratio"]
    assert values(place, table, columns) == by_arrow(place, table, columns)
    assert all(native(table, ["day"])), "what nobody asks for may be in any encoding"


def test_an_update_of_a_file_in_an_encoding_of_another_writer_is_committed(place: Place, mode: str) -> None:
    schema = Schema.of(NestedField(1, "k", LONG), NestedField(2, "d", DOUBLE))
    rows = pa.table({"k": [1, 2, 3], "d": [0.5, 1.0, 1.5]}).cast(arrow_schema(schema))
    options = {"use_dictionary": False, "column_encoding": {"d": "BYTE_STREAM_SPLIT"}}
    add_file(place, place.create("t", schema), rows, "f.parquet", **options)
    change = RowChange(mode=mode, set={"k": "-k"})  # type: ignore[arg-type]
    place.run("update", "t", where="k % 3 = 0 and d >= 0", change=change)
    assert [r["k"] for r in place.rows("t")] == [-3, 1, 2]
