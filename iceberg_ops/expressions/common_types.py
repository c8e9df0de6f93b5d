"""The type in which Spark compares a column with literals, if it changes the result.

Spark (ANSI mode) casts both sides of a comparison to a common type, and all items of an IN list and the column to one: in
``price IN (1.5, 2D)`` all are doubles. For a single literal that type can hold either side exactly, with one
exception: a decimal has 38 digits, and if both sides need more, Spark rounds them before it compares, so that 0.6 in a
decimal(38, 38) column equals 0.60000000000000000000000000001 beside 12345678901L. ``spark_interval`` gives Spark's result.

The number of digits that Spark assumes for an integer depends on its spelling (``1`` has one, ``int(1)`` ten), which a ``Literal``
does not record. If that matters, and if Spark rounds for = but not for <, the result is a ValueError.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal

from iceberg_ops.expressions.comparisons import LONG_RANGE, Interval, TypesDoNotCompareError, interval, search
from iceberg_ops.expressions.literal_casts import cast
from iceberg_ops.expressions.predicates import Literal
from iceberg_ops.spec.types import BINARY, DOUBLE, LONG, TIMESTAMP_NS, TIMESTAMPTZ_NS, DecimalType, PrimitiveType
from iceberg_ops.spec.values import decimal_of

MOST_DIGITS = 38
_WHOLE_DIGITS = {"int": 10, "long": 20}
_FLOATING = frozenset({"float", "double"})
_NUMERIC = frozenset({"int", "long", "float", "double", "decimal"})
_DATED = ("date", "timestamp", "timestamptz")
"""Narrowest first: of two types, Spark uses the later one."""
_NANOS = frozenset({"timestamp_ns", "timestamptz_ns"})
_TAKES_TEXT = frozenset({*_DATED, *_NANOS, "boolean", "binary", "fixed", "time", "uuid"})
_WIDE = Context(prec=200, rounding=ROUND_HALF_UP)


Shared = tuple[PrimitiveType | None, PrimitiveType | None]
"""The types to which a comparison's sides may be cast (see ``shared_types``)."""


def shared_types(column: PrimitiveType, literals: Sequence[Literal]) -> Shared:
    """The types to which Spark may cast ``column`` and all literals of one comparison (of a whole IN list). None: there is none."""
    return _common(column, literals, False), _common(column, literals, True)


def spark_interval(column: PrimitiveType, literal: Literal, shared: Shared, *, ordered: bool) -> Interval:
    """Where ``literal`` lies among the values of ``column``, as Spark sees it.

    ``shared`` are the types of the whole comparison; ``ordered``: the operator is <, <=, > or >=. Raises ValueError if the types
    cannot be compared, or if the result depends on information that is not available here.
    """
    if ordered and column.name in _WHOLE_DIGITS and isinstance(literal.type, DecimalType):
        _refuse_beyond_long(column, literal)
    intervals = {_interval_in(column, literal, type_) for type_ in shared}
    if ordered and column.name in _WHOLE_DIGITS and any(_rounds(column, literal, type_) for type_ in shared):
        intervals.add(interval(column, literal))
    if len(intervals) > 1:
        raise ValueError(
            f"together they need more than {MOST_DIGITS} digits, and Spark would round: write a literal of at most "
            f"{_places_left(column)} digits before the point, as CAST('...' AS DECIMAL(p, s))"
        )
    return intervals.pop()


def _refuse_beyond_long(column: PrimitiveType, literal: Literal) -> None:
    if not LONG_RANGE[0] <= literal.value <= LONG_RANGE[1]:
        raise ValueError(f"it is beyond every {column}, and Spark would answer so for NULL, too: write IS NULL or IS NOT NULL")


def _places_left(column: PrimitiveType) -> int:
    return MOST_DIGITS - (column.scale if isinstance(column, DecimalType) else 0)


def _common(column: PrimitiveType, literals: Sequence[Literal], wide: bool) -> PrimitiveType | None:
    """The type to which all of them are cast; ``wide``: integers count with all digits of their type, not with their own."""
    decimals = isinstance(column, DecimalType) or any(isinstance(v.type, DecimalType) for v in literals)

    def literal_type(literal: Literal) -> PrimitiveType:
        if wide or not decimals or literal.type.name not in _WHOLE_DIGITS:
            return literal.type
        return DecimalType(precision=len(str(abs(literal.value))), scale=0)

    type_: PrimitiveType | None = column
    for literal in literals:
        type_ = wider(type_, literal_type(literal))
    return type_


def wider(a: PrimitiveType | None, b: PrimitiveType | None) -> PrimitiveType | None:
    """The type to which Spark casts values of both; None if there is none."""
    if a is None or b is None or a == b:
        return a if a == b else None
    names = {a.name, b.name}
    if names <= _NUMERIC:
        return _wider_number(a, b)
    if "string" in names:
        other = b if a.name == "string" else a
        if other.name in _NUMERIC:
            return LONG if other.name in _WHOLE_DIGITS else DOUBLE
        return other if other.name in _TAKES_TEXT else None
    if names <= {*_DATED, *_NANOS}:
        if names & _NANOS:
            return TIMESTAMPTZ_NS if any("tz" in name for name in names) else TIMESTAMP_NS
        return max(a, b, key=lambda type_: _DATED.index(type_.name))
    return BINARY if names <= {"binary", "fixed"} else None


def _wider_number(a: PrimitiveType, b: PrimitiveType) -> PrimitiveType:
    if a.name in _FLOATING or b.name in _FLOATING:
        return DOUBLE
    if a.name in _WHOLE_DIGITS and b.name in _WHOLE_DIGITS:
        return LONG
    (p, s), (q, t) = _digits(a), _digits(b)
    before, after = max(p - s, q - t), max(s, t)
    if before + after <= MOST_DIGITS:
        return DecimalType(precision=before + after, scale=after)
    return DecimalType(precision=MOST_DIGITS, scale=max(0, MOST_DIGITS - before))


def _digits(type_: PrimitiveType) -> tuple[int, int]:
    return (type_.precision, type_.scale) if isinstance(type_, DecimalType) else (_WHOLE_DIGITS[type_.name], 0)


def _rounds(column: PrimitiveType, literal: Literal, shared: PrimitiveType | None) -> bool:
    """Whether one of them has more digits after the point than the decimal type of the comparison."""
    if not isinstance(shared, DecimalType):
        return False
    return any(isinstance(t, DecimalType) and t.scale > shared.scale for t in (column, literal.type))


def _interval_in(column: PrimitiveType, literal: Literal, shared: PrimitiveType | None) -> Interval:
    if shared is None:
        raise TypesDoNotCompareError("the types do not compare")
    if isinstance(shared, DecimalType):
        if _rounds(column, literal, shared):
            return _rounded(column, literal, shared)
        return interval(column, literal)
    if shared != wider(column, literal.type):
        literal = cast(literal, shared)
    return interval(column, literal)


def _rounded(column: PrimitiveType, literal: Literal, shared: DecimalType) -> Interval:
    whole = int(Decimal(literal.value).scaleb(shared.scale, _WIDE).to_integral_value(ROUND_HALF_UP, _WIDE))
    if abs(whole) >= 10**shared.precision:
        raise ValueError(f"{literal.value} does not fit {shared}, in which Spark compares them")
    if not isinstance(column, DecimalType) or column.scale <= shared.scale:
        return interval(column, Literal(decimal_of(whole, shared.scale), shared))
    unit, top = 10 ** (column.scale - shared.scale), 10**column.precision - 1
    return search(-top, top, lambda n: _half_up(n, unit), whole, lambda n: decimal_of(n, column.scale))


def _half_up(number: int, unit: int) -> int:
    """``number / unit``, halves away from zero."""
    rounded = (2 * abs(number) + unit) // (2 * unit)
    return rounded if number >= 0 else -rounded
