"""Compares a literal of one type with a column of another: which column values are at, below and above it.

Spark compares by casting both sides to a common type. Every such cast of a column is monotone, so the result is an interval of
column values, and a comparison with the literal becomes an exact comparison with the interval's ends, without casting the column:
``int_column > 1.5`` is ``int_column > 1``, ``float_column = 0.1`` holds for no float, ``long_column = 9007199254740992D`` for two.

``interval`` raises ValueError if Spark would refuse the comparison (or if only a cast of the column's text could decide it).
Text without offset is UTC, and so are dates and timestamps without zone compared with timestamps with one. A literal with digits
beyond microseconds keeps them for a nanosecond column; for every other column they are truncated first, as in Spark.
"""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from iceberg_ops.expressions.literal_text import (
    boolean_from_text,
    date_from_text,
    floating_from_text,
    time_from_text,
    timestamp_from_text,
    uuid_from_text,
    whole_from_text,
)
from iceberg_ops.expressions.predicates import Literal, one_nan
from iceberg_ops.spec.epoch import MICROS_PER_SECOND, NANOS_PER_SECOND, SECONDS_PER_DAY, days_from_civil
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    DecimalType,
    FixedType,
    IcebergType,
    PrimitiveType,
)
from iceberg_ops.spec.types import UUID as UUID_TYPE
from iceberg_ops.spec.values import decimal_of, float32, unscaled


class TypesDoNotCompareError(ValueError):
    """Spark refuses to compare the types, or converts the column first (for example text compared with a number)."""


INT_RANGE = (-(2**31), 2**31 - 1)
LONG_RANGE = (-(2**63), 2**63 - 1)
_WHOLE = {"int": INT_RANGE, "long": LONG_RANGE}
_TICKS_PER_SECOND = {
    "timestamp": MICROS_PER_SECOND,
    "timestamptz": MICROS_PER_SECOND,
    "timestamp_ns": NANOS_PER_SECOND,
    "timestamptz_ns": NANOS_PER_SECOND,
}
_IN_NANOS = {"timestamp": TIMESTAMP_NS, "timestamptz": TIMESTAMPTZ_NS}
_NUMERIC = frozenset({"int", "long", "float", "double", "decimal"})
_DATED = frozenset({"date", *_TICKS_PER_SECOND})


@dataclass(frozen=True, slots=True)
class Interval:
    """``low``: the least column value at or above the literal, None if there is none; ``high``: the greatest at or below it. Equal
    if a column value equals the literal; crossed (or one missing) if none does."""

    low: Any
    high: Any


def _point(value: Any) -> Interval:
    value = one_nan(value)
    return Interval(value, value)


def interval(column: PrimitiveType, literal: Literal) -> Interval:
    """Where ``literal`` lies among the values of ``column``. Raises ValueError if the two cannot be compared."""
    source = literal.type.name
    if source == "string" and column.name not in ("string", "uuid"):
        literal = _string_as(column, literal.value)
        source = literal.type.name
    if column.name in _NUMERIC and source in _NUMERIC:
        return _numeric(column, literal)
    if column.name in _DATED and source in _DATED:
        return _dated(column, literal)
    if isinstance(column, FixedType) and source in ("binary", "fixed"):
        return _fixed(column.length, literal.value)
    if column.name == "binary" and source in ("binary", "fixed"):
        return _point(literal.value)
    if column.name == "uuid" and source in ("uuid", "string"):
        return _point(literal.value if source == "uuid" else _parse_uuid(literal.value))
    if column.name == "string" and source == "binary":
        return _point(literal.value.decode("utf-8"))
    if column.name == source and source in ("boolean", "string", "time"):
        return _point(literal.value)
    raise TypesDoNotCompareError("the types do not compare")


def _string_as(column: PrimitiveType, text: str) -> Literal:
    """The type to which Spark casts a string that is compared with such a column."""
    if column.name in _WHOLE:
        return Literal(whole_from_text(text), LONG)
    if column.name in _NUMERIC:
        return Literal(floating_from_text(text), DOUBLE)
    if column.name == "date":
        return Literal(date_from_text(text), DATE)
    if column.name == "boolean":
        return Literal(boolean_from_text(text), BOOLEAN)
    if column.name == "time":
        return Literal(time_from_text(text), TIME)
    if column.name in _TICKS_PER_SECOND:
        return parse_timestamp_literal(text, TIMESTAMPTZ if "tz" in column.name else TIMESTAMP)
    if column.name in ("binary", "fixed"):
        return Literal(text.encode("utf-8"), BINARY)
    raise TypesDoNotCompareError("the types do not compare")


def _parse_uuid(text: str) -> uuid.UUID:
    """A text that spells a uuid. Spark holds uuids as text and compares letters, so any other spelling would select other rows
    in Spark than here."""
    value = uuid_from_text(text)
    if str(value) != text:
        raise ValueError(f"only the spelling '{value}' is compared as text: write that, or CAST('{text}' AS uuid)")
    return value


def parse_timestamp_literal(text: str, type_: PrimitiveType) -> Literal:
    """A text as a literal of the timestamp type ``type_``. Raises ValueError, also for a zone in a timestamp without zone: Spark
    would ignore the zone and compare local times."""
    nanos, zoned = timestamp_from_text(text)
    if zoned and "tz" not in type_.name:
        raise ValueError(f"{text!r} has a time zone, which a timestamp without zone does not: leave it out")
    return timestamp_literal(nanos, type_)


def timestamp_literal(nanos: int, type_: PrimitiveType) -> Literal:
    """A literal of the timestamp type ``type_``, or of its nanosecond variant if it has digits beyond microseconds."""
    if type_.name.endswith("_ns"):
        return Literal(nanos, type_)
    return Literal(nanos, _IN_NANOS[type_.name]) if nanos % 1000 else Literal(nanos // 1000, type_)


def at_microseconds(literal: Literal) -> Literal:
    """A literal without digits beyond microseconds; any other literal unchanged."""
    cut = {"timestamp_ns": TIMESTAMP, "timestamptz_ns": TIMESTAMPTZ}.get(literal.type.name)
    return literal if cut is None else Literal(literal.value // 1000, cut)


def _numeric(column: PrimitiveType, literal: Literal) -> Interval:
    value = literal.value
    floating = isinstance(value, float)
    if column.name == "double":
        return _point(_as_double(value))
    if column.name == "float":
        return _among_floats(_as_double(value))
    if floating and not math.isfinite(value):
        lowest, highest = _ends(column)
        return Interval(lowest, None) if value == -math.inf else Interval(None, highest)
    if column.name in _WHOLE:
        lowest, highest = _WHOLE[column.name]
        if floating and abs(value) >= 2**53:
            return search(lowest, highest, float, value, lambda whole: whole)
        return _clip(math.ceil(Fraction(value)), math.floor(Fraction(value)), lowest, highest)
    assert isinstance(column, DecimalType)
    scale, top = column.scale, 10**column.precision - 1
    if floating:
        return search(-top, top, lambda whole: float(decimal_of(whole, scale)), value, lambda whole: decimal_of(whole, scale))
    exact = Fraction(value) * Fraction(10) ** scale
    bounds = _clip(math.ceil(exact), math.floor(exact), -top, top)
    return Interval(*(None if end is None else decimal_of(end, scale) for end in (bounds.low, bounds.high)))


def _ends(column: PrimitiveType) -> tuple[Any, Any]:
    if isinstance(column, DecimalType):
        top = 10**column.precision - 1
        return decimal_of(-top, column.scale), decimal_of(top, column.scale)
    return _WHOLE[column.name]


def _clip(low: int, high: int, lowest: int, highest: int) -> Interval:
    """The interval [low, high] (crossed by one if nothing equals), limited to a type's range."""
    return Interval(None if low > highest else max(low, lowest), None if high < lowest else min(high, highest))


def search(lowest: int, highest: int, cast: Callable[[int], Any], value: Any, result: Callable[[int], Any]) -> Interval:
    """``interval`` by bisection, for a monotone ``cast`` of integers that may map neighbours to one value."""

    def first(test: Callable[[Any], bool]) -> int:
        low, high = lowest, highest + 1
        while low < high:
            middle = (low + high) // 2
            if test(cast(middle)):
                high = middle
            else:
                low = middle + 1
        return low

    at, above = first(lambda d: d >= value), first(lambda d: d > value)
    return Interval(None if at > highest else result(at), None if above == lowest else result(above - 1))


def _as_double(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _among_floats(value: float) -> Interval:
    """The 32-bit floats between which a double lies."""
    near = float32(value)
    if near == value or math.isnan(value):
        return _point(near)
    return Interval(near, next_float32(near, -1)) if near > value else Interval(next_float32(near, 1), near)


def next_float32(value: float, direction: int) -> float:
    """The neighbour of a 32-bit float. From an infinity it is the largest finite float."""
    if math.isinf(value):
        largest = (2.0 - 2.0**-23) * 2.0**127
        return math.copysign(largest, value) if (value > 0) != (direction > 0) else value
    if value == 0:
        return direction * 2.0**-149
    _, exponent = math.frexp(value)
    step = 2.0 ** max(exponent - 24, -149)
    if abs(math.frexp(value)[0]) == 0.5 and (value > 0) != (direction > 0):
        step = 2.0 ** max(exponent - 25, -149)
    return float32(value + direction * step)


def _dated(column: PrimitiveType, literal: Literal) -> Interval:
    """Dates and timestamps of any unit: compared as instants, a date as its midnight."""
    if not column.name.endswith("_ns"):
        literal = at_microseconds(literal)
    nanos = literal.value * _nanos_per_unit(literal.type)
    unit = _nanos_per_unit(column)
    lowest, highest = INT_RANGE if column.name == "date" else LONG_RANGE
    return _clip(-(-nanos // unit), nanos // unit, lowest, highest)


def _nanos_per_unit(type_: PrimitiveType) -> int:
    if type_.name == "date":
        return SECONDS_PER_DAY * NANOS_PER_SECOND
    return NANOS_PER_SECOND // _TICKS_PER_SECOND[type_.name]


def _fixed(length: int, value: bytes) -> Interval:
    """Bytes of any length among those of one length."""
    if len(value) == length:
        return _point(value)
    floor = int.from_bytes(value[:length].ljust(length, b"\x00"), "big")
    low, high = (floor, floor - 1) if len(value) < length else (floor + 1, floor)
    ends = (None if end < 0 or end >= 256**length else end.to_bytes(length, "big") for end in (low, high))
    return Interval(*ends)


def source_interval(transform: Transform, source: IcebergType, place: Interval) -> Interval:
    """The interval of source values whose year, month, day or hour lies in ``place``."""
    assert isinstance(source, PrimitiveType)
    lowest, highest = INT_RANGE if source.name == "date" else LONG_RANGE
    low = None if place.low is None else _start(transform.name, source, place.low)
    high = None if place.high is None else _start(transform.name, source, place.high + 1) - 1
    return Interval(
        None if low is None or low > highest else max(low, lowest), None if high is None or high < lowest else min(high, highest)
    )


def _start(period: str, source: PrimitiveType, count: int) -> int:
    """The first value of the ``count``-th period from 1970."""
    if period == "hour":
        return count * 3600 * _TICKS_PER_SECOND[source.name]
    year, month = {"year": (count, 0), "month": divmod(count, 12)}.get(period, (0, 0))
    days = count if period == "day" else days_from_civil(1970 + year, month + 1, 1)
    return days if source.name == "date" else days * SECONDS_PER_DAY * _TICKS_PER_SECOND[source.name]


def plain_literal(column: PrimitiveType, value: Any) -> Literal:
    """The literal of a plain Python value for ``column``: canonical, one of Python's date and time classes, or the
    text of Iceberg's JSON single-value form. Raises ValueError."""
    if isinstance(value, bool):
        return Literal(value, BOOLEAN)
    if isinstance(value, dt.datetime):
        return _from_datetime(value)
    if isinstance(value, dt.date):
        return Literal(value.toordinal() - dt.date(1970, 1, 1).toordinal(), DATE)
    if isinstance(value, dt.time):
        return Literal(((value.hour * 60 + value.minute) * 60 + value.second) * MICROS_PER_SECOND + value.microsecond, TIME)
    if isinstance(value, uuid.UUID):
        return Literal(value, UUID_TYPE)
    if isinstance(value, bytes | bytearray | memoryview):
        return Literal(bytes(value), BINARY)
    if isinstance(value, str):
        return _from_text(column, value)
    if isinstance(value, int):
        if column.name in ("date", "time", *_TICKS_PER_SECOND):
            return Literal(value, column)
        return Literal(value, INT if INT_RANGE[0] <= value <= INT_RANGE[1] else LONG)
    if isinstance(value, float):
        near = float32(value)  # the meaning of a JSON number in a float column, unless it is out of range for floats
        return Literal(near if column.name == "float" and math.isinf(near) == math.isinf(value) else value, DOUBLE)
    if isinstance(value, Decimal) and value.is_finite():
        return decimal_literal(value)
    raise ValueError(f"a value of class {type(value).__name__} is not a literal")


def decimal_literal(value: Decimal) -> Literal:
    """A decimal literal of the least precision that can hold ``value``, at its own scale. Raises ValueError beyond 38 digits."""
    exponent = int(value.as_tuple().exponent)
    if exponent < -38 or (value and value.adjusted() >= 38):
        raise ValueError(f"{value} has more than 38 digits")
    scale = max(-exponent, 0)
    whole = unscaled(value) * 10 ** max(exponent, 0) if value else 0
    precision = max(len(str(abs(whole))), scale, 1)
    if precision > 38:
        raise ValueError(f"{value} has more than 38 digits")
    return Literal(decimal_of(whole, scale), DecimalType(precision=precision, scale=scale))


def _from_datetime(value: dt.datetime) -> Literal:
    aware = value.tzinfo is not None
    start = dt.datetime(1970, 1, 1, tzinfo=dt.UTC if aware else None)
    return Literal((value - start) // dt.timedelta(microseconds=1), TIMESTAMPTZ if aware else TIMESTAMP)


def _from_text(column: PrimitiveType, text: str) -> Literal:
    if column.name in ("binary", "fixed"):
        return Literal(bytes.fromhex(text), BINARY)
    if isinstance(column, DecimalType):
        return decimal_literal(Decimal(text))
    if column.name == "uuid":
        return Literal(uuid_from_text(text), column)
    return Literal(text, STRING)
