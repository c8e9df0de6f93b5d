"""Decodes variant values (Parquet's Variant encoding, version 1).

A variant is two byte strings: metadata (a dictionary of field names) and value. ``decode`` gives plain Python values; a value
without a JSON form becomes text, as in the JSON single-value forms. Every violation of the encoding is a CorruptTableError.

Values lie one after the other, so all together are no longer than the variant. If offsets point to the same bytes again and again,
the variant describes more values than memory can hold, so the bytes read are counted. No function here is recursive, so depth costs
no stack.
"""

from __future__ import annotations

import base64
import itertools
import math
import struct
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.serde.json.single_value_json import to_json_value
from iceberg_ops.spec.types import DATE, TIME, TIMESTAMP, TIMESTAMP_NS, TIMESTAMPTZ, TIMESTAMPTZ_NS, IcebergType

_WIDE = Context(prec=40)
_DEEPEST = 500
_MOST_SHARED = 16
"""Shared values are read as long as all together are not longer than this many times the variant."""


@dataclass(frozen=True, slots=True)
class Variant:
    """One variant: its metadata and value bytes, as stored."""

    metadata: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class TemporalValue:
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
    """The value as Python: None, bool, int, float, Decimal, str, bytes, UUID, ``TemporalValue``, list, dict. Raises
    CorruptTableError."""
    return _decoded(variant, lambda value: value)


def object_fields(value: bytes, names: list[str]) -> dict[str, bytes] | None:
    """The fields of an encoded object as encoded values, which are not decoded; None if the value is not an object. Raises
    CorruptTableError."""
    with _damage():
        if value[0] & 0x03 != 2:
            return None
        places = _object(value, 0, names).places
        return {name: _slice(value, place, _end(value, place, names)) for name, place in places}


def variant_to_json(value: Variant) -> Any:
    """The variant as JSON values. Raises CorruptTableError."""
    return _decoded(value, _json)


def _json(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, TemporalValue):
        return to_json_value(value.type, value.value)
    return str(value) if isinstance(value, uuid.UUID) else value


@contextmanager
def _damage() -> Iterator[None]:
    try:
        yield
    except (IndexError, UnicodeDecodeError, struct.error, OverflowError, ValueError) as e:
        raise CorruptTableError(f"variant value is damaged: {e}") from None


def _decoded(variant: Variant, leaf: Callable[[Any], Any]) -> Any:
    """The value with ``leaf`` applied to its leaves."""
    data, names = variant.value, names_in(variant.metadata)
    result: list[Any] = [None]
    waiting: list[tuple[int, int, Any, Any]] = [(0, 0, result, 0)]
    """Where a value begins, its depth, and the container and key that it belongs to."""
    left = _MOST_SHARED * len(data)
    with _damage():
        while waiting:
            at, depth, holder, key = waiting.pop()
            if depth > _DEEPEST:
                raise CorruptTableError(f"variant is nested more than {_DEEPEST} levels deep")
            if data[at] & 0x03 < 2:
                value, end = _scalar(data, at)
                holder[key] = leaf(value)
            else:
                parts = _container(data, at, names)
                inner: Any = dict.fromkeys(k for k, _ in parts.places) if parts.is_object else [None] * len(parts.places)
                holder[key], end = inner, parts.start
                waiting += ((place, depth + 1, inner, k) for k, place in parts.places)
            left -= end - at
            if left < 0:
                raise CorruptTableError(
                    f"variant of {len(data)} bytes has values of more than {_MOST_SHARED} times as many: they overlap"
                )
    return result[0]


def _number(data: bytes, at: int, width: int) -> int:
    return int.from_bytes(_slice(data, at, at + width), "little")


def _slice(data: bytes, start: int, end: int) -> bytes:
    if not 0 <= start <= end <= len(data):
        raise CorruptTableError(f"variant: bytes {start} to {end} lie outside its {len(data)} bytes")
    return data[start:end]


@dataclass(frozen=True, slots=True)
class _Parts:
    """An object or array: where the values of its fields or elements begin, by name or number; the earliest possible start of a
    value; and the end of the container."""

    places: list[tuple[Any, int]]
    start: int
    end: int
    is_object: bool


def _end(data: bytes, at: int, names: list[str]) -> int:
    """Where a value ends."""
    return _scalar(data, at)[1] if data[at] & 0x03 < 2 else _container(data, at, names).end


def _scalar(data: bytes, at: int) -> tuple[Any, int]:
    rest = data[at] >> 2
    if data[at] & 0x03 == 0:
        return _primitive(data, at + 1, rest)
    return _slice(data, at + 1, at + 1 + rest).decode("utf-8"), at + 1 + rest


def _container(data: bytes, at: int, names: list[str]) -> _Parts:
    return _object(data, at, names) if data[at] & 0x03 == 2 else _array(data, at)


def _object(data: bytes, at: int, names: list[str]) -> _Parts:
    header = data[at] >> 2
    offset_width, id_width = (header & 0x03) + 1, ((header >> 2) & 0x03) + 1
    count_width = 4 if header & 0x10 else 1
    count = _number(data, at + 1, count_width)
    ids_at = at + 1 + count_width
    offsets_at = ids_at + count * id_width
    start = offsets_at + (count + 1) * offset_width
    if start > len(data):
        raise CorruptTableError(f"variant object of {count} fields does not fit its {len(data)} bytes")
    keys = [names[i] for i in _numbers(data, ids_at, id_width, count)]
    if len(set(keys)) != count:
        raise CorruptTableError(f"variant object has {count} fields, but only {len(set(keys))} names")
    return _parts(keys, _numbers(data, offsets_at, offset_width, count + 1), start, is_object=True)


def _array(data: bytes, at: int) -> _Parts:
    header = data[at] >> 2
    offset_width = (header & 0x03) + 1
    count_width = 4 if header & 0x04 else 1
    count = _number(data, at + 1, count_width)
    offsets_at = at + 1 + count_width
    start = offsets_at + (count + 1) * offset_width
    if start > len(data):
        raise CorruptTableError(f"variant array of {count} elements does not fit its {len(data)} bytes")
    return _parts(range(count), _numbers(data, offsets_at, offset_width, count + 1), start, is_object=False)


def _parts(keys: Iterable[Any], offsets: list[int], start: int, *, is_object: bool) -> _Parts:
    places = [(key, start + offset) for key, offset in zip(keys, offsets[:-1], strict=True)]
    return _Parts(places, start, start + offsets[-1], is_object)


def _numbers(data: bytes, at: int, width: int, count: int) -> list[int]:
    return [_number(data, at + i * width, width) for i in range(count)]


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
        return TemporalValue(moment, int.from_bytes(_slice(data, at, at + 8), "little", signed=True)), at + 8
    if kind == 7:
        return struct.unpack("<d", _slice(data, at, at + 8))[0], at + 8
    if kind == 14:
        return struct.unpack("<f", _slice(data, at, at + 4))[0], at + 4
    if kind == 11:
        return TemporalValue(DATE, int.from_bytes(_slice(data, at, at + 4), "little", signed=True)), at + 4
    if kind in (15, 16):
        size = _number(data, at, 4)
        raw = _slice(data, at + 4, at + 4 + size)
        return (raw if kind == 15 else raw.decode("utf-8")), at + 4 + size
    if kind == 20:
        return uuid.UUID(bytes=_slice(data, at, at + 16)), at + 16
    raise CorruptTableError(f"variant: primitive type {kind} is not defined")
