"""Spark's own reader is used exactly for files of which it reads the same rows as ours."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.data.arrow.arrow_schema import arrow_schema
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
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
    UUID,
    DecimalType,
    NestedField,
)
from iceberg_ops.table.table import Table
from spark_jobs.runners.native_scan import native_paths
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN, live_rows, task_places
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

ID, NAME = NestedField(1, "id", LONG), NestedField(2, "name", STRING)
SCHEMA = Schema.of(ID, NAME)
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", None, "c"]})


def native(table: Table, columns: list[str] | None = None) -> list[bool]:
    tasks = plan(table, Scan()).tasks
    context = ReadContext.for_table(table.metadata, columns=[*(columns or [f.name for f in table.schema.fields]), POS])
    found = native_paths(tasks, context, table.io)
    return [i in found for i in range(len(tasks))]


def evolve(place: Place, table: Table, change: Callable[[SchemaEvolution], SchemaEvolution]) -> Table:
    evolution = change(SchemaEvolution(table.schema, table.metadata.last_column_id, format_version=table.metadata.format_version))
    return commit(place.catalog, table, UpdateSchema(schema=evolution.apply())).table


def add_file(place: Place, table: Table, rows: pa.Table, name: str, **options: Any) -> Table:
    """A Parquet file exactly as given, in the table."""
    path = Path(table.location.removeprefix("file://").removeprefix("file:")) / "data" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, **options)
    file = DataFile(
        content=FileContent.DATA,
        file_path=str(path),
        file_format=FileFormat.PARQUET,
        partition=(),
        record_count=rows.num_rows,
        file_size_in_bytes=path.stat().st_size,
    )
    return commit(place.catalog, table, AppendFiles(added=(file,))).table


def test_plain_files_are_spark_s(place: Place) -> None:
    place.create("t", SCHEMA)
    place.fill("t", ROWS)
    assert native(place.table("t")) == [True]


def test_files_with_deletes_are_not_spark_s(place: Place) -> None:
    place.create("t", SCHEMA)
    place.fill("t", ROWS)
    place.fill("t", ROWS)
    place.run("delete", "t", where="id = 2", change=RowChange(mode="merge-on-read"))
    place.fill("t", ROWS)
    assert sorted(native(place.table("t"))) == [False, False, True]


def test_a_missing_column_is_spark_s_where_it_is_null(place: Place) -> None:
    table = place.create("t", SCHEMA, **{"format__version": "3"})
    place.fill("t", ROWS)
    table = evolve(place, place.table("t"), lambda e: e.add_column("extra", INT))
    assert native(table) == [True]


def test_a_missing_column_with_a_default_is_not_spark_s(place: Place) -> None:
    place.create("t", SCHEMA, **{"format__version": "3"})
    place.fill("t", ROWS)
    table = evolve(place, place.table("t"), lambda e: e.add_column("extra", INT, default=5))
    assert native(table) == [False]
    assert native(table, ["id"]) == [True], "nobody asks for the column"


def test_a_widened_column_is_not_spark_s(place: Place) -> None:
    place.create("t", Schema.of(NestedField(1, "id", INT), NAME))
    place.fill("t", ROWS.set_column(0, "id", ROWS["id"].cast(pa.int32())))
    table = evolve(place, place.table("t"), lambda e: e.update_type("id", LONG))
    place.fill("t", ROWS)
    assert sorted(native(place.table("t"))) == [False, True]
    assert native(table, ["name"]) == [True]


def test_a_type_spark_shows_otherwise_is_not_spark_s(place: Place) -> None:
    place.create("t", Schema.of(ID, NestedField(2, "key", UUID)))
    place.append("t", pa.table({"id": [1], "key": ["00112233-4455-6677-8899-aabbccddeeff"]}))
    assert native(place.table("t")) == [False]


def with_ids(rows: pa.Table) -> pa.Table:
    return rows.cast(arrow_schema(SCHEMA))


@pytest.mark.parametrize(
    ("rows", "name", "options"),
    [
        (ROWS, "no-field-ids.parquet", {}),
        (with_ids(ROWS), "a b.parquet", {}),
        (with_ids(ROWS), "100%.parquet", {}),
        (with_ids(ROWS), "_hidden.parquet", {}),
    ],
    ids=["without field ids", "space in the path", "percent in the path", "hidden name"],
)
def test_files_that_spark_would_miss_or_misread_are_not_spark_s(
    place: Place, rows: pa.Table, name: str, options: dict[str, Any]
) -> None:
    table = add_file(place, place.create("t", SCHEMA), rows, name, **options)
    assert native(table) == [False]
    place.run("delete", "t", where="id = 1", change=RowChange(mode="merge-on-read"))
    assert [r["id"] for r in place.rows("t")] == [2, 3]


def test_int96_timestamps_are_not_spark_s(place: Place) -> None:
    schema = Schema.of(NestedField(1, "at", TIMESTAMP))
    rows = pa.table({"at": pa.array([dt.datetime(1900, 1, 1)], pa.timestamp("us"))}).cast(arrow_schema(schema))
    table = add_file(place, place.create("t", schema), rows, "old.parquet", use_deprecated_int96_timestamps=True)
    assert native(table) == [False]


@pytest.mark.parametrize(
    "notes", [{"org.apache.spark.version": "2.4.8"}, {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}]
)
def test_dates_that_spark_would_move_to_another_calendar_are_not_spark_s(place: Place, notes: dict[str, str]) -> None:
    schema = Schema.of(ID, NestedField(2, "day", DATE))
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "day": [dt.date(1500, 1, 1), dt.date(1, 1, 1)]}).cast(arrow_schema(schema))
    table = add_file(place, place.create("t", schema), rows.replace_schema_metadata(notes), "old.parquet")
    assert native(table) == [False]
    change = RowChange(mode="copy-on-write", set={"id": "id + 2"})
    place.run("update", "t", where="id = 1 AND day = DATE '1500-01-01'", change=change)
    assert place.rows("t") == [{"id": 2, "day": dt.date(1, 1, 1)}, {"id": 3, "day": dt.date(1500, 1, 1)}]


EVERY = Schema.of(
    NestedField(1, "flag", BOOLEAN),
    NestedField(2, "small", INT),
    NestedField(3, "id", LONG),
    NestedField(4, "ratio", FLOAT),
    NestedField(5, "value", DOUBLE),
    NestedField(6, "price", DecimalType(9, 2)),
    NestedField(7, "total", DecimalType(38, 3)),
    NestedField(8, "day", DATE),
    NestedField(9, "at", TIMESTAMP),
    NestedField(10, "seen", TIMESTAMPTZ),
    NestedField(11, "name", STRING),
    NestedField(12, "raw", BINARY),
)
EVERY_ROWS: list[dict[str, Any]] = [
    {
        "flag": True,
        "small": -(2**31),
        "id": 2**63 - 1,
        "ratio": math.nan,
        "value": -0.0,
        "price": Decimal("-12345.67"),
        "total": Decimal("99999999999999999999999999999999999.999"),
        "day": dt.date(1, 1, 1),
        "at": dt.datetime(1582, 10, 10, 1, 2, 3, 4),
        "seen": dt.datetime(1899, 12, 31, 23, 59, 59, 999999, dt.UTC),
        "name": "näive \U0001f600",
        "raw": b"\x00\xff",
    },
    dict.fromkeys([f.name for f in EVERY.fields]),
]


def test_spark_reads_every_exact_type_as_we_do(place: Place) -> None:
    rows = pa.Table.from_pylist(EVERY_ROWS, arrow_schema(EVERY))
    table = add_file(place, place.create("t", EVERY), rows, "every.parquet")
    context = ReadContext.for_table(table.metadata, columns=[*[f.name for f in EVERY.fields], POS])
    tasks = plan(table, Scan()).tasks
    assert list(native_paths(tasks, context, table.io)) == [0]
    found = live_rows(place.session, tasks, context, table.io.properties).toArrow()
    assert {task_places(tasks, table.io)[text] for text in found[FILE_COLUMN].to_pylist()} == {0}
    assert found[POSITION_COLUMN].to_pylist() == [0, 1]
    for name in (f.name for f in EVERY.fields):
        np.testing.assert_equal(found[name].to_pylist(), rows[name].to_pylist(), name)


def test_nan_matches_a_greater_than_although_statistics_leave_it_out(place: Place) -> None:
    schema = Schema.of(NestedField(1, "x", DOUBLE))
    rows = pa.table({"x": [1.0, 2.0, math.nan]}).cast(arrow_schema(schema))
    add_file(place, place.create("t", schema), rows, "nan.parquet")
    assert native(place.table("t")) == [True]
    report = place.run("delete", "t", where="x > 5", change=RowChange(mode="merge-on-read"))
    assert report.metrics["deleted-records"] == 1
    assert [r["x"] for r in place.rows("t")] == [1.0, 2.0]


def test_a_partition_folder_s_name_is_no_value(place: Place) -> None:
    """Spark would take ``name=x/`` in a path for the value of a column."""
    table = add_file(place, place.create("t", SCHEMA), with_ids(ROWS), "name=x/f.parquet")
    assert native(table) == [True]
    place.run("update", "t", where="name = 'c'", change=RowChange(mode="merge-on-read", set={"name": "concat(name, name)"}))
    assert [r["name"] for r in sorted(place.rows("t"), key=lambda r: r["id"])] == ["a", None, "cc"]


def test_both_readers_serve_one_merge(place: Place, mode: str) -> None:
    place.create("t", SCHEMA)
    place.fill("t", pa.table({"id": [1, 2, 3], "name": ["a", "b", "c"]}))
    place.run("delete", "t", where="id = 1", change=RowChange(mode="merge-on-read"))
    place.fill("t", pa.table({"id": [4, 5], "name": ["d", "e"]}))
    assert sorted(native(place.table("t"))) == [False, True]
    source = place.parquet(pa.table({"id": [1, 2, 5], "name": ["A", "B", "E"]}))
    clauses = [MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")]
    place.merge("t", source, "target.id = source.id", clauses, mode)
    assert [(r["id"], r["name"]) for r in sorted(place.rows("t"), key=lambda r: r["id"])] == [
        (1, "A"),
        (2, "B"),
        (3, "c"),
        (4, "d"),
        (5, "E"),
    ]


def test_a_footer_that_can_not_be_read_is_the_other_reader_s_to_name(place: Place) -> None:
    place.create("t", SCHEMA)
    place.fill("t", ROWS)
    table = place.table("t")
    Path(plan(table, Scan()).tasks[0].file_path.removeprefix("file://").removeprefix("file:")).write_bytes(b"PAR1 no footer")
    assert native(table) == [False]
