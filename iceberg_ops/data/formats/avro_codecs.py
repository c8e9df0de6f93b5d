"""Snappy and zstandard in Avro data files, with Arrow's codecs (AVRO-04).

fastavro supports both only with additional libraries; Arrow is installed anyway. ``register`` puts Arrow's codecs into fastavro's
tables of block readers and writers.
"""

from __future__ import annotations

import sys
from io import BytesIO
from typing import Any

from fastavro.read import block_reader
from fastavro.write import Writer

from iceberg_ops.serde.avro.avro_container import pack, unpack
from iceberg_ops.serde.avro.avro_encoding import encode_long

CODECS = ("snappy", "zstandard")


def register() -> None:
    """Make fastavro read and write blocks of these codecs. A second call changes nothing."""
    readers = sys.modules[block_reader.__module__].BLOCK_READERS
    writers = sys.modules[Writer.__module__].BLOCK_WRITERS
    for codec in CODECS:
        readers[codec] = _Reader(codec)
        writers[codec] = _Writer(codec)


class _Reader:
    """Reads a block of a file and returns its records as another file. Raises CorruptTableError for damaged blocks."""

    def __init__(self, codec: str) -> None:
        self.codec = codec

    def __call__(self, source: Any) -> Any:
        file = getattr(source, "fo", source)
        size = _long(file)
        packed = file.read(size)
        if len(packed) != size:
            raise EOFError(f"Avro block of {size} bytes is cut off")
        return BytesIO(unpack(self.codec, packed, "Avro block"))


class _Writer:
    """Writes a block of records to a file."""

    def __init__(self, codec: str) -> None:
        self.codec = codec

    def __call__(self, target: Any, records: bytes, level: int | None) -> None:
        file = getattr(target, "_fo", target)
        packed = pack(self.codec, bytes(records))
        file.write(encode_long(len(packed)))
        file.write(packed)


def _long(file: Any) -> int:
    value = shift = 0
    while True:
        byte: bytes = file.read(1)
        if not byte or shift > 63:
            raise EOFError("Avro block has no size")
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return (value >> 1) ^ -(value & 1)
        shift += 7
