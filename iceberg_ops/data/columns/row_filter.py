"""A bound expression over Arrow columns.

It has the meaning of Spark SQL, as in ``iceberg_ops.expressions.predicates``: three-valued logic, NaN equal to itself and greater
than every other value, -0.0 equal to 0.0. Columns are given by field id, so a filter may read columns that are not projected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.arrow_values import array_of, values_of
from iceberg_ops.data.columns.computed import computed
from iceberg_ops.data.columns.partition_values import distinct, transformed
from iceberg_ops.data.columns.sort_keys import extract_column
from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.leaf_tests import refuse_opaque, value_test
from iceberg_ops.expressions.like import fixed_text, matcher, regex_text
from iceberg_ops.expressions.predicates import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundComputed,
    BoundPredicate,
    BoundTransform,
    Expression,
    MayMatch,
    Not,
    Op,
    Or,
    Predicate,
    field_ids,
    leaves,
    rewrite_not,
)
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transform_functions import apply
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import DOUBLE, FLOAT, DecimalType, IcebergType

Columns = Mapping[int, pa.Array]
_LONGEST_REGEX = 10_000
"""Longer patterns are matched in Python: those of 100,000 characters may be too large for Arrow's regular expressions."""


def matching(expression: Expression, columns: Columns, rows: int) -> pa.BooleanArray:
    """Which rows an expression keeps: true where the expression is true, false where it is false or unknown."""
    return evaluate(expression, columns, rows).fill_null(False)


def rows_where(expression: Expression, batch: pa.RecordBatch, schema: Schema) -> npt.NDArray[np.bool_]:
    """``matching`` for a canonical batch of ``schema``, to which the expression is bound."""
    columns = {i: extract_column(batch, schema, i)[0] for i in field_ids(expression)}
    return np.asarray(matching(expression, columns, batch.num_rows))


def evaluate(expression: Expression, columns: Columns, rows: int) -> pa.BooleanArray:
    """True, false or null for every row; null where the result is unknown, and sometimes where it is false.

    Raises WhereError for an expression that cannot be evaluated."""
    if isinstance(expression, AlwaysTrue | AlwaysFalse):
        return pa.repeat(pa.scalar(isinstance(expression, AlwaysTrue)), rows)
    if isinstance(expression, And):
        return _joined(pc.and_kleene, expression, columns, rows)
    if isinstance(expression, Or):
        return _joined(pc.or_kleene, expression, columns, rows)
    if isinstance(expression, Not):
        return evaluate(rewrite_not(expression), columns, rows)
    if isinstance(expression, BoundPredicate):
        return _leaf(expression, columns[expression.field_id])
    if isinstance(expression, BoundComputed):
        return computed(expression.value, columns, rows, expression.construct)
    if isinstance(expression, MayMatch):
        raise refuse_opaque(expression)
    name = expression.term.name if isinstance(expression, Predicate) else repr(expression)
    raise WhereError(f"cannot evaluate an unbound predicate on {name!r}")


def _joined(join: Callable[..., pa.Array], node: And | Or, columns: Columns, rows: int) -> pa.BooleanArray:
    """A computed part on the right is evaluated only for the rows that the left side does not decide, so that it is cheap after a
    selective comparison and its errors count only there (``b <> 0 AND a / b > 1``). If the left side of an AND is unknown, no row
    is kept, whatever the right side is: as in Spark's filters the right side is not evaluated, and the result is unknown."""
    left = evaluate(node.left, columns, rows)
    if not any(isinstance(leaf, BoundComputed) for leaf in leaves(node.right)):
        return join(left, evaluate(node.right, columns, rows))
    kept = np.asarray(left.fill_null(False))
    open_ = np.flatnonzero(kept if isinstance(node, And) else ~kept)
    if len(open_) == rows:
        return join(left, evaluate(node.right, columns, rows))
    places = pa.array(open_)
    right = evaluate(node.right, {i: columns[i].take(places) for i in field_ids(node.right)}, len(open_))
    indices = np.full(rows, -1)
    indices[open_] = np.arange(len(open_))
    return join(left, right.take(pa.array(indices, mask=indices < 0)))


def _leaf(leaf: BoundPredicate, array: pa.Array) -> pa.BooleanArray:
    source = leaf.term.reference.type
    if isinstance(leaf.term, BoundTransform):
        if leaf.term.transform.name != "truncate" or not isinstance(source, DecimalType):
            array = transformed(leaf.term.transform, source, array)
        elif not leaf.op.is_unary:  # only null truncates to null
            return _truncated_decimals(leaf, leaf.term.transform, source, array)
    if leaf.op is Op.IS_NULL:
        return array.is_null()
    if leaf.op is Op.NOT_NULL:
        return array.is_valid()
    if isinstance(array, pa.DictionaryArray):
        if leaf.op in (Op.IS_NAN, Op.NOT_NAN):
            return pa.repeat(pa.scalar(leaf.op is Op.NOT_NAN), len(array))
        return _compare(leaf, array.dictionary).take(array.indices)
    return _compare(leaf, array)


def _truncated_decimals(leaf: BoundPredicate, transform: Transform, source: DecimalType, array: pa.Array) -> pa.BooleanArray:
    """Evaluates each distinct value separately: a truncated decimal may need one more digit than the column, and than Arrow,
    has."""
    test, encoded = value_test(leaf), distinct(array)
    answers = [None if v is None else test(apply(transform, source, v)) for v in values_of(source, encoded.dictionary)]
    return pa.array(answers, pa.bool_()).take(encoded.indices)


def _compare(leaf: BoundPredicate, array: pa.Array) -> pa.BooleanArray:
    if leaf.op in (Op.IS_NAN, Op.NOT_NAN):
        nan = pc.is_nan(array).fill_null(False) if leaf.type in (FLOAT, DOUBLE) else pa.repeat(pa.scalar(False), len(array))
        return nan if leaf.op is Op.IS_NAN else pc.invert(nan)
    if leaf.op.is_set:
        matches = _is_in(leaf, array)
        return pc.invert(matches) if leaf.op is Op.NOT_IN else matches
    if leaf.op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        matches = _starts_with(array, leaf.literal)
        return pc.invert(matches) if leaf.op is Op.NOT_STARTS_WITH else matches
    if leaf.op in (Op.LIKE, Op.NOT_LIKE):
        matches = _like(array, leaf.literal)
        return pc.invert(matches) if leaf.op is Op.NOT_LIKE else matches
    return _ordered(leaf.op, leaf.type, array, leaf.literal)


def _like(array: pa.Array, pattern: str) -> pa.BooleanArray:
    """Arrow's own ``match_like`` is not used: for a simple pattern it searches for the escape characters literally."""
    if (simple := fixed_text(pattern)) is None:
        if len(pattern) <= _LONGEST_REGEX:
            return pc.match_substring_regex(array, regex_text(pattern))
        matches = matcher(pattern)
        return pa.array([None if v is None else matches(v) for v in array.to_pylist()], pa.bool_())
    before, text, after = simple
    if before and after:
        return pc.match_substring(array, text)
    if before:
        return pc.ends_with(array, text)
    return pc.starts_with(array, text) if after else pc.equal(array, pa.scalar(text, array.type))


_NUMERIC: Mapping[Op, Callable[[pa.Array, pa.Scalar], pa.Array]] = {
    Op.LT: pc.less,
    Op.LT_EQ: pc.less_equal,
    Op.GT: pc.greater,
    Op.GT_EQ: pc.greater_equal,
    Op.EQ: pc.equal,
    Op.NOT_EQ: pc.not_equal,
}


def _ordered(op: Op, type_: IcebergType, array: pa.Array, literal: Any) -> pa.BooleanArray:
    scalar = array_of(type_, [literal])[0]
    if pa.types.is_fixed_size_binary(array.type):
        array, scalar = array.cast(pa.binary()), scalar.cast(pa.binary())
    if type_ not in (FLOAT, DOUBLE):
        return _NUMERIC[op](array, scalar)
    nan = pc.is_nan(array)
    if math.isnan(literal):  # nothing is greater, every other value is less
        if op in (Op.EQ, Op.GT_EQ):
            return nan
        if op in (Op.NOT_EQ, Op.LT):
            return pc.invert(nan)
        constant = pa.repeat(pa.scalar(op is Op.LT_EQ), len(array))
        return pc.if_else(array.is_null(), pa.scalar(None, pa.bool_()), constant)
    plain = _NUMERIC[op](array, scalar)
    if op in (Op.GT, Op.GT_EQ, Op.NOT_EQ):
        return pc.or_kleene(plain, nan)
    return plain


def _is_in(leaf: BoundPredicate, array: pa.Array) -> pa.BooleanArray:
    literals = array_of(leaf.type, list(leaf.literals)).cast(arrow_type(leaf.type))
    if leaf.type in (FLOAT, DOUBLE):
        matches = pc.is_in(_one_form(array), value_set=_one_form(literals))
    else:
        matches = pc.is_in(array, value_set=literals)
    return pc.if_else(array.is_null(), pa.scalar(None, pa.bool_()), matches)


def _one_form(array: pa.Array) -> pa.Array:
    """Floats with one NaN and one zero, as SQL compares them: Arrow compares values by their bits."""
    nan, zero = pa.scalar(math.nan, array.type), pa.scalar(0.0, array.type)
    return pc.if_else(pc.is_nan(array), nan, pc.if_else(pc.equal(array, zero), zero, array))


def _starts_with(array: pa.Array, prefix: str | bytes) -> pa.BooleanArray:
    if isinstance(prefix, str):
        return pc.starts_with(array, prefix)
    return pc.equal(pc.binary_slice(array.cast(pa.binary()), 0, len(prefix)), pa.scalar(prefix, pa.binary()))
