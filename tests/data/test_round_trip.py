"""Written values are read back: every type, in Parquet and Avro (PARQUET-01, AVRO-01, AVRO-02, AVRO-05, TYPE-30, TYPE-31,
DEFAULT-03)."""

from __future__ import annotations

import re
import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from tests.data.files import new_io, read, write, write_context

POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
INNER = StructType((NestedField(21, "x", INT), NestedField(22, "u", UUID)))
VALUES: list[tuple[str, IcebergType, list[Any]]] = [
    ("boolean", BOOLEAN, [True, False, None]),
    ("int", INT, [-(2**31), 2**31 - 1, None]),
    ("long", LONG, [-(2**63), 2**63 - 1, None]),
    ("float", FLOAT, [1.5, -0.0, None]),
    ("double", DOUBLE, [float("inf"), 1e300, None]),
    ("decimal as int32", DecimalType(precision=9, scale=2), [Decimal("-1234567.89"), Decimal("0.00"), None]),
    ("decimal as int64", DecimalType(precision=18, scale=0), [Decimal(10**18 - 1), Decimal(-1), None]),
    (
        "decimal as fixed",
        DecimalType(precision=38, scale=10),
        [Decimal("1234567890123456789012345678.0123456789"), Decimal("-1E-10"), None],
    ),
    ("date", DATE, [-719162, 2932896, None]),
    ("time", TIME, [0, 86_399_999_999, None]),
    ("timestamp", TIMESTAMP, [-62_135_596_800_000_000, 253_402_300_799_999_999, None]),
    ("timestamptz", TIMESTAMPTZ, [-1, 1, None]),
    ("timestamp_ns", TIMESTAMP_NS, [-1, 2**62, None]),
    ("timestamptz_ns", TIMESTAMPTZ_NS, [-(2**62), 1, None]),
    ("string", STRING, ["", "naïve \U0001f600", None]),
    ("uuid", UUID, [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1), None]),
    ("fixed", FixedType(length=3), [b"\x00\x01\x02", b"\xff\xff\xff", None]),
    ("binary", BINARY, [b"", b"\x00\xff", None]),
    ("geometry", GeometryType(), [POINT, POINT, None]),
    ("geography", GeographyType(), [POINT, POINT, None]),
    ("unknown", UNKNOWN, [None, None, None]),
    ("struct", INNER, [(1, uuid.UUID(int=5)), (None, None), None]),
    ("list", list_of(11, STRING), [["a", None], [], None]),
    ("list of structs", list_of(11, INNER), [[(1, uuid.UUID(int=5)), None], [], None]),
    ("map", map_of(11, STRING, 12, LONG), [[("a", 1), ("b", None)], [], None]),
    ("map with struct keys", map_of(11, StructType((NestedField(13, "k", INT, True),)), 12, STRING), [[((1,), "x")], [], None]),
    ("map of lists", map_of(11, INT, 12, list_of(13, DOUBLE)), [[(1, [0.5]), (2, None)], [], None]),
]


@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.parametrize(("type_", "values"), [pytest.param(t, v, id=n) for n, t, v in VALUES])
def test_every_value_of_a_type_comes_back(form: str, type_: IcebergType, values: list[Any]) -> None:
    schema = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "v", type_))
    io = new_io()
    files = write(write_context(schema, properties={"write.format.default": form}), io, list(enumerate(values)))
    assert [f.file_format.value for f in files] == [form]
    assert read(files, schema, io) == list(enumerate(values))


def test_ids_are_on_every_level_of_a_parquet_file() -> None:
    schema = Schema.of(
        NestedField(1, "l", list_of(2, map_of(3, STRING, 4, StructType((NestedField(5, "x", INT),))))), NestedField(6, "n", UNKNOWN)
    )
    io = new_io()
    (file,) = write(write_context(schema), io, [([[("a", (1,))]], None)])
    text = str(pq.ParquetFile(pa.BufferReader(io.read(file.file_path))).schema)
    for field_id in range(1, 6):
        assert f"field_id={field_id} " in text
    assert "field_id=6" not in text


def test_a_file_name_tells_task_operation_attempt_and_number() -> None:
    schema = Schema.of(NestedField(1, "id", LONG, True))
    io = new_io()
    (file,) = write(write_context(schema), io, [(1,)], operation_id="0a-b", task_id="00007")
    assert re.fullmatch("memory://wh/t/data/00007-0a-b-[0-9a-f]{12}-00001.parquet", file.file_path)


def _inside(type_: IcebergType) -> list[tuple[str, IcebergType]]:
    """A column of that type, at the top and at every depth beside stored columns."""
    part = NestedField(30, "p", type_)
    return [
        ("s", type_),
        ("s.p", StructType((NestedField(31, "x", INT), part))),
        ("s.element", ListType(NestedField(32, "element", type_))),
        ("s.value", MapType(NestedField(33, "key", STRING, True), NestedField(34, "value", type_))),
    ]


NOTHING_STORED = [
    ("parquet", StructType(())),
    ("parquet", StructType((NestedField(10, "u", UNKNOWN),))),
    *((form, ListType(NestedField(10, "element", UNKNOWN))) for form in ("parquet", "avro")),
    *((form, MapType(NestedField(10, "key", STRING, True), NestedField(11, "value", UNKNOWN))) for form in ("parquet", "avro")),
]


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize(("form", "type_"), NOTHING_STORED, ids=str)
def test_a_nested_column_of_which_nothing_is_stored_is_refused_before_anything_is_written(
    form: str, type_: IcebergType, required: bool
) -> None:
    for path, column in _inside(type_):
        schema = Schema.of(NestedField(1, "id", INT), NestedField(2, "s", column, required))
        context = write_context(schema, properties={"write.format.default": form})
        with pytest.raises(UnsupportedError, match=f"column '{path}'"):
            context.check_format()
        io = new_io()
        if not required:
            with pytest.raises(UnsupportedError, match=f"column '{path}'"):
                write(context, io, [(1, None)])
        assert not list(io.list_prefix("memory://wh/t"))


@pytest.mark.parametrize("type_", [StructType(()), StructType((NestedField(10, "u", UNKNOWN),))], ids=str)
def test_avro_keeps_structs_of_which_no_field_is_stored(type_: StructType) -> None:
    empty = tuple(None for _ in type_.fields)
    schema = Schema.of(NestedField(1, "s", type_), NestedField(2, "r", type_, True))
    io = new_io()
    files = write(write_context(schema, properties={"write.format.default": "avro"}), io, [(None, empty), (empty, empty)])
    assert read(files, schema, io) == [(None, empty), (empty, empty)]


def test_rows_of_unknown_columns_alone_are_kept_by_avro_and_refused_for_parquet() -> None:
    schema = Schema.of(NestedField(1, "u", UNKNOWN), NestedField(2, "v", UNKNOWN))
    rows = [(None, None)] * 3
    io = new_io()
    files = write(write_context(schema, properties={"write.format.default": "avro"}), io, rows)
    assert [f.record_count for f in files] == [3]
    assert read(files, schema, io) == rows
    with pytest.raises(UnsupportedError, match="u, v"):
        write(write_context(schema), io, rows)
