"""Damaged blocks of Avro files of every codec are corrupt data, reported with the file."""

from __future__ import annotations

import io as bytes_io
from decimal import Decimal
from typing import Any

import fastavro
import pytest

from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.data.formats.any_format import open_file
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.content_files import FileFormat
from tests.data.files import new_io

SCHEMA: dict[str, Any] = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long", "field-id": 1}]}


@pytest.mark.parametrize("codec", ["deflate", "zstandard", "snappy", "bzip2", "xz"])
def test_a_damaged_block_is_corrupt_data_in_every_codec(codec: str) -> None:
    sink = bytes_io.BytesIO()
    fastavro.writer(sink, SCHEMA, [{"x": i} for i in range(1000)], codec=codec)
    data = bytearray(sink.getvalue())
    for at in range(-90, -40):
        data[at] ^= 0xFF
    io = new_io()
    io.write("memory://wh/t/f.avro", bytes(data))
    opened = open_file(io, "memory://wh/t/f.avro", FileFormat.AVRO, ColumnIds())
    with pytest.raises(CorruptTableError, match=r"f\.avro"):
        list(opened.batches({0}, 0, None, 100))
    opened.close()


UNUSABLE = {
    "no precision": ('"precision": 38', '"precisiox": 38'),
    "a negative precision": ('"precision": 38', '"precision": -1'),
    "a precision that Arrow has not": ('"precision": 38', '"precision": 99'),
    "a scale beyond the precision": ('"scale": 2', '"scale":99'),
    "a scale that is not a number": ('"scale": 2', '"scale":{}'),
    "a field without a name": ('"name": "x"', '"nbme": "x"'),
    "an unknown type": ('"type": "bytes"', '"type": "bytet"'),
    "a fixed without a size": ('"type": "bytes"', '"type": "fixed"'),
    "no JSON": ('"precision": 38', '"precision": 0,'),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_a_file_whose_schema_is_of_no_use_is_corrupt_and_closed(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2}
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": x, "field-id": 1}]}
    sink = bytes_io.BytesIO()
    fastavro.writer(sink, schema, [{"x": Decimal("1.00")}])
    right, wrong = (text.encode() for text in UNUSABLE[what])
    assert right in sink.getvalue()
    io = new_io()
    io.write("memory://wh/t/f.avro", sink.getvalue().replace(right, wrong))
    opened, open_input = [], io.open_input
    monkeypatch.setattr(io, "open_input", lambda location: opened.append(found := open_input(location)) or found)
    with pytest.raises(CorruptTableError, match=r"file memory://wh/t/f\.avro is not a readable avro file"):
        open_file(io, "memory://wh/t/f.avro", FileFormat.AVRO, ColumnIds())
    assert [source.closed for source in opened] == [True]


def test_a_decimal_of_more_digits_than_a_table_has_is_read_past() -> None:
    wide = {"type": "bytes", "logicalType": "decimal", "precision": 60, "scale": 2}
    fields = [*SCHEMA["fields"], {"name": "wide", "type": wide, "field-id": 2}]
    sink = bytes_io.BytesIO()
    fastavro.writer(sink, {"type": "record", "name": "r", "fields": fields}, [{"x": 1, "wide": Decimal("1.25")}])
    io = new_io()
    io.write("memory://wh/t/f.avro", sink.getvalue())
    opened = open_file(io, "memory://wh/t/f.avro", FileFormat.AVRO, ColumnIds())
    ((_, batch, _),) = opened.batches({0, 1}, 0, None, 100)
    assert batch.to_pylist() == [{"x": 1, "wide": Decimal("1.25")}]
    opened.close()
