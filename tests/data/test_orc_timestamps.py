"""Timestamps of ORC files: Arrow reads them as nanoseconds, which reach from 1677 to 2262."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, TIMESTAMP, TIMESTAMP_NS, TIMESTAMPTZ, ListType, NestedField, StructType
from tests.data.files import new_io

_LEAST, _GREATEST = -9_223_372_036_854_775, 9_223_372_036_854_775
"""The first and the last whole microsecond that int64 nanoseconds hold."""
_YEAR_1500, _YEAR_9999 = -14_831_769_600_000_000, 253_402_300_799_999_999
SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "at", TIMESTAMP), NestedField(3, "ok", TIMESTAMP))


def _rows(table: pa.Table, schema: Schema, columns: list[str] | None = None, damage: bool = False) -> list[dict[str, Any]]:
    sink = io.BytesIO()
    orc.write_table(table, sink)
    data = bytearray(sink.getvalue())
    if damage:
        data[3:-200] = b"\xff" * (len(data) - 203)
    store, path = new_io(), "memory://t/f.orc"
    store.write(path, bytes(data))
    file = DataFile(file_path=path, file_format=FileFormat.ORC, record_count=table.num_rows, file_size_in_bytes=len(data))
    context = ReadContext(table_schema=schema, projected=schema)
    task = FileScanTask(data_file=file, sequence_number=1)
    return [row for b in read_task(task, context.select(columns) if columns else context, store) for row in b.to_pylist()]


def _table(**columns: Any) -> pa.Table:
    return pa.table({"id": pa.array([1, 2]), **columns})


def _micros(*values: int, tz: str | None = None) -> pa.Array:
    return pa.array(values, pa.timestamp("us", tz))


@pytest.mark.parametrize("far", [_YEAR_1500, _YEAR_9999, _LEAST - 1, _GREATEST + 1])
def test_a_timestamp_beyond_nanoseconds_is_a_named_limit_and_no_corrupt_file(far: int) -> None:
    table = _table(at=_micros(0, far), ok=_micros(1, 2))
    with pytest.raises(UnsupportedError, match=r"not supported: column at of memory://t/f.orc, because .*1677-09-21.*2262-04-11"):
        _rows(table, SCHEMA)


def test_the_other_columns_of_such_a_file_are_read() -> None:
    found = _rows(_table(at=_micros(0, _YEAR_9999), ok=_micros(1, 2)), SCHEMA, ["id", "ok"])
    assert [row["id"] for row in found] == [1, 2]


def test_the_first_and_last_microseconds_of_nanoseconds_are_read() -> None:
    found = _rows(_table(at=_micros(_LEAST, _GREATEST), ok=_micros(1, 2)), SCHEMA, ["at"])
    assert [pa.scalar(row["at"], pa.timestamp("us")).value for row in found] == [_LEAST, _GREATEST]


@pytest.mark.parametrize("type_", [TIMESTAMPTZ, TIMESTAMP_NS])
def test_every_type_of_timestamp_has_the_limit(type_: Any) -> None:
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "at", type_))
    tz = "UTC" if type_ == TIMESTAMPTZ else None
    with pytest.raises(UnsupportedError, match="column at of"):
        _rows(_table(at=_micros(0, _YEAR_1500, tz=tz)), schema)


def test_a_timestamp_inside_a_struct_or_list_is_named_too() -> None:
    list_ = ListType(NestedField(4, "element", TIMESTAMP))
    nested = StructType((NestedField(3, "near", TIMESTAMP), NestedField(5, "many", list_)))
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "s", nested))
    type_ = pa.struct([("near", pa.timestamp("us")), ("many", pa.list_(pa.timestamp("us")))])
    values = [{"near": 0, "many": [0]}, {"near": 0, "many": [0, _YEAR_9999]}]
    with pytest.raises(UnsupportedError, match=r"column s\.many of"):
        _rows(_table(s=pa.array(values, type_)), schema)


def test_a_damaged_stripe_is_still_a_corrupt_file() -> None:
    with pytest.raises(CorruptTableError, match=r"f\.orc cannot be decoded"):
        _rows(_table(at=_micros(0, 1), ok=_micros(1, 2)), SCHEMA, damage=True)
