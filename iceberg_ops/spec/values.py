"""Canonical values <-> binary single values, and their text for people (spec: Appendix D).

Bounds are not rewritten when a column is promoted, so the length shows the written type: a ``long`` of 4 bytes was an int,
a ``double`` of 4 bytes a float, a ``timestamp`` or ``timestamp_ns`` of 4 bytes a date.
"""

from __future__ import annotations

import base64
import math
import struct
import uuid
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

from iceberg_ops.errors import CorruptTableError, DataError, UnsupportedError
from iceberg_ops.spec.epoch import MICROS_PER_SECOND, NANOS_PER_SECOND, SECONDS_PER_DAY, iso_date, iso_time, iso_timestamp
from iceberg_ops.spec.types import DecimalType, IcebergType, PrimitiveType

WIDE = Context(prec=128)
"""A decimal context that never rounds a decimal of the format."""

_PACK = {
    "int": struct.Struct("<i"), "long": struct.Struct("<q"), "float": struct.Struct("<f"), "double": struct.Struct("<d"),
    "date": struct.Struct("<i"), "time": struct.Struct("<q"), "timestamp": struct.Struct("<q"), "timestamptz": struct.Struct("<q"),
    "timestamp_ns": struct.Struct("<q"), "timestamptz_ns": struct.Struct("<q"),
}  # fmt: skip
_NARROW = {"long": struct.Struct("<i"), "double": struct.Struct("<f")}
_DAY_TICKS = {"timestamp": SECONDS_PER_DAY * MICROS_PER_SECOND, "timestamp_ns": SECONDS_PER_DAY * NANOS_PER_SECOND}
_AS_IS = frozenset({"fixed", "binary", "geometry", "geography", "variant"})


def unscaled(value: Decimal) -> int:
    """The unscaled integer of ``value`` at its own scale: 14.20 -> 1420."""
    if "." in (text := f"{value:f}"):  # half the time
        return int(text.replace(".", ""))
    sign, digits, _ = value.as_tuple()
    return int("".join(map(str, digits))) * (-1 if sign else 1)


def decimal_of(unscaled_value: int, scale: int) -> Decimal:
    """The decimal with exactly ``scale`` fraction digits: (1420, 2) -> 14.20."""
    return Decimal(unscaled_value).scaleb(-scale, WIDE)


def minimal_bytes(value: int) -> bytes:
    """Two's complement, big endian, in the fewest bytes."""
    length = (value if value >= 0 else ~value).bit_length() // 8 + 1
    return value.to_bytes(length, "big", signed=True)


def to_bytes(type_: IcebergType, value: Any) -> bytes:
    """The binary single value. Raises DataError for a value outside the type, UnsupportedError for a type without such a form."""
    name = type_.name if isinstance(type_, PrimitiveType) else str(type_)
    try:
        if pack := _PACK.get(name):
            return pack.pack(value)
        if name == "string":
            return str(value).encode("utf-8")
        if name == "boolean":
            return b"\x01" if value else b"\x00"
        if isinstance(type_, DecimalType):
            return minimal_bytes(unscaled(value))
        if name == "uuid":
            return bytes(value.bytes)
        if name in _AS_IS:
            return bytes(value)
    except (struct.error, TypeError, AttributeError, OverflowError, UnicodeEncodeError) as e:
        raise DataError(f"{value!r} is not a value of type {type_}: {e}") from None
    raise UnsupportedError(f"not supported: a binary single value of type {type_}, because the format defines none")


def from_bytes(type_: IcebergType, data: bytes) -> Any:
    """The canonical value; narrower written types are widened. Raises CorruptTableError for a length the type cannot have."""
    name = type_.name if isinstance(type_, PrimitiveType) else str(type_)
    if pack := _PACK.get(name):
        if len(data) == pack.size:
            return pack.unpack(data)[0]
        if len(data) == 4 and (narrow := _NARROW.get(name)):
            return narrow.unpack(data)[0]
        if len(data) == 4 and (ticks := _DAY_TICKS.get(name)):
            return _PACK["date"].unpack(data)[0] * ticks
    elif name == "string":
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as e:
            raise CorruptTableError(f"binary single value {data[:32].hex()} of type string is not UTF-8: {e.reason}") from None
    elif name == "boolean" and len(data) == 1:
        return data != b"\x00"
    elif isinstance(type_, DecimalType) and data:
        return decimal_of(int.from_bytes(data, "big", signed=True), type_.scale)
    elif name == "uuid" and len(data) == 16:
        return uuid.UUID(bytes=bytes(data))
    elif name in _AS_IS:
        return bytes(data)
    raise CorruptTableError(f"binary single value {data[:32].hex()} of {len(data)} bytes cannot be of type {type_}")


def geo_bound_to_bytes(x: float, y: float, z: float | None = None, m: float | None = None) -> bytes:
    """A corner of a geometry or geography's bounding box: x:y, x:y:z, x:y:z:m or x:y:NaN:m as little-endian doubles."""
    if m is not None:
        return struct.pack("<4d", x, y, float("nan") if z is None else z, m)
    return struct.pack("<2d", x, y) if z is None else struct.pack("<3d", x, y, z)


def geo_bound_from_bytes(data: bytes) -> tuple[float, float, float | None, float | None]:
    """x, y, z and m of a bounding box corner; None for a missing dimension. Raises CorruptTableError."""
    if len(data) not in (16, 24, 32):
        raise CorruptTableError(f"geospatial bound of {len(data)} bytes: must be 16, 24 or 32")
    parts = struct.unpack(f"<{len(data) // 8}d", data)
    z = parts[2] if len(parts) > 2 and not math.isnan(parts[2]) else None
    return parts[0], parts[1], z, parts[3] if len(parts) == 4 else None


def float32(value: float) -> float:
    """``value`` rounded to the nearest 32-bit float; infinite if it is out of range."""
    try:
        return float(_PACK["float"].unpack(_PACK["float"].pack(value))[0])
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _shortest_digits(value: float, single: bool) -> tuple[str, int]:
    """Shortest decimal digits that read back as the same float, and the power of ten of the first."""
    if single:
        text = next(t for t in (f"{value:.{n}e}" for n in range(17)) if float32(float(t)) == value)
    else:
        text = f"{Decimal(repr(value)):e}"
    mantissa, _, exponent = text.partition("e")
    return mantissa.replace(".", "").rstrip("0") or "0", int(exponent)


def float_text(value: float, *, single: bool = False) -> str:
    """In the form of Java's Double.toString and Float.toString: ``2.25``, ``1.0E10``, ``NaN``, ``-Infinity``."""
    if math.isnan(value):
        return "NaN"
    sign = "-" if struct.pack(">d", value)[0] & 0x80 else ""
    value = abs(value)
    if value == float("inf"):
        return sign + "Infinity"
    if value == 0:
        return sign + "0.0"
    digits, power = _shortest_digits(value, single)
    if not -3 <= power < 7:
        return f"{sign}{digits[0]}.{digits[1:] or '0'}E{power}"
    if power < 0:
        return f"{sign}0.{'0' * (-power - 1)}{digits}"
    digits = digits.ljust(power + 2, "0")
    return f"{sign}{digits[: power + 1]}.{digits[power + 1 :]}"


def time_text(micros: int) -> str:
    """In the form of Java's LocalTime.toString: seconds only if there are any, fractions in groups of three digits."""
    text = iso_time(micros)
    whole, _, fraction = text.partition(".")
    if not fraction:
        return whole[:-3] if whole.endswith(":00") else whole
    return f"{whole}.{fraction.ljust(-(-len(fraction) // 3) * 3, '0')}"


_TEXT: dict[str, Callable[[Any], str]] = {
    "boolean": lambda v: "true" if v else "false",
    "float": lambda v: float_text(v, single=True),
    "double": float_text,
    "date": iso_date,
    "time": time_text,
    "timestamp": iso_timestamp,
    "timestamptz": lambda v: iso_timestamp(v, utc=True),
    "timestamp_ns": lambda v: iso_timestamp(v, NANOS_PER_SECOND),
    "timestamptz_ns": lambda v: iso_timestamp(v, NANOS_PER_SECOND, utc=True),
}
_TEXT |= dict.fromkeys(_AS_IS, lambda v: base64.b64encode(v).decode("ascii"))


def human(type_: IcebergType, value: Any) -> str:
    """Text for partition paths and messages: ``2017-11-16``, ``17:00``, base64 for bytes, ``null`` (Java: toHumanString)."""
    if value is None:
        return "null"
    name = type_.name if isinstance(type_, PrimitiveType) else ""
    return _TEXT.get(name, str)(value)
