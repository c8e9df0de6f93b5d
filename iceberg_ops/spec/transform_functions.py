"""Transforms applied to one value (spec: "Partition Transforms", Appendix B).

Null maps to null. Divisions floor, so that the hour before the epoch is hour -1. A value that the result's type cannot hold wraps
around, as in Iceberg Java: truncate below the least int or long, truncate of ints by more than 2**30, hours beyond an int. The
vectorised form for Arrow columns is in ``iceberg_ops.data.columns.partition_values`` and is tested against this module.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import mmh3

from iceberg_ops.errors import SchemaError, UnsupportedError
from iceberg_ops.spec.epoch import MICROS_PER_SECOND, NANOS_PER_SECOND, SECONDS_PER_DAY, civil_from_days, iso_date
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import INT, DecimalType, IcebergType, PrimitiveType
from iceberg_ops.spec.values import decimal_of, human, minimal_bytes, unscaled

_LONG = struct.Struct("<q")
_NANOS = frozenset({"timestamp_ns", "timestamptz_ns"})
_WHOLE = frozenset({"int", "long", "date", "time", "timestamp", "timestamptz", "boolean"})


def bucket_hash(source: IcebergType, value: Any) -> int:
    """Signed 32-bit murmur3 of a value (Appendix B). Raises UnsupportedError for a type that cannot be hashed."""
    name = source.name if isinstance(source, PrimitiveType) else str(source)
    if name in _WHOLE:
        data = _LONG.pack(value)
    elif name in _NANOS:
        data = _LONG.pack(value // 1000)
    elif name == "string":
        data = value.encode("utf-8")
    elif isinstance(source, DecimalType):
        data = minimal_bytes(unscaled(value))
    elif name == "uuid":
        data = value.bytes
    elif name in ("fixed", "binary"):
        data = bytes(value)
    elif name in ("float", "double"):
        data = struct.pack("<d", float("nan") if math.isnan(value) else value + 0.0)
    else:
        raise UnsupportedError(f"not supported: a hash of type {source}, because the format defines none")
    return int(mmh3.hash(data, 0, signed=True))


def truncated(source: IcebergType, width: int, value: Any) -> Any:
    """truncate[width]: numbers down to a multiple, text to ``width`` code points, binary to ``width`` bytes."""
    if isinstance(source, DecimalType):
        whole = unscaled(value)
        return decimal_of(whole - whole % width, source.scale)
    if _is_whole(source):
        return value - value % width
    return value[:width]


def _is_whole(source: IcebergType) -> bool:
    return isinstance(source, PrimitiveType) and source.name in ("int", "long")


def wrapped(value: int, bits: int) -> int:
    """``value`` in fixed-width arithmetic of that number of bits."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


def _wrapped_truncated(source: IcebergType, width: int, value: int) -> int:
    """``v - (((v % W) + W) % W)`` in Java's arithmetic, whose ``%`` has the sign of ``v`` and which wraps at every step."""
    bits = 32 if source == INT else 64
    shifted = wrapped(_java_remainder(value, width) + width, bits)
    return wrapped(value - _java_remainder(shifted, width), bits)


def _java_remainder(value: int, width: int) -> int:
    return value % width if value >= 0 else -(-value % width)


def _ticks_per_second(source: IcebergType) -> int:
    return NANOS_PER_SECOND if isinstance(source, PrimitiveType) and source.name in _NANOS else MICROS_PER_SECOND


def _period(name: str, source: IcebergType, value: int) -> int:
    if name == "hour":
        return value // (3600 * _ticks_per_second(source))
    is_date = isinstance(source, PrimitiveType) and source.name == "date"
    days = value if is_date else value // (SECONDS_PER_DAY * _ticks_per_second(source))
    if name == "day":
        return days
    year, month, _ = civil_from_days(days)
    return year - 1970 if name == "year" else (year - 1970) * 12 + month - 1


def apply(transform: Transform, source: IcebergType, value: Any) -> Any:
    """The transform's value in canonical form. Raises UnsupportedError for an unknown transform, SchemaError for a source type that
    the transform does not accept."""
    transformed = in_order(transform, source, value)
    if transformed is None:
        return None
    if transform.name == "truncate" and _is_whole(source):
        return _wrapped_truncated(source, transform.parameter or 1, value)
    return wrapped(transformed, 32) if transform.name == "hour" else transformed


def in_order(transform: Transform, source: IcebergType, value: Any) -> Any:
    """``apply`` without wrapping around, so that order-preserving transforms keep the order of all values. Raises the errors of
    ``apply``."""
    if not transform.is_known:
        raise UnsupportedError(
            f"not supported: computing transform {transform}, because this version of the format does not define it"
        )
    if value is None or transform.name == "void":
        return None
    if not transform.can_transform(source):
        raise SchemaError(f"transform {transform} cannot take values of type {source}")
    if transform.name == "identity":
        return value
    if transform.name in ("bucket", "truncate"):
        if not transform.parameter:
            raise SchemaError(f"transform {transform}: the parameter must be above 0")
        if transform.name == "bucket":
            return (bucket_hash(source, value) & 0x7FFFFFFF) % transform.parameter
        return truncated(source, transform.parameter, value)
    return _period(transform.name, source, value)


def human_value(transform: Transform, source: IcebergType, value: Any) -> str:
    """Text of a transform's value in partition paths: year ``2017``, month ``2017-11``, day ``2017-11-16``, hour
    ``2017-11-16-10``; other transforms as ``values.human``; null as ``null``."""
    if value is None:
        return "null"
    if transform.name == "year":
        return f"{1970 + value:04d}"
    if transform.name == "month":
        return f"{1970 + value // 12:04d}-{value % 12 + 1:02d}"
    if transform.name == "day":
        return iso_date(value)
    if transform.name == "hour":
        return f"{iso_date(value // 24)}-{value % 24:02d}"
    return human(transform.result_type(source), value)
