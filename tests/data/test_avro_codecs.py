"""Avro data files in every codec (AVRO-04); damaged blocks are corrupt."""

from __future__ import annotations

import json

import pytest

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.avro.avro_container import read_container, write_container
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.data.files import new_io, read, write, write_context

SCHEMA = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "s", STRING))
ROWS = [(i, f"text {i % 7}") for i in range(5000)]


@pytest.mark.parametrize(
    ("stated", "codec"), [("gzip", "deflate"), ("zstd", "zstandard"), ("snappy", "snappy"), ("uncompressed", "null")]
)
def test_data_files_come_back_in_every_codec(stated: str, codec: str) -> None:
    """AVRO-04"""
    store = new_io()
    context = write_context(SCHEMA, properties={"write.format.default": "avro", "write.avro.compression-codec": stated})
    (file,) = write(context, store, ROWS)
    data = store.read(file.file_path)
    assert f"avro.codec{chr(2 * len(codec))}{codec}".encode() in data
    assert read([file], SCHEMA, store) == ROWS
    assert read_container(data, "f").record_count == len(ROWS), "the other reader of containers agrees"


@pytest.mark.parametrize("codec", ["snappy", "zstandard", "deflate"])
def test_damaged_blocks_are_corrupt(codec: str) -> None:
    """AVRO-04"""
    store = new_io()
    context = write_context(SCHEMA, properties={"write.format.default": "avro", "write.avro.compression-codec": "none"})
    (file,) = write(context, store, ROWS)
    plain = read_container(store.read(file.file_path), "f")
    packed = write_container(json.loads(plain.schema_text), {}, plain.blocks, codec=codec)
    for damaged in (packed[: len(packed) // 2], packed[:-600] + bytes(300) + packed[-300:]):
        store.write(file.file_path, damaged, overwrite=True)
        with pytest.raises(CorruptTableError):
            read([file], SCHEMA, store)
