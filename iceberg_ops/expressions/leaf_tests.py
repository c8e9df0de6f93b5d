"""Tests one leaf on one value, or on known facts about a column's values.

``value_test`` answers for a value; ``may_match`` whether some row may match, given ColumnFacts; ``must_match`` whether every row
must. Each returns a function, compiled once per leaf. With bounds [lower, upper] that enclose all values (NaN is the
greatest), the three use the same comparisons.

Bounds of uuid columns have one of two orders, depending on the writer (signed halves or unsigned bytes, requirement TYPE-35): they
only exclude values outside in both orders. Bounds of text and bytes may be truncated, so equal ends prove nothing (SCAN-06).
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import Any
from uuid import UUID

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.column_facts import ColumnFacts
from iceberg_ops.expressions.like import literal_prefix, matcher
from iceberg_ops.expressions.ordering import NAN_KEY, order_key, order_key_function
from iceberg_ops.expressions.predicates import BoundComputed, BoundPredicate, MayMatch, Op
from iceberg_ops.expressions.scalars.functions import evaluated
from iceberg_ops.spec.types import IcebergType, PrimitiveType

ValueTest = Callable[[Any], bool]
FactTest = Callable[[ColumnFacts], bool]
_TRUNCATABLE = frozenset({"string", "binary", "fixed"})


def value_test(leaf: BoundPredicate) -> ValueTest:
    """The test whether the leaf is true for a canonical value (of the term's type; None for null)."""
    op = leaf.op
    if op is Op.IS_NULL:
        return lambda v: v is None
    if op is Op.NOT_NULL:
        return lambda v: v is not None
    if op is Op.IS_NAN:
        return lambda v: v is not None and math.isnan(v)
    if op is Op.NOT_NAN:
        return lambda v: v is None or not math.isnan(v)
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH, Op.LIKE, Op.NOT_LIKE):
        return _text_value_test(op, leaf.literal)
    return _compared_value_test(op, order_key_function(leaf.type), leaf.literals)


def _text_value_test(op: Op, text: Any) -> ValueTest:
    if op is Op.STARTS_WITH:
        return lambda v: v is not None and v.startswith(text)
    if op is Op.NOT_STARTS_WITH:
        return lambda v: v is not None and not v.startswith(text)
    matches = matcher(text)
    if op is Op.LIKE:
        return lambda v: v is not None and matches(v)
    return lambda v: v is not None and not matches(v)


def _compared_value_test(op: Op, key: Callable[[Any], Any], literals: tuple[Any, ...]) -> ValueTest:
    if op.is_set:
        keys = frozenset(order_key(v) for v in literals)
        if op is Op.IN:
            return lambda v: v is not None and key(v) in keys
        return lambda v: v is not None and key(v) not in keys
    to = order_key(literals[0])
    tests: dict[Op, ValueTest] = {
        Op.LT: lambda v: v is not None and key(v) < to,
        Op.LT_EQ: lambda v: v is not None and key(v) <= to,
        Op.GT: lambda v: v is not None and key(v) > to,
        Op.GT_EQ: lambda v: v is not None and key(v) >= to,
        Op.EQ: lambda v: v is not None and key(v) == to,
        Op.NOT_EQ: lambda v: v is not None and key(v) != to,
    }
    return tests[op]


def may_match(leaf: BoundPredicate) -> FactTest:
    """Whether some row may match the leaf: false only if the facts exclude it."""
    op = leaf.op
    if op is Op.IS_NULL:
        return lambda f: f.may_be_null
    if not leaf.is_plain:
        return (lambda f: not f.all_null) if op.rejects_null else (lambda f: True)
    if op is Op.IS_NAN:
        return lambda f: not f.all_null and f.may_be_nan
    if op is Op.NOT_NAN:
        return lambda f: f.may_be_null or f.lower is not NAN_KEY
    in_range = _may_in_range(leaf)
    return lambda f: not f.all_null and in_range(f)


def _may_in_range(leaf: BoundPredicate) -> FactTest:
    op = leaf.op
    if op is Op.NOT_NULL:
        return lambda f: True
    if op in (Op.STARTS_WITH, Op.LIKE):
        prefix = leaf.literal if op is Op.STARTS_WITH else literal_prefix(leaf.literal)
        return lambda f: _prefix_overlaps(f, prefix)
    if op is Op.NOT_STARTS_WITH:
        return lambda f: not _prefix_everywhere(f, leaf.literal)
    if op is Op.NOT_LIKE:
        return lambda f: True
    if op in (Op.NOT_EQ, Op.NOT_IN):
        if _truncatable(leaf.type):
            return lambda f: True
        keys = frozenset(order_key(v) for v in leaf.literals)
        return lambda f: f.lower is None or f.lower != f.upper or f.lower not in keys
    if _is_uuid(leaf.type):
        if op in (Op.EQ, Op.IN):
            return lambda f: any(not _uuid_outside(f, v) for v in leaf.literals)
        return lambda f: True
    return _may_in_ordered_range(op, tuple(order_key(v) for v in leaf.literals))


def _may_in_ordered_range(op: Op, keys: tuple[Any, ...]) -> FactTest:
    if op is Op.IN:
        return lambda f: _any_between(keys, f.lower, f.upper)
    to = keys[0]
    tests: dict[Op, FactTest] = {
        Op.LT: lambda f: f.lower is None or f.lower < to,
        Op.LT_EQ: lambda f: f.lower is None or f.lower <= to,
        Op.GT: lambda f: f.upper is None or f.upper > to,
        Op.GT_EQ: lambda f: f.upper is None or f.upper >= to,
        Op.EQ: lambda f: (f.lower is None or f.lower <= to) and (f.upper is None or f.upper >= to),
    }
    return tests[op]


def must_match(leaf: BoundPredicate) -> FactTest:
    """Whether every row must match the leaf: true only if the facts prove it."""
    op = leaf.op
    if op is Op.IS_NULL:
        return lambda f: f.all_null
    if op is Op.NOT_NULL:
        return lambda f: not f.may_be_null
    if not leaf.is_plain:
        return lambda f: False
    if op is Op.IS_NAN:
        return lambda f: not f.may_be_null and f.lower is NAN_KEY
    if op is Op.NOT_NAN:
        return lambda f: f.all_null or not f.may_be_nan
    in_range = _must_in_range(leaf)
    return lambda f: not f.may_be_null and in_range(f)


def _must_in_range(leaf: BoundPredicate) -> FactTest:
    op = leaf.op
    if op is Op.STARTS_WITH:
        return lambda f: _prefix_everywhere(f, leaf.literal)
    if op in (Op.NOT_STARTS_WITH, Op.NOT_LIKE):
        prefix = leaf.literal if op is Op.NOT_STARTS_WITH else literal_prefix(leaf.literal)
        return lambda f: not _prefix_overlaps(f, prefix)
    if op is Op.LIKE:
        return lambda f: False
    if op in (Op.EQ, Op.IN):
        if _truncatable(leaf.type):
            return lambda f: False
        keys = frozenset(order_key(v) for v in leaf.literals)
        return lambda f: f.lower is not None and f.lower == f.upper and f.lower in keys
    if _is_uuid(leaf.type):
        if op in (Op.NOT_EQ, Op.NOT_IN):
            return lambda f: all(_uuid_outside(f, v) for v in leaf.literals)
        return lambda f: False
    return _must_in_ordered_range(op, tuple(order_key(v) for v in leaf.literals))


def _must_in_ordered_range(op: Op, keys: tuple[Any, ...]) -> FactTest:
    if op is Op.NOT_IN:
        return lambda f: not _any_between(keys, f.lower, f.upper)
    to = keys[0]
    tests: dict[Op, FactTest] = {
        Op.LT: lambda f: f.upper is not None and f.upper < to,
        Op.LT_EQ: lambda f: f.upper is not None and f.upper <= to,
        Op.GT: lambda f: f.lower is not None and f.lower > to,
        Op.GT_EQ: lambda f: f.lower is not None and f.lower >= to,
        Op.NOT_EQ: lambda f: (f.lower is not None and f.lower > to) or (f.upper is not None and f.upper < to),
    }
    return tests[op]


def _any_between(keys: tuple[Any, ...], lower: Any, upper: Any) -> bool:
    """Whether some of the ascending ``keys`` lies in [lower, upper]; None is open."""
    at = 0 if lower is None else bisect_left(keys, lower)
    return at < len(keys) and (upper is None or keys[at] <= upper)


def _prefix_overlaps(f: ColumnFacts, prefix: Any) -> bool:
    """Whether some text within the bounds may begin with ``prefix``."""
    return (f.lower is None or f.lower[: len(prefix)] <= prefix) and (f.upper is None or f.upper >= prefix)


def _prefix_everywhere(f: ColumnFacts, prefix: Any) -> bool:
    """Whether every text within the bounds begins with ``prefix``."""
    return f.lower is not None and f.upper is not None and f.lower.startswith(prefix) and f.upper.startswith(prefix)


def _truncatable(type_: IcebergType) -> bool:
    return isinstance(type_, PrimitiveType) and type_.name in _TRUNCATABLE


def _is_uuid(type_: IcebergType) -> bool:
    return isinstance(type_, PrimitiveType) and type_.name == "uuid"


def _uuid_outside(f: ColumnFacts, value: UUID) -> bool:
    """Whether ``value`` lies outside the bounds in both orders that writers use."""
    if f.lower is None or f.upper is None:
        return False
    signed = _signed(value)
    return not (f.lower <= value <= f.upper or _signed(f.lower) <= signed <= _signed(f.upper))


def _signed(value: UUID) -> tuple[int, int]:
    data = value.bytes
    return int.from_bytes(data[:8], "big", signed=True), int.from_bytes(data[8:], "big", signed=True)


def rules_out_no_file(leaf: MayMatch | BoundComputed) -> str:
    """Why a part of a bound condition cannot exclude files, and which parts can."""
    shown = f"{leaf.construct} rules out no file"
    if isinstance(leaf, BoundComputed):
        return f"{shown}, because it is computed from each row; comparisons of a column with literals rule out files"
    what = leaf.reason or "it"
    return f"{shown}, and on rows only Spark evaluates {what}; without Spark are evaluated {evaluated()}"


def refuse_opaque(leaf: MayMatch) -> WhereError:
    """The error for evaluating SQL text on rows that only Spark evaluates: it names the text, and what is evaluated here."""
    what = leaf.reason or "it"
    return WhereError(
        f"not supported: {leaf.construct} on rows, because only Spark evaluates {what}; without Spark are evaluated {evaluated()}"
    )
