"""Where an ORC file's stripes begin: Arrow does not give this, but the serialized file tail contains it.

The tail is a protocol buffer (ORC specification, ``FileTail``): field 2 is the footer, its field 3 one entry per stripe, with the
stripe's offset, the lengths of its three parts, and its rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from iceberg_ops.errors import CorruptTableError

_FOOTER, _STRIPES = 2, 3
_OFFSET, _ROWS = 1, 5
_VARINT, _BYTES = 0, 2
_WIDTHS = {1: 8, 5: 4}


@dataclass(frozen=True, slots=True)
class Stripe:
    """``first_row`` is the position of its first row in the file."""

    number: int
    offset: int
    first_row: int
    rows: int


def parse_stripes(tail: bytes, location: str) -> tuple[Stripe, ...]:
    """The stripes of a file, in their order. Raises CorruptTableError; ``location`` is for messages."""
    stripes: list[Stripe] = []
    first_row = 0
    try:
        for footer in (value for tag, value in _fields(tail) if tag == _FOOTER and isinstance(value, bytes)):
            for entry in (value for tag, value in _fields(footer) if tag == _STRIPES and isinstance(value, bytes)):
                numbers = {tag: value for tag, value in _fields(entry) if isinstance(value, int)}
                offset, rows = numbers.get(_OFFSET, 0), numbers.get(_ROWS, 0)
                stripes.append(Stripe(len(stripes), offset, first_row, rows))
                first_row += rows
    except (IndexError, ValueError) as e:
        raise CorruptTableError(f"file {location}: the ORC file tail is damaged: {e}") from None
    return tuple(stripes)


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of a message; numbers decoded, all other values as bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(data, at)
        elif kind in _WIDTHS:
            size = _WIDTHS[kind]
        else:
            raise ValueError(f"wire type {kind}")
        if at + size > len(data):
            raise ValueError(f"a field of {size} bytes does not fit")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
