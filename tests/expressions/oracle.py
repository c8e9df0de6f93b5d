"""A second, naive evaluation of expressions: Kleene logic over plain values, without any code of the evaluators."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from iceberg_ops.expressions.predicates import AlwaysFalse, AlwaysTrue, And, Expression, Not, Op, Or, Predicate, TransformTerm
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transform_functions import apply

Row = Mapping[str, Any]


def truth(expression: Expression, row: Row, schema: Schema) -> bool | None:
    """True, False or None (unknown) for a row of column name to value. Literals must be canonical."""
    if isinstance(expression, AlwaysTrue | AlwaysFalse):
        return isinstance(expression, AlwaysTrue)
    if isinstance(expression, Not):
        child = truth(expression.child, row, schema)
        return None if child is None else not child
    if isinstance(expression, And | Or):
        sides = {truth(expression.left, row, schema), truth(expression.right, row, schema)}
        decisive = isinstance(expression, Or)
        if decisive in sides:
            return decisive
        return None if None in sides else not decisive
    assert isinstance(expression, Predicate)
    value = row[expression.term.name]
    if isinstance(expression.term, TransformTerm):
        found = schema.find(expression.term.name)
        assert found is not None
        value = apply(expression.term.transform, found.type, value)
    return _leaf(expression.op, value, expression.literals)


def _leaf(op: Op, value: Any, literals: tuple[Any, ...]) -> bool | None:
    if op is Op.IS_NULL:
        return value is None
    if op is Op.NOT_NULL:
        return value is not None
    if op is Op.IS_NAN:
        return is_nan(value)
    if op is Op.NOT_NAN:
        return not (is_nan(value))
    return None if value is None else _COMPARE[op](value, literals)


def is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _less(a: Any, b: Any) -> bool:
    """Spark's order: NaN above everything and equal to itself, -0.0 equal to 0.0."""
    if is_nan(a):
        return False
    if is_nan(b):
        return True
    return bool(a < b)


def _same(a: Any, b: Any) -> bool:
    return not _less(a, b) and not _less(b, a)


def _like(value: str, pattern: str) -> bool:
    """Patterns of these tests escape nothing."""
    parts = [".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern]
    return re.fullmatch("".join(parts), value, re.DOTALL) is not None


_COMPARE: dict[Op, Callable[[Any, tuple[Any, ...]], bool]] = {
    Op.LT: lambda v, to: _less(v, to[0]),
    Op.LT_EQ: lambda v, to: not _less(to[0], v),
    Op.GT: lambda v, to: _less(to[0], v),
    Op.GT_EQ: lambda v, to: not _less(v, to[0]),
    Op.EQ: lambda v, to: _same(v, to[0]),
    Op.NOT_EQ: lambda v, to: not _same(v, to[0]),
    Op.IN: lambda v, to: any(_same(v, x) for x in to),
    Op.NOT_IN: lambda v, to: not any(_same(v, x) for x in to),
    Op.STARTS_WITH: lambda v, to: v[: len(to[0])] == to[0],
    Op.NOT_STARTS_WITH: lambda v, to: v[: len(to[0])] != to[0],
    Op.LIKE: lambda v, to: _like(v, to[0]),
    Op.NOT_LIKE: lambda v, to: not _like(v, to[0]),
}
