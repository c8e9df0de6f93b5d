"""Damaged blocks of Avro files of every codec are corrupt data, reported with the file."""

from __future__ import annotations

import io as bytes_io

import fastavro
import pytest

from iceberg_ops.data.file_columns import ColumnIds
from iceberg_ops.data.formats import open_file
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.content_files import FileFormat
from tests.data.files import new_io

SCHEMA = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "long", "field-id": 1}]}


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
