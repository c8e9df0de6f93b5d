"""Decodes the records of a container with a schema from ``avro_schema``.

fastavro decodes; its errors on damaged bytes become a CorruptTableError that names the file.
"""

from __future__ import annotations

import io
import struct
from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.avro.avro_container import Container
from iceberg_ops.serde.avro.avro_schema import plain


def _damage() -> tuple[type[Exception], ...]:
    """fastavro's exceptions for damaged bytes."""
    from fastavro.schema import SchemaParseException, UnknownType

    errors_of_decoder = (SchemaParseException, UnknownType, struct.error)
    return (
        *errors_of_decoder,
        EOFError,
        ValueError,
        IndexError,
        KeyError,
        TypeError,
        AttributeError,
        OverflowError,
        MemoryError,
        RecursionError,
    )


def decoder_schema(node: Any, name: str) -> Any:
    """The inlined schema, parsed for ``decode``. Raises CorruptTableError."""
    from fastavro import parse_schema

    try:
        return parse_schema(plain(node))
    except _damage() as e:
        raise CorruptTableError(f"{name}: Avro schema is malformed: {type(e).__name__} {e}") from None


def decode(container: Container, schema: Any, name: str) -> list[dict[str, Any]]:
    """All records, as dicts under the schema's field names. Raises CorruptTableError."""
    from fastavro import schemaless_reader

    records: list[Any] = []
    for count, raw in container.blocks:
        stream = io.BytesIO(raw)
        try:
            for _ in range(count):
                records.append(schemaless_reader(stream, schema, None))
        except _damage() as e:
            raise CorruptTableError(f"{name}: Avro record {len(records)} cannot be decoded: {type(e).__name__} {e}") from None
        check_end(stream.tell(), count, raw, name)
    return records


def decode_one(stream: io.BytesIO, schema: Any, number: int, name: str) -> dict[str, Any]:
    """The record at the position of the stream, the ``number``th of the file. Raises CorruptTableError."""
    from fastavro import schemaless_reader

    try:
        record: dict[str, Any] = schemaless_reader(stream, schema, None)  # type: ignore[assignment]
    except _damage() as e:
        raise CorruptTableError(f"{name}: Avro record {number} cannot be decoded: {type(e).__name__} {e}") from None
    return record


def check_end(end: int, count: int, raw: bytes, name: str) -> None:
    """Raise CorruptTableError for a block whose records do not end at its end."""
    if end != len(raw):
        raise CorruptTableError(f"{name}: Avro block has {len(raw) - end} bytes after its {count} records")
