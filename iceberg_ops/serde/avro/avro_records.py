"""Decoding the records of a container under a schema from ``avro_schema``.

fastavro does the decoding; whatever it raises on damaged bytes becomes a CorruptTableError that names the file.
"""

from __future__ import annotations

import io
import struct
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.avro.avro_container import Container
from iceberg_ops.serde.avro.avro_schema import plain

_DAMAGE = (
    EOFError, ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError, RecursionError, struct.error,
    SchemaParseException, UnknownType,
)  # fmt: skip


def decoder_schema(node: Any, name: str) -> Any:
    """The inlined schema, parsed for ``decode``. Raises CorruptTableError."""
    try:
        return fastavro.parse_schema(plain(node))
    except _DAMAGE as e:
        raise CorruptTableError(f"{name}: Avro schema is malformed: {type(e).__name__} {e}") from None


def decode(container: Container, schema: Any, name: str) -> list[dict[str, Any]]:
    """All records, as dicts under the schema's field names. Raises CorruptTableError."""
    records: list[Any] = []
    read = fastavro.schemaless_reader
    for count, raw in container.blocks:
        stream = io.BytesIO(raw)
        try:
            for _ in range(count):
                records.append(read(stream, schema, None))
        except _DAMAGE as e:
            raise CorruptTableError(f"{name}: Avro record {len(records)} cannot be decoded: {type(e).__name__} {e}") from None
        check_end(stream.tell(), count, raw, name)
    return records


def decode_one(stream: io.BytesIO, schema: Any, number: int, name: str) -> dict[str, Any]:
    """The record where the stream stands, which is the file's ``number``th. Raises CorruptTableError."""
    try:
        found: dict[str, Any] = fastavro.schemaless_reader(stream, schema, None)  # type: ignore[assignment]
    except _DAMAGE as e:
        raise CorruptTableError(f"{name}: Avro record {number} cannot be decoded: {type(e).__name__} {e}") from None
    return found


def check_end(end: int, count: int, raw: bytes, name: str) -> None:
    """Raise CorruptTableError for a block whose records do not end where it ends."""
    if end != len(raw):
        raise CorruptTableError(f"{name}: Avro block has {len(raw) - end} bytes after its {count} records")
