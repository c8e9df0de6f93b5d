"""Update on lane local: the right rows get the right values, in every mode and format, and ambiguous cases are refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.data.writing.parquet_writer import ParquetFileWriter
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import DataError, IcebergOpsError, OptionError, SchemaError, UnsupportedError, WhereError
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
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
    UUID,
    DecimalType,
    NestedField,
    StructType,
)
from iceberg_ops.table.manifests import entries_of, manifests_of
from tests.actions.rows_place import RowsPlace

SCHEMA = Schema.of(
    NestedField(1, "id", LONG, required=True),
    NestedField(2, "city", STRING),
    NestedField(3, "was", STRING),
    NestedField(4, "n", INT),
)
BY_CITY = PartitionSpec(1, (PartitionField((2,), 1000, IDENTITY, "city"),))
ROWS = pa.schema({"id": pa.int64(), "city": pa.string(), "was": pa.string(), "n": pa.int32()})
LINEAGE = ["id", "city", "_row_id", "_last_updated_sequence_number"]
WAYS = [("1", "copy-on-write", "file"), ("2", "copy-on-write", "file"), ("3", "copy-on-write", "file"),
        ("2", "merge-on-read", "file"), ("2", "merge-on-read", "partition"), ("3", "merge-on-read", "file")]  # fmt: skip


def fill(place: RowsPlace, first: int, count: int, city: str | None = "Rome") -> None:
    rows = [{"id": i, "city": city, "was": f"w{i}", "n": i % 3 or None} for i in range(first, first + count)]
    place.run("append", source=place.source(rows, ROWS))


def by_id(place: RowsPlace) -> dict[int, tuple[Any, ...]]:
    return {r["id"]: (r["city"], r["was"], r["n"]) for r in place.rows()}


@pytest.mark.parametrize("spec", [UNPARTITIONED, BY_CITY], ids=["whole", "by city"])
@pytest.mark.parametrize(("version", "mode", "granularity"), WAYS, ids=[" ".join(way) for way in WAYS])
def test_matching_rows_change_and_others_stay(
    place: RowsPlace, version: str, mode: str, granularity: str, spec: PartitionSpec
) -> None:
    place.create(SCHEMA, spec, format__version=version)
    for first, city in ((0, "Rome"), (10, "Oslo"), (20, None)):
        fill(place, first, 10, city)
    expected = by_id(place)
    more: dict[str, Any] = {"options": {"delete-granularity": granularity}}
    for where, changes, change in (
        ("n = 1 AND city IS NOT NULL", {"CITY": "was", "was": "target.city"}, lambda c, w, n: (w, c, n) if n == 1 and c else None),
        ("city = 'Rome' OR target.id > 27", {"n": "7L"}, lambda c, w, n: (c, w, 7) if c == "Rome" or w > "w27" else None),
        (None, {"was": "NULL"}, lambda c, w, n: (c, None, n)),
        ("n IS NULL AND id >= 100", {"n": "1"}, lambda c, w, n: None),
    ):
        wanted: Callable[..., Any] = change
        changed = {i: new for i, row in expected.items() if (new := wanted(*row)) is not None}
        report = place.update(mode, changes, where, **more)
        assert report.metrics["deleted-records"] == report.metrics["added-records"] == len(changed)
        assert report.status == ("committed" if changed else "nothing-to-do")
        expected |= changed
        assert by_id(place) == expected


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_changed_rows_keep_their_ids_and_are_of_the_new_snapshot(place: RowsPlace, mode: str) -> None:
    place.create(SCHEMA, format__version="3")
    for first in (0, 10):
        fill(place, first, 10)
    for where in ("id IN (3, 14)", "id IN (3, 4)"):
        before = {r["id"]: tuple(r.values())[1:] for r in place.rows(columns=LINEAGE)}
        place.update(mode, {"city": f"'{where[-2]}'"}, where)
        number = place.table().metadata.last_sequence_number
        gone = {3, 14} if "14" in where else {3, 4}
        assert {r["id"]: tuple(r.values())[1:] for r in place.rows(columns=LINEAGE)} == {
            i: (where[-2], r, number) if i in gone else (c, r, s) for i, (c, r, s) in before.items()
        }


@pytest.mark.parametrize(("granularity", "files"), [("file", 2), ("partition", 1)])
def test_position_deletes_are_for_a_file_or_a_partition(place: RowsPlace, granularity: str, files: int) -> None:
    place.create(SCHEMA)
    for first in (0, 10):
        fill(place, first, 10)
    report = place.update("merge-on-read", {"n": "9"}, "id IN (3, 14)", options={"delete-granularity": granularity})
    assert report.metrics["added-delete-files"] == files


def test_deletes_that_were_there_stay_and_vectors_are_merged(place: RowsPlace) -> None:
    place.create(SCHEMA, format__version="3")
    fill(place, 0, 10)
    place.run("delete", where="id < 3", change=None)
    place.update("merge-on-read", {"n": "9"}, "id < 5")
    place.update("merge-on-read", {"n": "8"}, "id = 7")
    assert {i: n for i, (_, _, n) in by_id(place).items()} == {3: 9, 4: 9, 5: 2, 6: None, 7: 8, 8: 2, 9: None}
    table = place.table()
    head = table.metadata.branch_head("main")
    assert head is not None
    found = [e.data_file for m in manifests_of(table, head) for e in entries_of(table, m) if e.status.name != "DELETED"]
    assert len({f.referenced_data_file for f in found if f.content is FileContent.POSITION_DELETES}) == 1


def test_values_and_conditions_are_computed_from_rows(place: RowsPlace) -> None:
    place.create(SCHEMA, format__version="2")
    fill(place, 0, 6)
    before = by_id(place)
    for mode in ("copy-on-write", "merge-on-read"):
        place.update(mode, {"n": "coalesce(n, 0) + CAST(id AS INT)"}, "id % 2 = 1 AND 10 / id > 2")
    added = {1: 2, 3: 6}
    assert {i: n for i, (_, _, n) in by_id(place).items()} == {
        i: (n or 0) + added[i] if i in added else n for i, (_, _, n) in before.items()
    }
    with pytest.raises(DataError, match=r"10 div id AS INT\): division by zero"):
        place.update("merge-on-read", {"n": "CAST(10 div id AS INT)"})


MANY = Schema.of(
    NestedField(1, "b", BOOLEAN), NestedField(2, "i", INT), NestedField(3, "l", LONG), NestedField(4, "f", FLOAT),
    NestedField(5, "d", DOUBLE), NestedField(6, "x", DecimalType(precision=5, scale=2)), NestedField(7, "s", STRING),
    NestedField(8, "day", DATE), NestedField(9, "at", TIMESTAMP), NestedField(10, "raw", BINARY), NestedField(11, "u", UUID),
    NestedField(12, "st", StructType((NestedField(13, "a", INT),))), NestedField(14, "must", INT, required=True),
)  # fmt: skip


@pytest.mark.parametrize(
    ("column", "sql", "value"),
    [
        ("b", "false", False),
        ("i", "-2147483648", -2147483648),
        ("i", "7L", 7),
        ("l", "12", 12),
        ("f", "0.1", 0.10000000149011612),
        ("f", "16777217", 16777216.0),
        ("d", "-0.0", 0.0),
        ("d", "1e300", 1e300),
        ("d", "9007199254740993L", 9007199254740992.0),
        ("x", "1.005", Decimal("1.01")),
        ("x", "-1.005", Decimal("-1.01")),
        ("x", "3", Decimal("3.00")),
        ("s", "'it''s'", "it's"),
        ("s", "17", "17"),
        ("s", "true", "true"),
        ("day", "DATE '2024-02-29'", date(2024, 2, 29)),
        ("raw", "X'00ff'", b"\x00\xff"),
        ("u", "NULL", None),
        ("st", "NULL", None),
        ("l", "l", 5),
        ("i", "must", 1),
    ],
)
def test_a_value_is_stored_as_the_column_s_type(place: RowsPlace, column: str, sql: str, value: Any) -> None:
    place.create(MANY)
    place.run("append", source=place.source([{"l": 5, "must": 1}], pa.schema({"l": pa.int64(), "must": pa.int32()})))
    place.update("merge-on-read", {column: sql})
    (row,) = place.rows()
    assert row[column] == value
    assert str(row[column]) == str(value)  # no negative zero


@pytest.mark.parametrize(
    ("changes", "where", "error", "says"),
    [
        ({}, None, OptionError, "at least one SET"),
        ({"nope": "1"}, None, OptionError, "SET 'nope' is not a column"),
        ({"i": "1", "I": "2"}, None, OptionError, "SET assigns 'i' twice"),
        ({"i": "nope"}, None, WhereError, "'nope' is not a column"),
        ({"i": "1"}, "nope = 1", WhereError, "nope"),
        ({"i": "2147483648"}, None, DataError, "column 'i': 2147483648 does not fit int"),
        ({"x": "1000"}, None, DataError, r"column 'x': 1000 does not fit decimal\(5, 2\)"),
        (
            {"must": "NULL"},
            None,
            DataError,
            "column 'must' is required, but the row at position 0 of .*parquet would have no value",
        ),
        ({"i": "1.5"}, None, SchemaError, "cannot be stored as int without an explicit cast"),
        ({"i": "'1'"}, None, SchemaError, "string cannot be stored as int"),
        ({"i": "hash(s)"}, None, UnsupportedError, r"SET i = hash\(s\) \(function hash\): run it with --lane spark; without Spark"),
        ({"i": "rand()"}, None, UnsupportedError, "function rand"),
        ({"s": "l"}, None, UnsupportedError, r"SET s = l \(long in a column of type string\)"),
        ({"i": "upper(nosuch)"}, None, WhereError, "no column named 'nosuch'"),
        ({"st.a": "1"}, None, UnsupportedError, "a field of a struct,: run it with --lane spark$"),
        ({"s": "1.50"}, None, UnsupportedError, "--lane spark$"),
        ({"s": "CAST('abc' AS VARCHAR(2))"}, None, UnsupportedError, "CHAR and VARCHAR"),
        ({"x": "0.1D"}, None, UnsupportedError, "--lane spark$"),
        ({"u": "'00000000-0000-0000-0000-000000000000'"}, None, UnsupportedError, "--lane spark$"),
        ({"at": "DATE '2024-02-29'"}, None, UnsupportedError, "--lane spark$"),
        ({"f": "1.00000005960464477540"}, None, UnsupportedError, "--lane spark$"),
        ({"i": "1"}, "hash(i) = 2", UnsupportedError, r"update where hash\(i\) = 2 \(function hash\)"),
        ({"i": "1"}, "i IN (SELECT 1)", UnsupportedError, "without Spark: update where i IN"),
    ],
)
def test_what_can_not_be_is_refused_and_leaves_nothing(
    place: RowsPlace, changes: dict[str, str], where: str | None, error: type[IcebergOpsError], says: str
) -> None:
    place.create(MANY)
    place.run("append", source=place.source([{"must": 1}], pa.schema({"must": pa.int32()})))
    before = place.data_on_disk()
    for mode in ("copy-on-write", "merge-on-read"):
        with pytest.raises(error, match=says):
            place.update(mode, changes, where)
    assert place.data_on_disk() == before


def test_a_v1_table_and_options_of_spark_are_refused(place: RowsPlace) -> None:
    place.create(SCHEMA, format__version="1")
    with pytest.raises(UnsupportedError, match="v1 has no row-level deletes"):
        place.update("merge-on-read", {"n": "1"})
    with pytest.raises(UnsupportedError, match="update with write-tasks"):
        place.update("copy-on-write", {"n": "1"}, options={"write-tasks": "2"})


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_compaction_at_the_very_swap_costs_one_evaluation(place: RowsPlace, mode: str) -> None:
    place.create(SCHEMA, format__version="3", commit_retry_min__wait__ms="1")
    for first in (0, 10):
        fill(place, first, 10)
    before = {r["id"]: r["_row_id"] for r in place.rows(columns=["id", "_row_id"])}

    def compact() -> None:
        place.run("rewrite_data_files", options={"rewrite-all": "true"})

    report = place.run("update", compact, where="id < 3", change=_change(mode))
    assert (report.metrics["evaluations-count"], report.metrics["deleted-records"]) == (2, 3)
    assert {i for i, (city, _, _) in by_id(place).items() if city == "new"} == {0, 1, 2}
    assert {r["id"]: r["_row_id"] for r in place.rows(columns=["id", "_row_id"])} == before
    referenced = place.data_on_disk()
    place.run("expire_snapshots", options={"older-than": "2100-01-01T00:00:00", "retain-last": "1"})
    place.run("remove_orphan_files", options={"older-than": "2099-01-01T00:00:00", "unsafe-allow-recent": "true"})
    assert place.data_on_disk() < referenced
    assert len(by_id(place)) == 20


@pytest.mark.parametrize(("isolation", "changed"), [("serializable", {1, 7}), ("snapshot", {1})])
def test_rows_that_came_meanwhile_change_too_where_that_was_asked_for(place: RowsPlace, isolation: str, changed: set[int]) -> None:
    place.create(SCHEMA, commit_retry_min__wait__ms="1")
    fill(place, 1, 1)
    place.run(
        "update", lambda: fill(place, 7, 1), where="city = 'Rome'", change=_change("merge-on-read"),
        options={"isolation-level": isolation},
    )  # fmt: skip
    assert {i for i, (city, _, _) in by_id(place).items() if city == "new"} == changed


def test_a_failure_while_writing_leaves_no_file(place: RowsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create(SCHEMA, BY_CITY)
    fill(place, 0, 3)
    fill(place, 3, 3, "Oslo")
    before, left = place.data_on_disk(), [0]
    write = PartitionedWriter.write

    def fails(self: PartitionedWriter, batch: pa.RecordBatch) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise OSError("disk full")
        write(self, batch)

    monkeypatch.setattr(PartitionedWriter, "write", fails)
    for written in (1, 2, 3):  # new rows of one file, of both, a copy
        left[0] = written
        with pytest.raises(OSError, match="disk full"):
            place.update("copy-on-write", {"n": "1"}, "id IN (1, 4)")
        assert place.data_on_disk() == before


def test_a_failure_when_files_are_completed_leaves_none_of_them(place: RowsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create(SCHEMA, BY_CITY)
    fill(place, 0, 3)
    fill(place, 3, 3, "Oslo")
    before, left = place.data_on_disk(), [0]
    close = ParquetFileWriter.close

    def fails(self: ParquetFileWriter) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise OSError("disk full")
        return close(self)

    monkeypatch.setattr(ParquetFileWriter, "close", fails)
    for mode, most in (("copy-on-write", 4), ("merge-on-read", 2)):
        for written in range(1, most):  # new rows of two partitions, copies of two
            left[0] = written
            with pytest.raises(OSError, match="disk full"):
                place.update(mode, {"n": "1"}, "id IN (1, 4)")
            assert place.data_on_disk() == before


def _change(mode: str) -> Any:
    from iceberg_ops.config.job_spec import RowChange

    return RowChange(mode=mode, set={"city": "'new'"})  # type: ignore[arg-type]
