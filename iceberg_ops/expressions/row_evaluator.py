"""Evaluates bound expressions on rows and on partition tuples: true or not true (a filter treats false and unknown alike).

``iceberg_ops.data`` filters whole Arrow batches; this module is for tuples, tests and single rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from iceberg_ops.expressions.leaf_tests import refuse_opaque, value_test
from iceberg_ops.expressions.predicates import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundComputed,
    BoundPredicate,
    BoundReference,
    BoundTransform,
    Expression,
    MayMatch,
    Or,
    rewrite_not,
)
from iceberg_ops.expressions.scalars.evaluation import compiled
from iceberg_ops.spec.transform_functions import apply

Row = TypeVar("Row")
Accessor = Callable[[BoundReference], Any]


def row_filter(expression: Expression) -> Callable[[Sequence[Any]], bool]:
    """A test for canonical struct tuples of the schema to which the expression is bound, or for partition tuples of its spec.
    Raises WhereError (here, not later) for a part that cannot be evaluated."""
    return _compile(rewrite_not(expression), _by_path)


def partition_matches(expression: Expression, partition: Sequence[Any]) -> bool:
    """Whether a projected expression is true for a partition tuple. For many tuples compile once with ``row_filter``."""
    return row_filter(expression)(partition)


def row_matches(expression: Expression, accessor: Accessor) -> bool:
    """Whether a bound expression is true for one row; ``accessor`` gives the canonical value of a field, None for null."""
    compiled: Callable[[Accessor], bool] = _compile(rewrite_not(expression), _by_accessor)
    return compiled(accessor)


def _by_accessor(reference: BoundReference) -> Callable[[Accessor], Any]:
    return lambda accessor: accessor(reference)


def _by_path(reference: BoundReference) -> Callable[[Sequence[Any]], Any]:
    if len(reference.path) == 1:
        at = reference.path[0]
        return lambda row: row[at]

    def read(row: Sequence[Any]) -> Any:
        value: Any = row
        for at in reference.path:
            if value is None:
                return None
            value = value[at]
        return value

    return read


def _compile(expression: Expression, value_of: Callable[[BoundReference], Callable[[Row], Any]]) -> Callable[[Row], bool]:
    if isinstance(expression, And):
        left, right = _compile(expression.left, value_of), _compile(expression.right, value_of)
        return lambda row: left(row) and right(row)
    if isinstance(expression, Or):
        left, right = _compile(expression.left, value_of), _compile(expression.right, value_of)
        return lambda row: left(row) or right(row)
    if isinstance(expression, AlwaysTrue):
        return lambda row: True
    if isinstance(expression, AlwaysFalse):
        return lambda row: False
    if isinstance(expression, BoundPredicate):
        return _compile_leaf(expression, value_of)
    if isinstance(expression, MayMatch):
        raise refuse_opaque(expression)
    if isinstance(expression, BoundComputed):
        value = compiled(expression.value, value_of)
        return lambda row: value(row) is True
    raise TypeError(f"{type(expression).__name__} is not bound: bind the expression to a schema first")


def _compile_leaf(leaf: BoundPredicate, value_of: Callable[[BoundReference], Callable[[Row], Any]]) -> Callable[[Row], bool]:
    test, read = value_test(leaf), value_of(leaf.term.reference)
    if isinstance(leaf.term, BoundTransform):
        transform, source = leaf.term.transform, leaf.term.reference.type
        return lambda row: test(apply(transform, source, read(row)))
    return lambda row: test(read(row))
