"""Residuals: the part of a filter that must be tested on the rows of one partition (spec: "Scan Planning").

A leaf whose strict projection is true for the partition is true for all its rows; one whose inclusive projection is false is
true for none; every other leaf stays. So on rows of that partition the residual agrees with the filter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from iceberg_ops.expressions.predicates import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    And,
    BoundPredicate,
    Expression,
    Or,
    and_,
    leaves,
    or_,
    rewrite_not,
)
from iceberg_ops.expressions.projection import project_inclusive, project_strict
from iceberg_ops.expressions.row_evaluator import row_filter
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.types import NestedField

ResidualOf = Callable[[Sequence[Any]], Expression]


def residuals(expression: Expression, spec: PartitionSpec) -> ResidualOf:
    """A function from partition tuples of ``spec`` to the residual of a bound expression; projections are compiled once."""
    fields = {
        leaf.field_id: NestedField(leaf.field_id, leaf.term.reference.name, leaf.term.reference.type)
        for leaf in leaves(expression)
        if isinstance(leaf, BoundPredicate)
    }
    return _compile(rewrite_not(expression), lambda leaf: _leaf_residual(leaf, spec, fields))


def residual(expression: Expression, spec: PartitionSpec, partition: Sequence[Any]) -> Expression:
    """``residuals`` for one partition tuple."""
    return _residuals(expression, spec.fields)(partition)


@lru_cache(maxsize=16)
def _residuals(expression: Expression, fields: tuple[Any, ...]) -> ResidualOf:
    return residuals(expression, PartitionSpec(0, fields))


def _compile(expression: Expression, leaf_residual: Callable[[BoundPredicate], ResidualOf]) -> ResidualOf:
    if isinstance(expression, And):
        left, right = _compile(expression.left, leaf_residual), _compile(expression.right, leaf_residual)
        return lambda partition: and_(left(partition), right(partition))
    if isinstance(expression, Or):
        left, right = _compile(expression.left, leaf_residual), _compile(expression.right, leaf_residual)
        return lambda partition: or_(left(partition), right(partition))
    if isinstance(expression, BoundPredicate):
        return leaf_residual(expression)
    return lambda partition: expression


def _leaf_residual(leaf: BoundPredicate, spec: PartitionSpec, fields: dict[int, NestedField]) -> ResidualOf:
    may, must = project_inclusive(leaf, spec, fields), project_strict(leaf, spec, fields)
    if may == ALWAYS_TRUE and must == ALWAYS_FALSE:
        return lambda partition: leaf
    some, every = row_filter(may), row_filter(must)

    def of(partition: Sequence[Any]) -> Expression:
        if every(partition):
            return ALWAYS_TRUE
        return leaf if some(partition) else ALWAYS_FALSE

    return of
