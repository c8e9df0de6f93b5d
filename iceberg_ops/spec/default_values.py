"""Checks that a Python value is a canonical value of a type (``iceberg_ops.spec.types``), so that it can be stored as a default.

A default of another type would be written in a form that readers do not accept for the column's type, and the table could no longer
be loaded. NaN and the infinities are values of float and double; ``iceberg_ops.spec.validity`` decides which of them may be stored.
Spec: "Default values", Appendix D.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from iceberg_ops.config.unicode_text import is_unicode
from iceberg_ops.config.whole_numbers import INT_MAX, LONG_MAX
from iceberg_ops.spec.epoch import MICROS_PER_SECOND, SECONDS_PER_DAY
from iceberg_ops.spec.types import DecimalType, FixedType, IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType
from iceberg_ops.spec.values import float32

_DAY = MICROS_PER_SECOND * SECONDS_PER_DAY


def why_no_value(type_: IcebergType, value: Any) -> str | None:
    """Why a non-null value is not of the type; None if it is."""
    if isinstance(type_, StructType):
        if not isinstance(value, tuple) or len(value) != len(type_.fields):
            return f"must be a tuple of {len(type_.fields)} values"
        return _first(_why_no_part(f, part) for f, part in zip(type_.fields, value, strict=True) if part is not None)
    if isinstance(type_, ListType):
        if not isinstance(value, list):
            return "must be a list"
        return _first(_why_no_part(type_.element, part) for part in value)
    if isinstance(type_, MapType):
        if not isinstance(value, list) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in value):
            return "must be a list of (key, value) pairs"
        return _first(_why_no_part(f, part) for pair in value for f, part in zip((type_.key, type_.value), pair, strict=True))
    if isinstance(type_, DecimalType):
        return _why_no_decimal(type_, value)
    if isinstance(type_, FixedType):
        return None if isinstance(value, bytes) and len(value) == type_.length else f"must be {type_.length} bytes"
    rule, holds = _PRIMITIVES.get(type_.name if isinstance(type_, PrimitiveType) else "", ("must be null", lambda _: False))
    return None if holds(value) else rule


def _first(reasons: Any) -> str | None:
    return next((why for why in reasons if why is not None), None)


def _why_no_part(f: NestedField, value: Any) -> str | None:
    if value is None:
        return f"{f.name} is required and must not be null" if f.required else None
    why = why_no_value(f.type, value)
    return None if why is None else f"{f.name} {why}"


def _why_no_decimal(type_: DecimalType, value: Any) -> str | None:
    if not isinstance(value, Decimal) or not value.is_finite():
        return "must be a finite decimal.Decimal"
    _, digits, exponent = value.as_tuple()
    if exponent != -type_.scale:
        return f"must have exactly {type_.scale} digits after the point"
    return f"must have at most {type_.precision} digits" if value and len(digits) > type_.precision else None


def _whole(low: int, high: int) -> tuple[str, Callable[[Any], bool]]:
    return f"must be a whole number from {low} to {high}", lambda v: type(v) is int and low <= v <= high


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_unicode(value)


_LONG = _whole(-LONG_MAX - 1, LONG_MAX)
_INT = _whole(-INT_MAX - 1, INT_MAX)
_PRIMITIVES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "boolean": ("must be True or False", lambda v: isinstance(v, bool)),
    "int": _INT,
    "long": _LONG,
    "float": ("must be a 32-bit float", lambda v: isinstance(v, float) and (v != v or float32(v) == v)),  # noqa: PLR0124 - NaN
    "double": ("must be a float", lambda v: isinstance(v, float)),
    "date": _INT,
    "time": _whole(0, _DAY - 1),
    "timestamp": _LONG,
    "timestamptz": _LONG,
    "timestamp_ns": _LONG,
    "timestamptz_ns": _LONG,
    "string": ("must be text that UTF-8 can hold", _is_text),
    "uuid": ("must be a uuid.UUID", lambda v: isinstance(v, uuid.UUID)),
    "binary": ("must be bytes", lambda v: isinstance(v, bytes)),
}
