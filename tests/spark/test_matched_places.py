"""The driver finds rows that are only deleted without a Python task, with the same result as tasks, or else uses tasks."""

from __future__ import annotations

import zlib

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from iceberg_ops.config.job_spec import RowChange
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.errors import WhereError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.metadata_columns import POS
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.jobs import row_change
from spark_jobs.runners import matched_places as matched
from spark_jobs.runners.matched_places import matched_places
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN, live_rows
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "city", STRING), NestedField(3, "note", STRING))
ODD = "pmod(id, 2) = 1"


def rows_from(first: int, count: int) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({"id": pa.array(ids, pa.int64()), "city": [f"c{i % 3}" for i in ids], "note": ["n"] * count})


@pytest.fixture
def filled(place: Place, version: str) -> Place:
    place.create("t", SCHEMA, **{"format__version": version})
    for first in (0, 10, 20):
        place.fill("t", rows_from(first, 10))
    return place


def left(place: Place) -> list[int]:
    return sorted(r["id"] for r in place.rows("t"))


def refused(*_: object, **__: object) -> None:
    raise AssertionError("a task was asked")


def test_a_delete_needs_no_python_task(filled: Place, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_change, "write_changes", refused)
    report = filled.run("delete", "t", where=ODD, change=RowChange(mode=mode))
    assert left(filled) == list(range(0, 30, 2))
    assert report.metrics["deleted-records"] == 15


def test_a_second_delete_finds_what_the_first_left(filled: Place) -> None:
    change = RowChange(mode="merge-on-read")
    filled.run("delete", "t", where=ODD, change=change)
    report = filled.run("delete", "t", where="pmod(id, 4) < 2", change=change)
    assert left(filled) == list(range(2, 30, 4))
    assert report.metrics["deleted-records"] == 8


def test_more_rows_than_the_driver_holds_are_found_by_tasks(filled: Place, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_change, "MOST_ROWS", 29)
    monkeypatch.setattr(row_change, "matched_places", refused)
    filled.run("delete", "t", where=ODD, change=RowChange(mode=mode))
    assert left(filled) == list(range(0, 30, 2))


def test_places_of_one_checksum_are_left_to_tasks(filled: Place, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class OneForAll:
        @staticmethod
        def crc32(_: bytes) -> int:
            return 7

    monkeypatch.setattr(matched, "zlib", OneForAll)
    filled.run("delete", "t", where=ODD, change=RowChange(mode=mode))
    assert left(filled) == list(range(0, 30, 2))


def test_places_are_told_by_the_same_checksum_in_spark_and_python(place: Place) -> None:
    names = ["0", "file:/a/b c/ü.parquet", "file:/" + "x" * 300]
    frame = place.session.createDataFrame([(n,) for n in names], "name string")
    assert [r[0] for r in frame.select(F.crc32(F.col("name").cast("binary"))).collect()] == [zlib.crc32(n.encode()) for n in names]


def test_no_row_at_all_is_no_place(filled: Place) -> None:
    table = filled.table("t")
    tasks = plan(table, Scan()).tasks
    context = ReadContext.for_table(table.metadata, columns=["id", POS])
    rows = live_rows(filled.session, tasks, context, table.io.properties).filter("id < 0")
    assert matched_places(rows.select(FILE_COLUMN, POSITION_COLUMN), ["0", "1", "2"], table.io, "nothing", lambda: True) == {}


@pytest.mark.parametrize(
    ("where", "columns"),
    [
        ("pmod(id, 2) = 1", ["id"]),
        ("length(target.city) > 1 or upper(NOTE) = 'N'", ["city", "note"]),
        ("rpad('a', 1, 'b') = 'a'", ["id"]),
        ("exists (select 1 from values (1) as v(x) where v.x = length(target.city))", ["city"]),
    ],
    ids=["one", "two", "none", "correlated subquery"],
)
def test_only_columns_that_the_condition_names_are_read(
    filled: Place, where: str, columns: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []

    def noting(session: object, tasks: object, context: ReadContext, properties: object) -> object:
        asked.append([f.name for f in context.data_fields])
        return live_rows(session, tasks, context, properties)  # type: ignore[arg-type]

    monkeypatch.setattr(row_change, "live_rows", noting)
    filled.run("delete", "t", where=where, change=RowChange(mode="merge-on-read"))
    assert asked == [columns]


def test_an_unknown_column_is_still_named(filled: Place) -> None:
    with pytest.raises(WhereError, match="colour"):
        filled.run("delete", "t", where="upper(colour) = 'RED'")
