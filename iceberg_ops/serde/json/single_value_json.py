"""Canonical values <-> JSON single values (spec: Appendix D, "JSON single-value serialization").

Used for default values and expression literals. NaN and the infinities, which JSON cannot represent, are the strings ``NaN``,
``Infinity`` and ``-Infinity``. Geometries and geographies are written as well-known text and never read back: no default or literal
may contain one.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.serde.json.json_objects import as_flag, as_int, as_list, as_long, as_text
from iceberg_ops.spec.epoch import (
    MICROS_PER_SECOND,
    NANOS_PER_SECOND,
    iso_date,
    iso_time,
    iso_timestamp,
    parse_date,
    parse_time,
    parse_timestamp,
)
from iceberg_ops.spec.types import DecimalType, FixedType, IcebergType, ListType, MapType, PrimitiveType, StructType
from iceberg_ops.spec.values import WIDE, float32, float_text
from iceberg_ops.spec.wkb import parse_wkb, wkt

_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_LONG_LIMIT = 2**63


def _float_to_json(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return value


def decimal_text(value: Decimal) -> str:
    """All digits of the scale and no exponent, as other readers expect (``0.00000000``, never ``0E-8``); a negative scale appears
    as its exponent (``2E+20``)."""
    exponent = value.as_tuple().exponent
    return str(value) if isinstance(exponent, int) and exponent > 0 else f"{value:f}"


_TO_JSON: dict[str, Callable[[Any], Any]] = {
    "float": lambda v: _float_to_json(float(float_text(v, single=True))),
    "double": _float_to_json,
    "decimal": decimal_text,
    "uuid": str,
    "fixed": bytes.hex,
    "binary": bytes.hex,
    "date": iso_date,
    "time": iso_time,
    "timestamp": iso_timestamp,
    "timestamptz": lambda v: iso_timestamp(v, utc=True),
    "timestamp_ns": lambda v: iso_timestamp(v, NANOS_PER_SECOND),
    "timestamptz_ns": lambda v: iso_timestamp(v, NANOS_PER_SECOND, utc=True),
    "boolean": lambda v: v,
    "int": lambda v: v,
    "long": lambda v: v,
    "string": lambda v: v,
    "geometry": lambda v: wkt(parse_wkb(v)),
    "geography": lambda v: wkt(parse_wkb(v)),
}


def to_json_value(type_: IcebergType, value: Any) -> Any:
    """The JSON form of a canonical value. Raises UnsupportedError for unknown and variant, CorruptTableError for bytes that are
    not a geometry."""
    if value is None:
        return None
    if isinstance(type_, StructType):
        pairs = zip(type_.fields, value, strict=True)
        return {str(f.field_id): to_json_value(f.type, v) for f, v in pairs}
    if isinstance(type_, ListType):
        return [to_json_value(type_.element.type, v) for v in value]
    if isinstance(type_, MapType):
        return {
            "keys": [to_json_value(type_.key.type, k) for k, _ in value],
            "values": [to_json_value(type_.value.type, v) for _, v in value],
        }
    convert = _TO_JSON.get(type_.name) if isinstance(type_, PrimitiveType) else None
    if convert is None:
        raise UnsupportedError(f"not supported: a JSON single value of type {type_}, because only null can be written for it")
    return convert(value)


def _read_float(value: Any, what: str) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return _SPECIAL[value]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("must be a number")
    return float(value)


def _read_float32(value: Any, what: str) -> float:
    number = _read_float(value, what)
    near = float32(number)
    if math.isinf(near) and not math.isinf(number):
        raise ValueError("must be within the range of a 32-bit float")
    return math.nan if math.isnan(near) else near


def _read_decimal(type_: DecimalType, value: Any, what: str) -> Decimal:
    try:
        number = WIDE.create_decimal(as_text(value, what))
    except InvalidOperation:
        raise ValueError("must be the text of a decimal number") from None
    if not number.is_finite():
        raise ValueError("must be finite")
    if number.as_tuple().exponent != -type_.scale:
        raise ValueError(f"must have exactly {type_.scale} digits after the point")
    if len(number.as_tuple().digits) > type_.precision and number != 0:
        raise ValueError(f"must have at most {type_.precision} digits")
    return number


def _read_uuid(value: Any, what: str) -> uuid.UUID:
    text = as_text(value, what)
    if len(text) != 36:
        raise ValueError("must have 36 characters")
    return uuid.UUID(text)


def _read_timestamp(value: Any, what: str, per_second: int, utc: bool) -> int:
    text = as_text(value, what)
    if utc:
        if not text.endswith("+00:00"):
            raise ValueError("must end with +00:00")
        text = text[: -len("+00:00")]
    ticks = parse_timestamp(text, per_second)
    if not -_LONG_LIMIT <= ticks < _LONG_LIMIT:
        raise ValueError("must fit 64 bits")
    return ticks


_FROM_JSON: dict[str, Callable[[Any, str], Any]] = {
    "boolean": as_flag,
    "int": as_int,
    "long": as_long,
    "float": _read_float32,
    "double": _read_float,
    "string": as_text,
    "uuid": _read_uuid,
    "binary": lambda v, w: bytes.fromhex(as_text(v, w)),
    "date": lambda v, w: parse_date(as_text(v, w)),
    "time": lambda v, w: parse_time(as_text(v, w)),
    "timestamp": lambda v, w: _read_timestamp(v, w, MICROS_PER_SECOND, False),
    "timestamptz": lambda v, w: _read_timestamp(v, w, MICROS_PER_SECOND, True),
    "timestamp_ns": lambda v, w: _read_timestamp(v, w, NANOS_PER_SECOND, False),
    "timestamptz_ns": lambda v, w: _read_timestamp(v, w, NANOS_PER_SECOND, True),
}


def _primitive_from_json(type_: IcebergType, value: Any, what: str) -> Any:
    if isinstance(type_, DecimalType):
        return _read_decimal(type_, value, what)
    if isinstance(type_, FixedType):
        data = bytes.fromhex(as_text(value, what))
        if len(data) != type_.length:
            raise ValueError(f"must have {2 * type_.length} hex digits")
        return data
    read = _FROM_JSON.get(type_.name) if isinstance(type_, PrimitiveType) else None
    if read is None:
        raise UnsupportedError(f"not supported: {what} of type {type_}, because only null can be given for it")
    return read(value, what)


def from_json_value(type_: IcebergType, value: Any, what: str = "value") -> Any:
    """The canonical value; JSON null is None, a struct's absent sub-field too.

    Raises CorruptTableError if the JSON is not a value of the type, UnsupportedError for a type without a JSON form.
    """
    if value is None:
        return None
    try:
        if isinstance(type_, StructType):
            if not isinstance(value, dict):
                raise ValueError("must be an object keyed by field id")
            return tuple(from_json_value(f.type, value.get(str(f.field_id)), f"{what}.{f.field_id}") for f in type_.fields)
        if isinstance(type_, ListType):
            return [from_json_value(type_.element.type, v, f"{what}[]") for v in as_list(value, what)]
        if isinstance(type_, MapType):
            return _map_from_json(type_, value, what)
        return _primitive_from_json(type_, value, what)
    except (ValueError, OverflowError) as e:
        raise CorruptTableError(f"{what} {value!r} is not a value of type {type_}: {e}") from None


def _map_from_json(type_: MapType, value: Any, what: str) -> list[tuple[Any, Any]]:
    if not isinstance(value, dict) or not isinstance(value.get("keys"), list) or not isinstance(value.get("values"), list):
        raise ValueError('must be an object {"keys": [...], "values": [...]}')
    keys, values = value["keys"], value["values"]
    if len(keys) != len(values):
        raise ValueError(f"has {len(keys)} keys and {len(values)} values")
    return [
        (from_json_value(type_.key.type, k, f"{what}.keys"), from_json_value(type_.value.type, v, f"{what}.values"))
        for k, v in zip(keys, values, strict=True)
    ]
