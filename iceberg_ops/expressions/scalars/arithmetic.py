"""Arithmetic of Spark in ANSI mode: a value that does not fit its type is an error, and so is a division by zero of any type.

Each function takes the types of a call and returns the evaluation of two (or one) canonical values. Raises ArithmeticError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from iceberg_ops.expressions.comparisons import INT_RANGE, LONG_RANGE
from iceberg_ops.expressions.literal_text import NotFolded
from iceberg_ops.spec.types import DOUBLE, FLOAT, INT, LONG, DecimalType, PrimitiveType
from iceberg_ops.spec.values import decimal_of, float32, unscaled

Evaluation = Callable[..., Any]
_RANGES = {INT: INT_RANGE, LONG: LONG_RANGE}
_DIGITS_OF_QUOTIENT = 39
"""The digits after the point to which Spark divides decimals, before it rounds to the result's scale."""
_SAFE_DIGITS, _LEAST_SAFE, _MOST_SAFE = 15, 1e-3, 1e7
"""Doubles for which every Java prints the fewest digits; rounding depends on these digits."""


def in_range(result: PrimitiveType) -> Callable[[int], int]:
    """Raises OverflowError for an integer outside int or long."""
    low, high = _RANGES[result]

    def checked(value: int) -> int:
        if not low <= value <= high:
            raise OverflowError(f"{value} is outside {result}")
        return value

    return checked


def _of_kind(
    result: PrimitiveType, whole: Callable[[int, int], int], floating: Callable[[float, float], float]
) -> Evaluation | None:
    if result in _RANGES:
        checked = in_range(result)
        return lambda x, y: checked(whole(x, y))
    if result == FLOAT:
        return lambda x, y: float32(floating(x, y))
    return floating if result == DOUBLE else None


def _scales(types: Sequence[PrimitiveType]) -> tuple[int, int]:
    left, right = types
    assert isinstance(left, DecimalType)
    assert isinstance(right, DecimalType)
    return left.scale, right.scale


def _aligned(types: Sequence[PrimitiveType], whole: Callable[[int, int], int]) -> Evaluation:
    """An operation on two decimals, with both as integers at the greater scale."""
    s, t = _scales(types)
    scale = max(s, t)
    left, right = 10 ** (scale - s), 10 ** (scale - t)
    return lambda x, y: decimal_of(whole(unscaled(x) * left, unscaled(y) * right), scale)


def add(types: Sequence[PrimitiveType], result: PrimitiveType) -> Evaluation:
    return _of_kind(result, lambda x, y: x + y, lambda x, y: x + y) or _aligned(types, lambda x, y: x + y)


def subtract(types: Sequence[PrimitiveType], result: PrimitiveType) -> Evaluation:
    return _of_kind(result, lambda x, y: x - y, lambda x, y: x - y) or _aligned(types, lambda x, y: x - y)


def multiply(types: Sequence[PrimitiveType], result: PrimitiveType) -> Evaluation:
    product = _of_kind(result, lambda x, y: x * y, lambda x, y: x * y)
    if product is not None:
        return product
    scale = sum(_scales(types))
    return lambda x, y: decimal_of(unscaled(x) * unscaled(y), scale)


def divide(types: Sequence[PrimitiveType], result: PrimitiveType) -> Evaluation:
    if not isinstance(result, DecimalType):
        return _checked_divisor(lambda x, y: x / y)
    s, t = _scales(types)
    widened = 10 ** (_DIGITS_OF_QUOTIENT + t - s)
    narrowed = 10 ** (_DIGITS_OF_QUOTIENT - result.scale)

    def quotient(x: Decimal, y: Decimal) -> Decimal:
        exact = half_up(unscaled(x) * widened, unscaled(y))
        return decimal_of(half_up(exact, narrowed), result.scale)

    return _checked_divisor(quotient)


def half_up(numerator: int, denominator: int) -> int:
    """Their quotient, halves away from zero."""
    negative = (numerator < 0) is not (denominator < 0)
    numerator, denominator = abs(numerator), abs(denominator)
    quotient = (2 * numerator + denominator) // (2 * denominator)
    return -quotient if negative else quotient


def remainder(types: Sequence[PrimitiveType], result: PrimitiveType) -> Evaluation:
    """The remainder with the sign of the dividend."""
    return _checked_divisor(_of_kind(result, _whole_remainder, _floating_remainder) or _aligned(types, _whole_remainder))


def positive_remainder(types: Sequence[PrimitiveType], result: PrimitiveType) -> Evaluation:
    """``pmod``: (a % n + n) % n if a % n is below zero. Raises NotFolded if Spark's sum wraps around."""
    plain, (low, _) = remainder(types, result), _RANGES[result]

    def pmod(x: int, y: int) -> int:
        rest: int = plain(x, y)
        if rest < 0 and rest + y < low:
            raise NotFolded(f"pmod({x}, {y})")
        return _whole_remainder(rest + y, y) if rest < 0 else rest

    return pmod


def _whole_remainder(x: int, y: int) -> int:
    rest = abs(x) % abs(y)
    return -rest if x < 0 else rest


def _floating_remainder(x: float, y: float) -> float:
    return math.nan if math.isinf(x) or math.isnan(x) or math.isnan(y) else math.fmod(x, y)


def whole_quotient(_: Sequence[PrimitiveType], result: PrimitiveType) -> Evaluation:
    """``div``, truncated toward zero."""
    checked = in_range(result)

    def div(x: int, y: int) -> int:
        quotient = abs(x) // abs(y)
        return checked(-quotient if (x < 0) is not (y < 0) else quotient)

    return _checked_divisor(div)


def _checked_divisor(operation: Evaluation) -> Evaluation:
    def checked(x: Any, y: Any) -> Any:
        if y == 0:
            raise ZeroDivisionError("division by zero")
        return operation(x, y)

    return checked


def negative(_: Sequence[PrimitiveType], result: PrimitiveType) -> Evaluation:
    if result in _RANGES:
        checked = in_range(result)
        return lambda x: checked(-x)
    return (lambda x: x.copy_negate() if x else x) if isinstance(result, DecimalType) else lambda x: -x


def absolute(_: Sequence[PrimitiveType], result: PrimitiveType) -> Evaluation:
    if result in _RANGES:
        checked = in_range(result)
        return lambda x: checked(abs(x))
    return (lambda x: x.copy_abs()) if isinstance(result, DecimalType) else abs


def floor(types: Sequence[PrimitiveType], _: PrimitiveType) -> Evaluation:
    return _cut_to_whole(types[0], math.floor)


def ceil(types: Sequence[PrimitiveType], _: PrimitiveType) -> Evaluation:
    return _cut_to_whole(types[0], math.ceil)


def _cut_to_whole(source: PrimitiveType, cut: Callable[[Any], int]) -> Evaluation:
    if isinstance(source, DecimalType):
        return lambda x: decimal_of(cut(x), 0)

    def whole(x: float) -> int:
        if math.isnan(x):
            return 0
        low, high = LONG_RANGE
        if math.isinf(x):
            return high if x > 0 else low
        return max(low, min(high, cut(x)))

    return whole


def round_half_up(source: PrimitiveType, result: PrimitiveType, digits: int) -> Evaluation:
    """``round``: halves away from zero. ``digits`` below 0 only for integers."""
    if isinstance(source, DecimalType) and isinstance(result, DecimalType):
        width, scale = 10 ** (source.scale - result.scale), result.scale
        return lambda x: decimal_of(half_up(unscaled(x), width), scale)
    if source not in _RANGES:
        return lambda x: _rounded_double(x, digits)
    if digits >= 0:
        return lambda x: x
    checked, width = in_range(result), 10**-digits
    return lambda x: checked(half_up(x, width) * width)


def _rounded_double(x: float, digits: int) -> float:
    """Spark rounds the digits that Java prints. Raises NotFolded if another version of Java prints others."""
    if not math.isfinite(x) or x == 0:
        return x + 0.0  # the printed digits have no -0.0
    shown = Decimal(repr(x))
    places = -int(shown.as_tuple().exponent)
    if places <= digits:
        return x
    whole, width = unscaled(shown), 10 ** (places - digits)
    rounded = half_up(whole, width)
    is_known = len(str(abs(whole))) <= _SAFE_DIGITS and _LEAST_SAFE <= abs(x) < _MOST_SAFE
    if not is_known and not half_up(10 * whole - 20, 10 * width) == half_up(10 * whole + 20, 10 * width):
        raise NotFolded(f"round({x}, {digits}), whose digits differ between versions of Java,")
    return float(decimal_of(rounded, digits))
