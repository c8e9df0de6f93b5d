"""Taking variant values apart (Parquet's Variant encoding, version 1).

A variant is two byte strings: metadata (a dictionary of field names) and value. ``decode`` gives plain Python values; what JSON
has no form for becomes text, as in the JSON single-value forms. Every breach of the encoding is a CorruptTableError.
"""

from __future__ import annotations

import base64
import datetime as dt
import itertools
import math
import struct
import uuid
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.single_value_json import to_json_value
from iceberg_ops.spec.types import TIME, TIMESTAMP, TIMESTAMP_NS, TIMESTAMPTZ, TIMESTAMPTZ_NS, IcebergType

_WIDE = Context(prec=40)
_DEEPEST = 500


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant: its metadata and value bytes, as stored."""

    metadata: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Moment:
    """A date or time inside a variant: the canonical number with its Iceberg type."""

    type: IcebergType
    value: int


def names_in(metadata: bytes) -> list[str]:
    """The dictionary of a variant's metadata. Raises CorruptTableError."""
    try:
        header = metadata[0]
        if header & 0x0F != 1:
            raise CorruptTableError(f"variant metadata has version {header & 0x0F}, only 1 is defined")
        width = (header >> 6) + 1
        count = _number(metadata, 1, width)
        start = 1 + width * (count + 2)
        if start > len(metadata):
            raise CorruptTableError(f"variant metadata of {len(metadata)} bytes has no room for {count} names")
        ends = [_number(metadata, 1 + width * (1 + i), width) for i in range(count + 1)]
        return [_slice(metadata, start + a, start + b).decode("utf-8") for a, b in itertools.pairwise(ends)]
    except (IndexError, UnicodeDecodeError, struct.error) as e:
        raise CorruptTableError(f"variant metadata is damaged: {e}") from None


def decode(variant: Variant) -> Any:
    """The value as Python: None, bool, int, float, Decimal, str, bytes, UUID, date, ``Moment``, list, dict. Raises
    CorruptTableError."""
    names = names_in(variant.metadata)
    try:
        return _value(variant.value, 0, names, 0)[0]
    except (IndexError, UnicodeDecodeError, struct.error, OverflowError, ValueError) as e:
        raise CorruptTableError(f"variant value is damaged: {e}") from None


def object_fields(value: bytes, names: list[str]) -> dict[str, bytes] | None:
    """The fields of an encoded object as encoded values; None where the value is no object. Raises CorruptTableError."""
    try:
        if value[0] & 0x03 != 2:
            return None
        places, _ = _places(value, 1, value[0] >> 2, names)
        return {name: value[place : _value(value, place, names, 1)[1]] for name, place in places.items()}
    except (IndexError, UnicodeDecodeError, struct.error, OverflowError, ValueError) as e:
        raise CorruptTableError(f"variant value is damaged: {e}") from None


def variant_to_json(value: Variant) -> Any:
    """The variant as JSON values."""
    return _json(decode(value))


def _json(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _json(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_json(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Moment):
        return to_json_value(value.type, value.value)
    return str(value) if isinstance(value, uuid.UUID | dt.date) else value


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(_slice(data, at, at + width), "little")


def _slice(data: bytes, start: int, end: int) -> bytes:
    if not 0 <= start <= end <= len(data):
        raise CorruptTableError(f"variant: bytes {start} to {end} lie outside its {len(data)} bytes")
    return data[start:end]


def _value(data: bytes, at: int, names: list[str], depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
        raise CorruptTableError(f"variant is nested more than {_DEEPEST} levels deep")
    header = data[at]
    basic, rest = header & 0x03, header >> 2
    if basic == 0:
        return _primitive(data, at + 1, rest)
    if basic == 1:
        return _slice(data, at + 1, at + 1 + rest).decode("utf-8"), at + 1 + rest
    return _object(data, at + 1, rest, names, depth) if basic == 2 else _array(data, at + 1, rest, names, depth)


def _object(data: bytes, at: int, header: int, names: list[str], depth: int) -> tuple[dict[str, Any], int]:
    places, end = _places(data, at, header, names)
    return {name: _value(data, place, names, depth + 1)[0] for name, place in places.items()}, end


def _places(data: bytes, at: int, header: int, names: list[str]) -> tuple[dict[str, int], int]:
    """Where the values of an object's fields begin, and where the object ends."""
    offset_width, id_width = (header & 0x03) + 1, ((header >> 2) & 0x03) + 1
    count_width = 4 if header & 0x10 else 1
    count = _number(data, at, count_width)
    ids_at = at + count_width
    offsets_at = ids_at + count * id_width
    start = offsets_at + (count + 1) * offset_width
    if start > len(data):
        raise CorruptTableError(f"variant object of {count} fields does not fit its {len(data)} bytes")
    found = {}
    for i in range(count):
        name = names[_number(data, ids_at + i * id_width, id_width)]
        found[name] = start + _number(data, offsets_at + i * offset_width, offset_width)
    return found, start + _number(data, offsets_at + count * offset_width, offset_width)


def _array(data: bytes, at: int, header: int, names: list[str], depth: int) -> tuple[list[Any], int]:
    offset_width = (header & 0x03) + 1
    count_width = 4 if header & 0x04 else 1
    count = _number(data, at, count_width)
    offsets_at = at + count_width
    start = offsets_at + (count + 1) * offset_width
    if start > len(data):
        raise CorruptTableError(f"variant array of {count} elements does not fit its {len(data)} bytes")
    found = [
        _value(data, start + _number(data, offsets_at + i * offset_width, offset_width), names, depth + 1)[0] for i in range(count)
    ]
    return found, start + _number(data, offsets_at + count * offset_width, offset_width)


_INTEGERS = {3: 1, 4: 2, 5: 4, 6: 8}
_DECIMALS = {8: 4, 9: 8, 10: 16}
_MOMENTS = {12: TIMESTAMPTZ, 13: TIMESTAMP, 17: TIME, 18: TIMESTAMPTZ_NS, 19: TIMESTAMP_NS}


def _primitive(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    if kind <= 2:
        return (None, True, False)[kind], at
    if (width := _INTEGERS.get(kind)) is not None:
        return int.from_bytes(_slice(data, at, at + width), "little", signed=True), at + width
    if (width := _DECIMALS.get(kind)) is not None:
        number = int.from_bytes(_slice(data, at + 1, at + 1 + width), "little", signed=True)
        return Decimal(number).scaleb(-data[at], _WIDE), at + 1 + width
    if (moment := _MOMENTS.get(kind)) is not None:
        return Moment(moment, int.from_bytes(_slice(data, at, at + 8), "little", signed=True)), at + 8
    if kind == 7:
        return struct.unpack("<d", _slice(data, at, at + 8))[0], at + 8
    if kind == 14:
        return struct.unpack("<f", _slice(data, at, at + 4))[0], at + 4
    if kind == 11:
        days = int.from_bytes(_slice(data, at, at + 4), "little", signed=True)
        return dt.date(1970, 1, 1) + dt.timedelta(days=days), at + 4
    if kind in (15, 16):
        size = _number(data, at, 4)
        raw = _slice(data, at + 4, at + 4 + size)
        return (raw if kind == 15 else raw.decode("utf-8")), at + 4 + size
    if kind == 20:
        return uuid.UUID(bytes=_slice(data, at, at + 16)), at + 16
    raise CorruptTableError(f"variant: primitive type {kind} is not defined")
