"""CAST of one literal to another type, as Spark 4 in ANSI mode folds it: what can not be kept exactly is an error, never a null.

Only literals are cast here; a cast of a column is not a literal's business. Raises ValueError for what Spark refuses and for the
few casts this package does not do (numbers to timestamps, dates to text of other formats).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from iceberg_ops.expressions.comparisons import INT_RANGE, LONG_RANGE
from iceberg_ops.expressions.literal_text import (
    boolean_from_text,
    date_from_text,
    decimal_text,
    floating_from_text,
    time_from_text,
    timestamp_from_text,
    whole_from_text,
)
from iceberg_ops.expressions.predicates import Literal
from iceberg_ops.spec.epoch import MICROS_PER_SECOND, SECONDS_PER_DAY, iso_date
from iceberg_ops.spec.types import BOOLEAN, DATE, FLOAT, INT, LONG, STRING, TIME, DecimalType, PrimitiveType
from iceberg_ops.spec.values import decimal_of, float32, float_text

WIDTHS = {"tinyint": (-128, 127), "smallint": (-32768, 32767), "int": INT_RANGE, "long": LONG_RANGE}
_MICROS_PER_DAY = SECONDS_PER_DAY * MICROS_PER_SECOND
_EXACT = Context(prec=2000, rounding=ROUND_HALF_UP)


def to_whole(literal: Literal, width: str) -> Literal:
    """CAST to TINYINT, SMALLINT, INT or BIGINT (``width``: a key of WIDTHS). Fractions are cut toward zero."""
    value = literal.value
    if isinstance(value, str):
        number = whole_from_text(value)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} is no whole number")
    elif isinstance(value, bool | int | float | Decimal) and _is_number(literal):
        number = int(value)
    else:
        raise ValueError(f"a {literal.type} literal can not be cast to {width}")
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
        raise ValueError(f"a {literal.type} literal can not be cast to {target}")
    return Literal(float32(number) if target == FLOAT else number, target)


def _to_decimal(literal: Literal, target: DecimalType) -> Literal:
    value = literal.value
    if isinstance(value, str):
        number = Decimal(decimal_text(value))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is no decimal")
        number = Decimal(repr(value))
    elif _is_number(literal):
        number = Decimal(int(value)) if isinstance(value, bool) else Decimal(value)
    else:
        raise ValueError(f"a {literal.type} literal can not be cast to {target}")
    whole = int(number.scaleb(target.scale, _EXACT).to_integral_value(ROUND_HALF_UP))
    if abs(whole) >= 10**target.precision:
        raise ValueError(f"{value} is outside {target}")
    return Literal(decimal_of(whole, target.scale), target)


def _to_boolean(literal: Literal, _: PrimitiveType) -> Literal:
    if isinstance(literal.value, str):
        return Literal(boolean_from_text(literal.value), BOOLEAN)
    if _is_number(literal):
        return Literal(bool(literal.value), BOOLEAN)
    raise ValueError(f"a {literal.type} literal can not be cast to boolean")


def _to_date(literal: Literal, _: PrimitiveType) -> Literal:
    if isinstance(literal.value, str):
        return Literal(date_from_text(literal.value), DATE)
    if literal.type.name in ("timestamp", "timestamptz"):
        return Literal(literal.value // _MICROS_PER_DAY, DATE)
    raise ValueError(f"a {literal.type} literal can not be cast to date")


def _to_timestamp(literal: Literal, target: PrimitiveType) -> Literal:
    if isinstance(literal.value, str):
        micros, zoned = timestamp_from_text(literal.value)
        if zoned and target.name == "timestamp" and literal.value.strip().lower() != "epoch":
            raise ValueError(f"{literal.value!r} has a time zone, a timestamp without zone has none")
        return Literal(micros, target)
    if literal.type == DATE:
        return Literal(literal.value * _MICROS_PER_DAY, target)
    if literal.type.name in ("timestamp", "timestamptz"):
        return Literal(literal.value, target)
    raise ValueError(f"a {literal.type} literal can not be cast to {target}")


def _to_time(literal: Literal, _: PrimitiveType) -> Literal:
    if isinstance(literal.value, str):
        return Literal(time_from_text(literal.value), TIME)
    raise ValueError(f"a {literal.type} literal can not be cast to time")


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
        return Literal(value.decode("utf-8"), STRING)
    raise ValueError(f"a {literal.type} literal can not be cast to string here")


def _to_binary(literal: Literal, target: PrimitiveType) -> Literal:
    if isinstance(literal.value, str):
        return Literal(literal.value.encode("utf-8"), target)
    raise ValueError(f"a {literal.type} literal can not be cast to binary")


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
    "string": _to_string,
    "binary": _to_binary,
}


def cast(literal: Literal, target: PrimitiveType) -> Literal:
    """``CAST(literal AS target)``. Raises ValueError."""
    if literal.type == target:
        return literal
    if target.name not in _CASTS:
        raise ValueError(f"a {literal.type} literal can not be cast to {target}")
    return _CASTS[target.name](literal, target)
