"""CAST of one literal to another type, as Spark 4 in ANSI mode folds it: a value that cannot be converted is an error, not a null.

Only literals are cast here, not columns. Raises ValueError for casts that Spark refuses, and NotFolded for casts that Spark may
allow and this package does not (numbers to timestamps, timestamps to text). A cast to uuid exists only here: Spark has none.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from iceberg_ops.expressions.comparisons import (
    INT_RANGE,
    LONG_RANGE,
    at_microseconds,
    next_float32,
    parse_timestamp_literal,
    timestamp_literal,
)
from iceberg_ops.expressions.literal_text import (
    MOST_DIGITS,
    TRIMMED_BY_JAVA,
    NotFolded,
    boolean_from_text,
    date_from_text,
    decimal_from_text,
    floating_from_text,
    is_hexadecimal,
    time_from_text,
    uuid_from_text,
    whole_from_text,
)
from iceberg_ops.expressions.predicates import Literal
from iceberg_ops.spec.epoch import MICROS_PER_SECOND, SECONDS_PER_DAY, iso_date
from iceberg_ops.spec.types import BOOLEAN, DATE, FLOAT, INT, LONG, STRING, TIME, DecimalType, PrimitiveType
from iceberg_ops.spec.values import decimal_of, float32, float_text

WIDTHS = {"tinyint": (-128, 127), "smallint": (-32768, 32767), "int": INT_RANGE, "long": LONG_RANGE}
READ_ALIKE = frozenset({"boolean", "int", "long", "float", "double", "decimal", "string", "binary"})
"""Types for which Spark casts no text that this package refuses."""
_MICROS_PER_DAY = SECONDS_PER_DAY * MICROS_PER_SECOND
_INSTANTS = frozenset({"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"})


def to_whole(literal: Literal, width: str) -> Literal:
    """CAST to TINYINT, SMALLINT, INT or BIGINT (``width``: a key of WIDTHS). Fractions are truncated toward zero."""
    value = literal.value
    if isinstance(value, str):
        number = whole_from_text(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is not a whole number")
    elif isinstance(value, bool | int | float | Decimal) and _is_number(literal):
        number = int(value)
        if isinstance(value, Decimal) and width != "long" and number != int(float(value)):
            raise NotFolded(f"{value} is another {width} by way of a double, which is how Spark casts decimals of many digits")
    else:
        raise NotFolded(f"a {literal.type} literal cannot be cast to {width}")
    low, high = WIDTHS[width]
    if not low <= number <= high:
        raise ValueError(f"{number} is outside {width}")
    return Literal(number, LONG if width == "long" else INT)


def _is_number(literal: Literal) -> bool:
    return literal.type.name in ("boolean", "int", "long", "float", "double", "decimal")


def _to_floating(literal: Literal, target: PrimitiveType) -> Literal:
    value = literal.value
    if isinstance(value, str):
        number = floating_from_text(value)
    elif _is_number(literal):
        number = float(value)
    else:
        raise NotFolded(f"a {literal.type} literal cannot be cast to {target}")
    return Literal(_nearest_float(literal, number) if target == FLOAT else number, target)


def _nearest_float(literal: Literal, number: float) -> float:
    """Rounded once: rounding an integer or decimal to a double first could put it half way between two floats."""
    near = float32(number)
    if near == number or not math.isfinite(number) or not math.isfinite(near) or isinstance(literal.value, float):
        return near
    if isinstance(literal.value, str) and is_hexadecimal(literal.value):
        raise NotFolded(f"{literal.value!r} as a float")
    exact = Fraction(
        Decimal(literal.value.strip(TRIMMED_BY_JAVA).rstrip("dDfF")) if isinstance(literal.value, str) else literal.value
    )
    around = [next_float32(near, -1), near, next_float32(near, 1)]
    return min(around, key=lambda f: (abs(Fraction(f) - exact) if math.isfinite(f) else math.inf, _is_odd(f), f != near))


def _is_odd(value: float) -> bool:
    """Whether the last bit of a 32-bit float is set: of two equally near floats, the even one is used."""
    return bool(struct.unpack("<I", struct.pack("<f", value))[0] & 1)


def _to_decimal(literal: Literal, target: DecimalType) -> Literal:
    value = literal.value
    if isinstance(value, str):
        number = decimal_from_text(value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a valid decimal")
        number = Decimal(repr(value))
    elif _is_number(literal):
        number = Decimal(int(value)) if isinstance(value, bool) else Decimal(value)
    else:
        raise NotFolded(f"a {literal.type} literal cannot be cast to {target}")
    exact = Context(prec=len(number.as_tuple().digits) + MOST_DIGITS, rounding=ROUND_HALF_UP)
    whole = int(number.scaleb(target.scale, exact).to_integral_value(ROUND_HALF_UP)) if number else 0
    if abs(whole) >= 10**target.precision:
        raise ValueError(f"{value} is outside {target}")
    return Literal(decimal_of(whole, target.scale), target)


def _to_boolean(literal: Literal, _: PrimitiveType) -> Literal:
    if isinstance(literal.value, str):
        return Literal(boolean_from_text(literal.value), BOOLEAN)
    if _is_number(literal):
        return Literal(bool(literal.value), BOOLEAN)
    raise NotFolded(f"a {literal.type} literal cannot be cast to boolean")


def _to_date(literal: Literal, _: PrimitiveType) -> Literal:
    if isinstance(literal.value, str):
        return Literal(date_from_text(literal.value), DATE)
    if literal.type.name in _INSTANTS:
        return Literal(at_microseconds(literal).value // _MICROS_PER_DAY, DATE)
    raise NotFolded(f"a {literal.type} literal cannot be cast to date")


def _to_timestamp(literal: Literal, target: PrimitiveType) -> Literal:
    if isinstance(literal.value, str):
        return parse_timestamp_literal(literal.value, target)
    if literal.type == DATE:
        return timestamp_literal(literal.value * _MICROS_PER_DAY * 1000, target)
    if literal.type.name in _INSTANTS:
        nanos = literal.value * (1 if literal.type.name.endswith("_ns") else 1000)
        return timestamp_literal(nanos, target)
    raise NotFolded(f"a {literal.type} literal cannot be cast to {target}")


def _to_time(literal: Literal, _: PrimitiveType) -> Literal:
    if isinstance(literal.value, str):
        return Literal(time_from_text(literal.value), TIME)
    raise NotFolded(f"a {literal.type} literal cannot be cast to time")


def _to_string(literal: Literal, _: PrimitiveType) -> Literal:
    value, name = literal.value, literal.type.name
    if name == "boolean":
        return Literal("true" if value else "false", STRING)
    if name in ("int", "long"):
        return Literal(str(value), STRING)
    if name in ("float", "double"):
        return Literal(float_text(value, single=name == "float"), STRING)
    if name == "decimal":
        return Literal(f"{value:f}", STRING)
    if name == "date":
        return Literal(iso_date(value), STRING)
    if name == "binary":
        try:
            return Literal(value.decode("utf-8"), STRING)
        except UnicodeDecodeError as e:
            raise NotFolded(f"{value!r} is not text: {e}") from None
    raise NotFolded(f"a {literal.type} literal cannot be cast to string here")


def _to_binary(literal: Literal, target: PrimitiveType) -> Literal:
    if isinstance(literal.value, str):
        return Literal(literal.value.encode("utf-8"), target)
    raise NotFolded(f"a {literal.type} literal cannot be cast to binary")


def _to_uuid(literal: Literal, target: PrimitiveType) -> Literal:
    if isinstance(literal.value, str):
        return Literal(uuid_from_text(literal.value), target)
    raise NotFolded(f"a {literal.type} literal cannot be cast to uuid")


_CASTS: dict[str, Callable[[Literal, Any], Literal]] = {
    "boolean": _to_boolean,
    "int": lambda literal, _: to_whole(literal, "int"),
    "long": lambda literal, _: to_whole(literal, "long"),
    "float": _to_floating,
    "double": _to_floating,
    "decimal": _to_decimal,
    "date": _to_date,
    "time": _to_time,
    "timestamp": _to_timestamp,
    "timestamptz": _to_timestamp,
    "timestamp_ns": _to_timestamp,
    "timestamptz_ns": _to_timestamp,
    "string": _to_string,
    "binary": _to_binary,
    "uuid": _to_uuid,
}


def cast(literal: Literal, target: PrimitiveType) -> Literal:
    """``CAST(literal AS target)``. Raises ValueError."""
    if literal.type == target:
        return literal
    if target.name not in _CASTS:
        raise NotFolded(f"a {literal.type} literal cannot be cast to {target}")
    return _CASTS[target.name](literal, target)
