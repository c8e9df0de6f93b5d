"""Files of unusual writers: information from a footer, a folder or a field id is recorded only if a reader of the file would trust
it."""

from __future__ import annotations

import math
import struct
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.import_shape import shape_of_folder
from iceberg_ops.actions.local.delete_rows import DeleteRows
from iceberg_ops.data.formats.footer_statistics import TrustedStatistics
from iceberg_ops.errors import DataError, SchemaError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    DecimalType,
    IcebergType,
    ListType,
    NestedField,
    StructType,
)
from tests.actions.rows_place import RowsPlace
from tests.actions.test_add_files import Place

PLAIN: dict[str, Any] = {"use_dictionary": False, "compression": "none", "store_schema": False}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def doctored(path: Path, *changes: tuple[bytes, bytes], created_by: str | None = None) -> None:
    """Replace bytes of a file's footer by others of the same length, and the name of its writer."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[-8:-4], "little")
    head, footer, tail = raw[: -8 - size], raw[-8 - size : -8], raw[-8:]
    if created_by is not None:
        own = pq.read_metadata(path).created_by
        changes = (*changes, (own.encode(), f"{created_by} (build {'x' * 99})"[: len(own)].encode()))
    for old, new in changes:
        assert len(old) == len(new)
        assert old in footer
        footer = footer.replace(old, new)
    path.write_bytes(head + footer + tail)


def ids(place: Place, where: str) -> list[int]:
    return [r["id"] for r in place.rows(where)]


def columns(*fields: tuple[str, IcebergType]) -> Schema:
    return Schema.of(NestedField(1, "id", LONG), *(NestedField(n, name, t) for n, (name, t) in enumerate(fields, 2)))


def test_dates_imported_into_a_timestamp_column_have_no_bounds_in_days(place: Place) -> None:
    rows = [{"id": 1, "ts": date(2024, 1, 2)}, {"id": 2, "ts": date(2024, 1, 5)}]
    place.write("a.parquet", rows, pa.schema({"id": pa.int64(), "ts": pa.date32()}))
    place.create(columns(("ts", TIMESTAMP)), **{"format-version": "3"})
    place.add()
    assert ids(place, "ts >= TIMESTAMP_NTZ '2024-01-01 00:00:00'") == [1, 2]
    DeleteRows(where="ts < TIMESTAMP_NTZ '1980-01-01 00:00:00'").run(place.catalog, place.table)
    assert [r["ts"] for r in place.rows()] == [datetime(2024, 1, 2), datetime(2024, 1, 5)]


@pytest.mark.parametrize(
    "writer", ["parquet-mr version 1.8.2", "parquet-cpp version 1.5.1", "parquet-cpp-arrow version 3.0.0", "ClickHouse v23.8"]
)
def test_decimals_that_a_writer_compared_byte_by_byte_have_no_bounds(place: Place, writer: str) -> None:
    """These writers wrote {1, 128, 256} with 128 as the least."""
    rows = [{"id": n, "d": Decimal(text)} for n, text in enumerate(("0.01", "1.28", "2.56"), 1)]
    place.write("a.parquet", rows, pa.schema({"id": pa.int64(), "d": pa.decimal128(38, 2)}), **PLAIN)
    doctored(place.files / "a.parquet", ((1).to_bytes(16, "big"), (128).to_bytes(16, "big")), created_by=writer)
    place.create(columns(("d", DecimalType(precision=38, scale=2))))
    place.add()
    assert (ids(place, "d = 0.01"), ids(place, "d < 1")) == ([1], [1])
    DeleteRows(where="d > 1").run(place.catalog, place.table)
    assert ids(place, "true") == [1]


def test_bounds_of_a_row_group_that_are_nan_bound_nothing(place: Place) -> None:
    place.files.mkdir()
    path = place.files / "a.parquet"
    values = [5.0, 9.0, 7.0, math.nan, 100.0, -5.0, 1.0, 3.0, 2.0]
    pq.write_table(pa.table({"id": pa.array(range(9), pa.int64()), "x": values}), path, row_group_size=3, **PLAIN)
    nan = struct.pack("<d", math.nan)
    doctored(path, (struct.pack("<d", -5.0), nan), (struct.pack("<d", 100.0), nan))
    place.create(columns(("x", DOUBLE)))
    place.add()
    assert (ids(place, "x = -5D"), ids(place, "x < 0D")) == ([5], [5])
    DeleteRows(where="x >= 1D").run(place.catalog, place.table)
    assert ids(place, "true") == [5]


def test_a_bound_of_zero_is_zero_of_either_sign(place: Place) -> None:
    place.files.mkdir()
    path = place.files / "a.parquet"
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int64()), "x": [-0.0, 3.0]}), path, **PLAIN)
    doctored(path, (struct.pack("<d", -0.0), struct.pack("<d", 0.0)))
    place.create(columns(("x", DOUBLE)))
    place.add()
    (task,) = plan(place.table, Scan()).tasks
    assert task.data_file.lower_bounds[2] == struct.pack("<d", -0.0)


def test_writers_are_known_by_name_and_version() -> None:
    def of(created_by: str | None) -> tuple[bool, bool]:
        found = TrustedStatistics.of(created_by)
        return found.texts, found.decimals

    assert of("parquet-cpp-arrow version 26.0.1") == (True, True)
    assert of("parquet-mr version 1.15.2 (build 1)") == (True, True)
    assert of("parquet-mr version 1.9.0 (build 1)") == (False, False)
    assert of("parquet-cpp version 1.5.1-SNAPSHOT") == (True, False)
    assert of("DuckDB v1.3") == (True, False)
    assert of(None) == of("") == (False, False)


def field(name: str, type_: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, type_, True, {"PARQUET:field_id": str(field_id)})


def test_fields_of_a_struct_whose_ids_are_another_tables_are_refused(place: Place) -> None:
    inner = pa.struct([field("lat", pa.float64(), 3), field("lon", pa.float64(), 4)])
    rows = [{"id": 1, "s": {"lat": 52.0, "lon": 13.0}}]
    place.write("a.parquet", rows, pa.schema([field("id", pa.int64(), 1), field("s", inner, 2)]))
    place.create(columns(("s", StructType((NestedField(3, "lon", DOUBLE), NestedField(4, "lat", DOUBLE))))))
    with pytest.raises(SchemaError, match="column 'lat' has field id 3, which is 'lon' here: its ids are another table's"):
        place.add()


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("a", "a"), "columns 'a' and 'a' are both 'a' of the table"),
        (("a", "A"), "column 'A' is not a column of the table"),
        (("A", "A"), "columns 'A' and 'A' are both 'a' of the table"),
    ],
)
def test_two_columns_of_a_file_that_are_one_of_the_table_are_refused(place: Place, names: tuple[str, str], why: str) -> None:
    place.files.mkdir()
    arrays = [pa.array([1]), pa.array([10]), pa.array([20])]
    pq.write_table(pa.Table.from_arrays(arrays, names=["id", *names]), place.files / "a.parquet")
    place.create(columns(("a", LONG)))
    with pytest.raises(SchemaError, match=why):
        place.add()


def test_a_string_column_whose_statistics_are_not_text_is_refused(place: Place) -> None:
    place.files.mkdir()
    raw = pa.array([b"ok", b"\xff\xfe"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    pq.write_table(pa.table({"id": pa.array([1, 2]), "name": text}), place.files / "a.parquet")
    place.create(columns(("name", STRING)))
    with pytest.raises(DataError, match=r"a\.parquet: column 'name' is a string, and holds bytes that are not UTF-8"):
        place.add()


@pytest.mark.parametrize(
    ("type_", "text", "why"),
    [
        (TIMESTAMP, "2024-01-02 03%3A04%3A05.123456789", "more digits of a second"),
        (TIMESTAMP_NS, "2024-01-02 03%3A04%3A05.1234567891", "more digits of a second"),
        (DecimalType(precision=10, scale=2), "1.005", "more than 2 digits after the point"),
        (DATE, "2024-01-02 10%3A00", "year-month-day"),
        (DATE, "2024", "year-month-day"),
        (DOUBLE, "1e999", "too large"),
        (INT, "1.5", "not a whole number"),
    ],
)
def test_a_folder_whose_value_the_column_can_not_hold_is_refused(place: Place, type_: IcebergType, text: str, why: str) -> None:
    place.write(f"p={text}/a.parquet", [{"id": 1}], pa.schema({"id": pa.int64()}))
    by_value = PartitionSpec(0, (PartitionField((2,), 1000, IDENTITY, "p"),))
    place.create(columns(("p", type_)), by_value, **{"format-version": "3"})
    with pytest.raises(DataError, match=why):
        place.add()


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (TIMESTAMP, "2024-01-02 03%3A04%3A05.123456000", datetime(2024, 1, 2, 3, 4, 5, 123456)),
        (TIMESTAMP, "2024-01-02", datetime(2024, 1, 2)),
        (DecimalType(precision=10, scale=2), "1.500", Decimal("1.50")),
        (DATE, "2024-1-2", date(2024, 1, 2)),
        (DOUBLE, "Infinity", math.inf),
    ],
)
def test_a_folder_says_its_value_in_any_exact_form(place: Place, type_: IcebergType, text: str, value: object) -> None:
    place.write(f"p={text}/a.parquet", [{"id": 1}], pa.schema({"id": pa.int64()}))
    place.create(columns(("p", type_)), PartitionSpec(0, (PartitionField((2,), 1000, IDENTITY, "p"),)))
    place.add()
    assert place.rows() == [{"id": 1, "p": value}]


@pytest.mark.parametrize(
    ("field", "error"),
    [
        (pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"x"}), DataError),
        (pa.field("id", pa.uint64()), SchemaError),
    ],
    ids=["a field id that is not a number", "a type without a counterpart"],
)
def test_a_column_that_can_not_be_taken_in_is_named_with_its_file(tmp_path: Path, field: pa.Field, error: type[Exception]) -> None:
    place = RowsPlace.at(tmp_path)
    place.create(Schema.of(NestedField(1, "id", LONG)))
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(pa.table({"id": [1]}, schema=pa.schema([field])), folder / "a.parquet")
    with pytest.raises(error, match=r"file .*/in/a\.parquet: column '?id"):
        place.run("add_files", options={"source-path": str(folder)})
    if error is SchemaError:
        with pytest.raises(error, match=r"file .*/in/a\.parquet: column '?id"):
            shape_of_folder(place.catalog.io, str(folder), 2)


NOTED = pa.array([1, 1, 2], pa.int8())
STAMPS = pa.array([0, 0, None], pa.timestamp("ms"))


@pytest.mark.parametrize(
    ("type_", "array", "what"),
    [
        (INT, pa.array([1, 255, None], pa.uint8()), "unsigned numbers"),
        (LONG, pa.array([1, 2**32 - 1, None], pa.uint32()), "unsigned numbers"),
        (ListType(NestedField(3, "element", INT)), pa.array([[1], [], None], pa.list_(pa.uint16())), "unsigned numbers"),
        (FLOAT, pa.array([1.5, 2, None], pa.float32()).cast(pa.float16()), "numbers of 16 bits"),
        (LONG, NOTED, "numbers noted as 8 bits wide, in a column of type long"),
        (TIMESTAMP, STAMPS, "timestamps in milliseconds in a dictionary"),
        (TIMESTAMPTZ, STAMPS.cast(pa.timestamp("ms", "UTC")), "timestamps in milliseconds in a dictionary"),
    ],
)
def test_forms_that_iceberg_java_misreads_are_refused(place: Place, type_: IcebergType, array: pa.Array, what: str) -> None:
    place.files.mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 2, 3]), "x": array}), place.files / "a.parquet")
    place.create(columns(("x", type_)))
    with pytest.raises(SchemaError, match=rf"a\.parquet: column 'x(\.element)?' holds {what}: Iceberg Java, .* with append"):
        place.add()


@pytest.mark.parametrize(
    ("type_", "array", "dictionary"),
    [
        (INT, NOTED, True),
        (TIMESTAMP, STAMPS, False),
        (ListType(NestedField(3, "element", TIMESTAMP)), pa.array([[0], [], None], pa.list_(pa.timestamp("ms"))), True),
        (StructType((NestedField(3, "n", LONG),)), pa.array([{"n": 1}, None, {"n": 2}], pa.struct({"n": pa.int8()})), True),
        (LONG, NOTED.cast(pa.int32()), True),
    ],
)
def test_the_same_values_are_taken_in_a_form_that_iceberg_java_reads(
    place: Place, type_: IcebergType, array: pa.Array, dictionary: bool
) -> None:
    place.files.mkdir()
    pq.write_table(pa.table({"id": pa.array([1, 2, 3]), "x": array}), place.files / "a.parquet", use_dictionary=dictionary)
    place.create(columns(("x", type_)))
    place.add()
    assert [row["x"] for row in place.rows()] == array.to_pylist()
