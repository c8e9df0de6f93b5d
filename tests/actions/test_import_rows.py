"""The rows of an imported file: a file whose rows a reader of the table could not rely on is refused by name."""

from __future__ import annotations

import math
import os
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.data.sources import imported_rows
from iceberg_ops.errors import DataError
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import (
    DATE,
    DOUBLE,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
)
from tests.actions.test_add_files import Place

INNER = StructType((NestedField(4, "r", STRING), NestedField(5, "x", LONG)))
OF_STRUCT = Schema.of(NestedField(1, "id", LONG), NestedField(3, "s", INNER))
STORED = pa.struct({"r": pa.string(), "x": pa.int64()})
BY_R = PartitionSpec(0, (PartitionField((4,), 1000, IDENTITY, "r"),))
BY_P = PartitionSpec(0, (PartitionField((2,), 1000, IDENTITY, "p"),))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def put(place: Place, path: str, table: pa.Table, **options: Any) -> None:
    at = place.files / path
    at.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, at, **options)


@pytest.mark.parametrize(
    ("rows", "held"),
    [
        ([{"r": "a", "x": 1}, {"r": "b", "x": 2}], "b"),
        ([{"r": "a", "x": 1}, {"r": None, "x": 2}], "NULL"),
        ([{"r": "a", "x": 1}, None], "NULL"),
    ],
)
def test_a_partition_column_inside_a_struct_holds_what_the_folder_says(place: Place, rows: list[Any], held: str) -> None:
    put(place, "r=a/x.parquet", pa.table({"id": [1, 2], "s": rows}))
    place.create(OF_STRUCT, BY_R)
    with pytest.raises(DataError, match=rf"x\.parquet: column 's\.r' holds {held}, its folder says a"):
        place.add()


def test_a_folder_of_nulls_holds_no_value_inside_a_struct(place: Place) -> None:
    put(place, "r=__HIVE_DEFAULT_PARTITION__/x.parquet", pa.table({"id": [1, 2], "s": pa.array([{"x": 1}, None], STORED)}))
    place.create(OF_STRUCT, BY_R)
    place.add()
    assert [r["id"] for r in place.rows("s.r is null")] == [1, 2]
    put(place, "r=__HIVE_DEFAULT_PARTITION__/y.parquet", pa.table({"id": [3], "s": [{"r": "a", "x": 1}]}))
    with pytest.raises(DataError, match=r"y\.parquet: column 's\.r' holds a, its folder says NULL"):
        place.add(check_duplicate_files="false")


def test_a_file_of_a_struct_is_found_by_its_partition(place: Place) -> None:
    for name in ("a", "b"):
        put(place, f"r={name}/x.parquet", pa.table({"id": [1], "s": [{"r": name, "x": 1}]}))
    place.create(OF_STRUCT, BY_R)
    place.add()
    assert place.rows("s.r = 'b'") == [{"id": 1, "s": {"r": "b", "x": 1}}]


FIVE = uuid.UUID(int=5)
OWN_COLUMNS = {
    "uuid": (UUID, f"p={FIVE}", pa.array([FIVE.bytes], pa.uuid()), {}, FIVE.bytes),
    "int96 in nanoseconds": (
        TIMESTAMPTZ,
        "p=1970-01-01 00%3A00%3A00.000001Z",
        pa.array([1001], pa.timestamp("ns")),
        {"use_deprecated_int96_timestamps": True},
        datetime(1970, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
    ),
    "a dictionary": (STRING, "p=a", pa.array(["a"]).dictionary_encode(), {}, "a"),
}


@pytest.mark.parametrize("case", OWN_COLUMNS)
def test_a_file_may_hold_its_own_partition_column_in_any_form_that_is_read(place: Place, case: str) -> None:
    type_, folder, array, options, value = OWN_COLUMNS[case]
    put(place, f"{folder}/x.parquet", pa.table({"id": [1], "p": array}), **options)
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "p", type_)), BY_P)
    place.add()
    assert place.rows() == [{"id": 1, "p": value}]


def test_another_uuid_than_the_folders_is_named(place: Place) -> None:
    put(place, f"p={FIVE}/x.parquet", pa.table({"id": [1], "p": pa.array([uuid.UUID(int=6).bytes], pa.uuid())}))
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "p", UUID)), BY_P)
    with pytest.raises(DataError, match=f"column 'p' holds {uuid.UUID(int=6)}, its folder says {FIVE}"):
        place.add()


def test_nan_in_the_folder_of_nan_is_the_same_value(place: Place) -> None:
    put(place, "p=NaN/x.parquet", pa.table({"id": [1, 2], "p": [math.nan, math.nan]}))
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "p", DOUBLE)), BY_P)
    place.add()
    assert [math.isnan(r["p"]) for r in place.rows()] == [True, True]
    put(place, "p=NaN/y.parquet", pa.table({"id": [1, 2], "p": [math.nan, 1.0]}))
    with pytest.raises(DataError, match=r"y\.parquet: column 'p' holds 1.0, its folder says nan"):
        place.add(check_duplicate_files="false")


def required(type_: IcebergType) -> NestedField:
    return NestedField(2, "x", type_, required=True)


NULLS = {
    "leaf": (required(LONG), [1, None], "x"),
    "struct": (required(StructType((NestedField(3, "r", LONG),))), [{"r": 1}, None], "x"),
    "field of a struct": (required(StructType((NestedField(3, "r", LONG, required=True),))), [{"r": 1}, {"r": None}], "x.r"),
    "list": (required(ListType(NestedField(3, "element", LONG))), [[1], None], "x"),
    "element": (required(ListType(NestedField(3, "element", LONG, required=True))), [[1], [None]], "x.element"),
    "map": (
        required(MapType(NestedField(3, "key", LONG, required=True), NestedField(4, "value", LONG))),
        pa.array([[(1, 1)], None], pa.map_(pa.int64(), pa.int64())),
        "x",
    ),
    "value of a map": (
        required(MapType(NestedField(3, "key", LONG, required=True), NestedField(4, "value", LONG, required=True))),
        pa.array([[(1, 1)], [(1, None)]], pa.map_(pa.int64(), pa.int64())),
        "x.value",
    ),
}


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("case", NULLS)
def test_a_null_where_the_table_requires_a_value_is_refused_at_any_depth(place: Place, case: str, statistics: bool) -> None:
    f, values, name = NULLS[case]
    put(place, "a.parquet", pa.table({"id": [1, 2], "x": values}), write_statistics=statistics)
    place.create(Schema.of(NestedField(1, "id", LONG), f))
    with pytest.raises(DataError, match=rf"a\.parquet: column {name} is required, but 1 of 2 rows have no value"):
        place.add()


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("case", NULLS)
def test_a_column_that_may_be_null_and_is_not_fits_a_required_one(place: Place, case: str, statistics: bool) -> None:
    f, values, _ = NULLS[case]
    rows = pa.table({"id": [1, 2], "x": values}).slice(0, 1)
    put(place, "a.parquet", rows, write_statistics=statistics)
    place.create(Schema.of(NestedField(1, "id", LONG), f))
    place.add()
    assert place.rows() == rows.to_pylist()


def test_a_required_field_may_be_missing_where_its_optional_struct_is_null(place: Place) -> None:
    f = NestedField(2, "x", StructType((NestedField(3, "r", LONG, required=True),)))
    put(place, "a.parquet", pa.table({"id": [1, 2], "x": [{"r": 1}, None]}))
    place.create(Schema.of(NestedField(1, "id", LONG), f))
    place.add()
    assert [r["x"] for r in place.rows()] == [{"r": 1}, None]


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize(
    ("type_", "array"),
    [
        (TIMESTAMP, pa.array([2**60], pa.timestamp("ms"))),
        (TIMESTAMP, pa.array([2**31 - 1], pa.int32()).view(pa.date32())),
        (TIMESTAMP_NS, pa.array([2**20], pa.int32()).view(pa.date32())),
        (ListType(NestedField(3, "element", TIMESTAMP)), pa.array([[2**60]], pa.list_(pa.timestamp("ms")))),
        (StructType((NestedField(3, "t", TIMESTAMP),)), pa.array([{"t": -(2**60)}], pa.struct({"t": pa.timestamp("ms")}))),
    ],
)
def test_a_time_beyond_the_columns_range_is_refused(place: Place, type_: IcebergType, array: pa.Array, statistics: bool) -> None:
    put(place, "a.parquet", pa.table({"id": [1], "x": array}), write_statistics=statistics, use_dictionary=False)
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "x", type_)), UNPARTITIONED, **{"format-version": "3"})
    with pytest.raises(DataError, match=r"a\.parquet: column (x|t|element): a value stored as .* is outside timestamp"):
        place.add()


OF_SPARK_2 = {"org.apache.spark.version": "2.4.8"}
DAYS = {"first Gregorian": -141_427, "last Julian": -141_428, "a year 1": -719_164}
FORMS: dict[str, tuple[IcebergType, Any]] = {
    "date": (DATE, lambda day: pa.array([0, day, None], pa.int32()).view(pa.date32())),
    "timestamp": (TIMESTAMP, lambda day: pa.array([0, day * 86_400_000, None], pa.int64()).view(pa.timestamp("ms"))),
    "date in a timestamp": (TIMESTAMP, lambda day: pa.array([0, day], pa.int32()).view(pa.date32())),
    "struct": (StructType((NestedField(3, "d", DATE),)), lambda day: pa.array([{"d": day}, None], pa.struct({"d": pa.date32()}))),
    "list": (ListType(NestedField(3, "element", DATE)), lambda day: pa.array([[0, day], None], pa.list_(pa.date32()))),
    "map": (
        MapType(NestedField(3, "key", DATE, required=True), NestedField(4, "value", LONG)),
        lambda day: pa.array([[(day, 1)], None], pa.map_(pa.date32(), pa.int64())),
    ),
}


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("notes", [OF_SPARK_2, {"org.apache.spark.version": "3.5.1", "org.apache.spark.legacyDateTime": ""}])
def test_dates_of_the_calendar_of_an_old_spark_are_refused(
    place: Place, notes: dict[str, str], form: str, statistics: bool
) -> None:
    type_, array_of_day = FORMS[form]
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "x", type_)), UNPARTITIONED, **{"format-version": "3"})
    for name, day in DAYS.items():
        array = array_of_day(day)
        table = pa.table({"id": range(len(array)), "x": array}).replace_schema_metadata(notes)
        put(place, f"{day}.parquet", table, write_statistics=statistics, use_dictionary=False)
        if name == "first Gregorian":
            place.add()
        else:
            with pytest.raises(DataError, match=rf"{day}\.parquet: column 'x' holds dates before 1582-10-15"):
                place.add()
        (place.files / f"{day}.parquet").unlink()


@pytest.mark.parametrize("notes", [{}, {"org.apache.spark.version": "3.5.1"}])
def test_old_dates_in_todays_calendar_are_taken(place: Place, notes: dict[str, str]) -> None:
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "x", DATE)), UNPARTITIONED)
    put(place, "a.parquet", pa.table({"id": range(3), "x": FORMS["date"][1](-719_162)}).replace_schema_metadata(notes))
    place.add()
    assert [str(row["x"]) for row in place.rows()] == ["1970-01-01", "0001-01-01", "None"]


@pytest.mark.parametrize(("version", "taken"), [("2.4.8", False), ("3.0.3", False), ("3.1.0", True)])
def test_old_timestamps_of_type_int96_have_a_note_of_their_own(place: Place, version: str, taken: bool) -> None:
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "x", TIMESTAMP)), UNPARTITIONED)
    times = pa.table({"id": [1], "x": pa.array([-719_162 * 86_400_000_000], pa.int64()).view(pa.timestamp("us"))})
    noted = times.replace_schema_metadata({"org.apache.spark.version": version})
    put(place, "a.parquet", noted, use_deprecated_int96_timestamps=True)
    if taken:
        place.add()
        assert [str(row["x"]) for row in place.rows()] == ["0001-01-01 00:00:00"]
    else:
        with pytest.raises(DataError, match=r"a\.parquet: column 'x' holds dates before 1582-10-15"):
            place.add()


OF_HIVE = {"writer.date.proleptic": "false", "writer.time.zone": "UTC"}


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("form", ["date", "date in a timestamp", "struct", "list", "map"])
def test_dates_of_the_calendar_of_hive_are_refused(place: Place, form: str, statistics: bool) -> None:
    type_, array_of_day = FORMS[form]
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "x", type_)), UNPARTITIONED, **{"format-version": "3"})
    for day, notes in ((-141_427, OF_HIVE), (-719_164, OF_HIVE | {"writer.date.proleptic": "true"}), (-141_428, OF_HIVE)):
        array = array_of_day(day)
        table = pa.table({"id": range(len(array)), "x": array}).replace_schema_metadata(notes)
        put(place, f"{day}.parquet", table, write_statistics=statistics)
        if day == -141_428:
            with pytest.raises(DataError, match=r"column 'x' holds dates before 1582-10-15, and Hive .* Let Hive write"):
                place.add()
        else:
            place.add()
        (place.files / f"{day}.parquet").unlink()


@pytest.mark.parametrize(("proleptic", "int96", "taken"), [("true", True, False), ("false", False, True)])
def test_old_timestamps_of_hive_are_of_its_calendar_as_int96_only(place: Place, proleptic: str, int96: bool, taken: bool) -> None:
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "x", TIMESTAMP)), UNPARTITIONED)
    times = pa.table({"id": [1], "x": pa.array([-719_162 * 86_400_000_000], pa.int64()).view(pa.timestamp("us"))})
    noted = times.replace_schema_metadata({"writer.date.proleptic": proleptic})
    put(place, "a.parquet", noted, use_deprecated_int96_timestamps=int96)
    if taken:
        place.add()
        assert [str(row["x"]) for row in place.rows()] == ["0001-01-01 00:00:00"]
    else:
        with pytest.raises(DataError, match=r"a\.parquet: column 'x' holds dates before 1582-10-15, and Hive"):
            place.add()


@pytest.mark.parametrize("statistics", [True, False])
def test_milliseconds_and_days_in_range_are_read_as_microseconds(place: Place, statistics: bool) -> None:
    times = pa.table({"id": [1, 2], "x": pa.array([1, None], pa.timestamp("ms"))})
    put(place, "a.parquet", times, write_statistics=statistics, use_dictionary=False)
    put(place, "b.parquet", pa.table({"id": [3], "x": pa.array([1], pa.int32()).view(pa.date32())}), write_statistics=statistics)
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "x", TIMESTAMP)), UNPARTITIONED, **{"format-version": "3"})
    place.add()
    assert [r["x"] for r in place.rows()] == [datetime(1970, 1, 1, 0, 0, 0, 1000), None, datetime(1970, 1, 2)]


@pytest.mark.parametrize("folder", ["p=%ff", "%fe=1"])
def test_a_folder_whose_escapes_are_not_utf8_is_refused(place: Place, folder: str) -> None:
    put(place, f"{folder}/a.parquet", pa.table({"id": [1]}))
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "p", STRING)), BY_P)
    with pytest.raises(DataError, match=f"folder '{folder}' is not UTF-8"):
        place.add()


def test_a_date_in_a_folder_of_its_own_column_is_compared_as_a_date(place: Place) -> None:
    put(place, "p=2024-01-02/a.parquet", pa.table({"id": [1], "p": pa.array([19723], pa.int32()).view(pa.date32())}))
    place.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "p", DATE)), BY_P)
    with pytest.raises(DataError, match="column 'p' holds 2024-01-01, its folder says 2024-01-02"):
        place.add()


def test_a_large_file_that_is_cut_while_its_rows_are_looked_at_is_an_error_and_not_the_end_of_the_process(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is mapped into memory ended the process (SIGBUS)."""
    place.create(Schema.of(NestedField(1, "id", LONG, required=True)))
    put(place, "a.parquet", pa.table({"id": np.random.default_rng(1).integers(0, 1 << 62, 200_000)}), row_group_size=20_000)
    path = place.files / "a.parquet"
    assert path.stat().st_size > 1 << 20
    read_task = imported_rows.read_task

    def meddled(*given: Any) -> Iterator[pa.RecordBatch]:
        for batch in read_task(*given, batch_rows=20_000):
            os.truncate(path, 0)
            yield batch

    monkeypatch.setattr(imported_rows, "read_task", meddled)
    monkeypatch.setattr(imported_rows.Footer, "has_no_null", lambda footer, leaf: False)
    with pytest.raises(DataError, match=r"a\.parquet"):
        place.add()
