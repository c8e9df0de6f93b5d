"""Binding: converts column names and untyped literals to field ids, types and canonical literals.

``bind`` resolves each leaf in a schema, removes ``Not``, and converts literals so that the bound comparison has exactly Spark's
meaning (see ``iceberg_ops.expressions.comparisons``). A literal outside the column's range makes a leaf constant: never true,
or true for every non-null value. Columns inside lists and maps have no single value per row and are refused.

Binding does not use that a field is required: IS NULL on it is evaluated as usual, so that a table whose rows violate its own
schema is read correctly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from operator import is_
from typing import Any

from iceberg_ops.config.unicode_text import is_unicode
from iceberg_ops.errors import SchemaError, TypesNotComparedError, WhereError
from iceberg_ops.expressions.common_types import shared_types, spark_interval
from iceberg_ops.expressions.comparisons import Interval, TypesDoNotCompareError, interval, plain_literal, source_interval
from iceberg_ops.expressions.like import is_literal, is_prefix, literal_prefix
from iceberg_ops.expressions.ordering import order_key
from iceberg_ops.expressions.predicates import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    And,
    BoundComputed,
    BoundPredicate,
    BoundReference,
    BoundTerm,
    BoundTransform,
    Expression,
    Literal,
    MayMatch,
    Op,
    Or,
    Predicate,
    TransformTerm,
    and_,
    not_,
    or_,
    rewrite_not,
)
from iceberg_ops.expressions.scalars.binding import bind_scalar
from iceberg_ops.expressions.scalars.terms import NULL, Call, CastTo, Column, Constant, NotEvaluated, Scalar, references
from iceberg_ops.spec.schema import Schema, no_column
from iceberg_ops.spec.types import BOOLEAN, DATE, STRING, UNKNOWN, DecimalType, IcebergType, PrimitiveType, StructType

_INCOMPARABLE = frozenset({"variant", "geometry", "geography"})
_FLOATING = frozenset({"float", "double"})
_SQL = {Op.EQ: "=", Op.NOT_EQ: "<>", Op.LT: "<", Op.LT_EQ: "<=", Op.GT: ">", Op.GT_EQ: ">="}
_PERIODS = frozenset({"year", "month", "day", "hour"})


def bind(schema: Schema, expression: Expression, *, case_sensitive: bool = False) -> Expression:
    """The expression over fields of ``schema``, without ``Not``. Bound leaves pass unchanged.

    Raises WhereError for an unknown or ambiguous column and for a literal that cannot be compared with the column's type.
    """
    return _folded(_bind(schema, rewrite_not(expression), case_sensitive))


def _bind(schema: Schema, expression: Expression, case_sensitive: bool) -> Expression:
    if (check := _check_alone(expression)) is not None:
        _bind(schema, check, case_sensitive)
        return ALWAYS_FALSE if isinstance(expression, And) else ALWAYS_TRUE
    if isinstance(expression, And):
        return and_(_bind(schema, expression.left, case_sensitive), _bind(schema, expression.right, case_sensitive))
    if isinstance(expression, Or):
        return or_(_bind(schema, expression.left, case_sensitive), _bind(schema, expression.right, case_sensitive))
    if isinstance(expression, Predicate):
        if (computed := _dates_of_text(schema, expression, case_sensitive)) is not None:
            return _bind_computed(schema, computed, case_sensitive)
        return bind_leaf(expression, _bind_term(schema, expression, case_sensitive))
    if isinstance(expression, MayMatch):
        for name in expression.columns:
            reference(schema, name, case_sensitive=case_sensitive)
        return _bind_computed(schema, expression, case_sensitive)
    return expression


def _check_alone(expression: Expression) -> Predicate | None:
    """The leaf of a part that is only checked and decides nothing (``where.convert_where``). It is never evaluated: a cast could
    fail for a row that does not depend on it."""
    if not isinstance(expression, And | Or) or not isinstance(expression.left, Predicate):
        return None
    if isinstance(expression, Or) and expression.left.op is not Op.IS_NULL:
        return None
    return expression.left if expression.right == not_(expression.left) else None


def _dates_of_text(schema: Schema, leaf: Predicate, case_sensitive: bool) -> MayMatch | None:
    """``CAST(text AS DATE)`` and ``year(text)`` as computed values: only the column's type distinguishes them from dates of
    timestamps."""
    term = leaf.term
    if not isinstance(term, TransformTerm) or not term.is_cast:
        return None
    if reference(schema, term.name, case_sensitive=case_sensitive).type != STRING:
        return None
    is_year = term.transform.name == "year"
    date: Scalar = CastTo(Column(term.name), DATE)
    side = Call("year", (date,)) if is_year else date
    shown = f"year({term.name})" if is_year else f"CAST({term.name} AS DATE)"
    call: Scalar | None = None
    if leaf.op in (Op.IS_NULL, Op.NOT_NULL):
        call = Call("isnull", (side,))
    elif leaf.op.is_set or leaf.op in _SQL:
        items = [Constant(v.value + 1970 if is_year else v.value, v.type) for v in leaf.literals]
        call = Call("in" if leaf.op.is_set else _SQL[leaf.op], (side, *items))
    if call is not None and leaf.op in (Op.NOT_NULL, Op.NOT_IN):
        call = call.negated()
    return MayMatch(f"{shown} {leaf.op.value}", (term.name,), call)


def _bind_computed(schema: Schema, leaf: MayMatch, case_sensitive: bool) -> Expression:
    if leaf.value is None:
        return leaf
    try:
        value = bind_scalar(leaf.value, lambda name: reference(schema, name, case_sensitive=case_sensitive))
        if value.type != BOOLEAN and value != NULL:
            raise NotEvaluated(f"a condition of type {value.type}")
    except NotEvaluated as e:
        return replace(leaf, value=None, reason=str(e))
    if isinstance(value, Constant):
        return ALWAYS_TRUE if value.value is True else ALWAYS_FALSE
    return BoundComputed(leaf.construct, value, tuple(dict.fromkeys(references(value))))


def _folded(expression: Expression) -> Expression:
    """Without parts that are true for no row (``x = 1 AND x <> 1``) or for every row (``x IS NULL OR x IS NOT NULL``): with these
    parts a parsed condition keeps the leaves that must be checked and decide nothing (``where.convert_where``)."""
    if not isinstance(expression, And | Or):
        return expression
    kind, fold = type(expression), and_ if isinstance(expression, And) else or_
    parts = list(_flatten(expression, kind))
    folded = [_folded(part) for part in parts]
    opposites = {p for p in folded if isinstance(p, BoundPredicate) and (kind is And or p.op is Op.IS_NULL)}
    if any(not_(p) in opposites for p in folded if isinstance(p, BoundPredicate)):
        return ALWAYS_FALSE if kind is And else ALWAYS_TRUE
    return expression if all(map(is_, parts, folded)) else fold(*folded)


def _flatten(expression: Expression, kind: type[Expression]) -> Iterator[Expression]:
    pending = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, And | Or) and isinstance(node, kind):
            pending += (node.right, node.left)
        else:
            yield node


def reference(schema: Schema, name: str, *, case_sensitive: bool = False) -> BoundReference:
    """The field with that name. Raises WhereError if there is none, or if it lies inside a list or map."""
    try:
        field = schema.find(name, case_sensitive=case_sensitive)
    except SchemaError as e:
        raise WhereError(str(e)) from None
    if field is None:
        raise WhereError(no_column(schema, name))
    ids = [field.field_id]
    while (parent := schema.parents[ids[0]]) is not None:
        ids.insert(0, parent)
    path, struct = [], schema.struct
    for field_id in ids:
        if not isinstance(struct, StructType):
            raise WhereError(f"column {name!r} lies inside a list or map: a predicate needs one value per row")
        path.append(next(i for i, f in enumerate(struct.fields) if f.field_id == field_id))
        struct = struct.fields[path[-1]].type  # type: ignore[assignment]
    return BoundReference(field.field_id, schema.name_of(field.field_id), field.type, tuple(path))


def _bind_term(schema: Schema, leaf: Predicate, case_sensitive: bool) -> BoundTerm:
    bound = reference(schema, leaf.term.name, case_sensitive=case_sensitive)
    if not isinstance(leaf.term, TransformTerm):
        return bound
    transform = leaf.term.transform
    if not transform.is_known or not transform.can_transform(bound.type):
        raise WhereError(f"transform {transform} cannot take column {bound.name!r} of type {bound.type}")
    result: IcebergType = DATE if transform.name == "day" else transform.result_type(bound.type)
    return BoundTransform(transform, bound, result)


def bind_leaf(leaf: Predicate, term: BoundTerm) -> Expression:
    """One leaf over an already bound term. Raises WhereError.

    A comparison of a year, month, day or hour becomes a range of the column itself, with which bounds and partitions can prune.
    """
    op = leaf.op
    if op in (Op.IS_NULL, Op.NOT_NULL):
        if term.reference.type == UNKNOWN:  # NULL in every row, whatever files store and count under its id (TYPE-37)
            return ALWAYS_TRUE if op is Op.IS_NULL else ALWAYS_FALSE
        return BoundPredicate(op, term.reference)
    type_ = term.type
    if not isinstance(type_, PrimitiveType) or type_.name in _INCOMPARABLE:
        raise WhereError(f"column {term.name!r} of type {type_} takes only IS NULL and IS NOT NULL, not {op.value}")
    if op in (Op.IS_NAN, Op.NOT_NAN):
        return _bind_nan(op, term, type_)
    _check_unicode(leaf, term)
    if type_.name == "unknown":
        return ALWAYS_FALSE
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH, Op.LIKE, Op.NOT_LIKE):
        return _bind_text(op, term, type_, leaf.literals[0])
    places = _places(leaf, term, type_)
    if isinstance(term, BoundTransform) and term.transform.name in _PERIODS:
        places = [source_interval(term.transform, term.reference.type, place) for place in places]
        term = term.reference
    if op.is_set:
        return _bind_set(op, term, places)
    return _COMPARE[op](term, places[0])


def _check_unicode(leaf: Predicate, term: BoundTerm) -> None:
    """Raise WhereError for half of a surrogate pair, which no stored text can contain and which cannot be compared."""
    for literal in leaf.literals:
        text = literal.value if isinstance(literal, Literal) else literal
        if isinstance(text, str) and not is_unicode(text):
            raise WhereError(f"column {term.name!r} cannot be compared with {text!r}: half of a surrogate pair is not Unicode text")


def _bind_nan(op: Op, term: BoundTerm, type_: PrimitiveType) -> Expression:
    if type_.name in _FLOATING:
        return BoundPredicate(op, term)
    if type_.name in ("int", "long", "unknown") or isinstance(type_, DecimalType):
        return ALWAYS_FALSE if op is Op.IS_NAN else ALWAYS_TRUE
    raise WhereError(f"column {term.name!r} of type {type_} cannot be NaN: only float and double can")


def _bind_text(op: Op, term: BoundTerm, type_: PrimitiveType, value: Any) -> Expression:
    text = value.value if isinstance(value, Literal) else value
    binary = type_.name in ("binary", "fixed") and op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH)
    if type_.name != "string" and not binary:
        raise WhereError(f"column {term.name!r} of type {type_} is not text: {op.value} {text!r} needs a string column")
    if binary and isinstance(text, str):
        text = text.encode("utf-8") if isinstance(value, Literal) else _hex(term.name, text)
    if not isinstance(text, bytes if binary else str):
        raise WhereError(f"column {term.name!r} of type {type_}: {op.value} needs a text, not {text!r}")
    if op in (Op.LIKE, Op.NOT_LIKE) and isinstance(text, str):
        if is_literal(text):
            return BoundPredicate(Op.EQ if op is Op.LIKE else Op.NOT_EQ, term, (literal_prefix(text),))
        if is_prefix(text):
            op, text = Op.STARTS_WITH if op is Op.LIKE else Op.NOT_STARTS_WITH, literal_prefix(text)
    if not text and op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH):
        return _not_null(term) if op is Op.STARTS_WITH else ALWAYS_FALSE
    return BoundPredicate(op, term, (text,))


def _hex(name: str, text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise WhereError(f"column {name!r} is binary: {text!r} is not hexadecimal") from None


def _places(leaf: Predicate, term: BoundTerm, type_: PrimitiveType) -> list[Interval]:
    """Where the literals lie among the values of ``type_``: SQL literals as Spark compares them, other values exactly."""
    if isinstance(term, BoundTransform) and term.transform.name == "truncate":
        return [_place_truncated(term.name, type_, value) for value in leaf.literals]
    literals = [value for value in leaf.literals if isinstance(value, Literal)]
    if len(literals) < len(leaf.literals):
        return [_place(term.name, type_, value) for value in leaf.literals]
    ordered = leaf.op in (Op.LT, Op.LT_EQ, Op.GT, Op.GT_EQ)
    shared = shared_types(type_, literals)
    return [_placed(term.name, type_, v, lambda v: spark_interval(type_, v, shared, ordered=ordered)) for v in literals]


def _place(name: str, type_: PrimitiveType, value: Any) -> Interval:
    return _placed(name, type_, value, lambda v: interval(type_, v if isinstance(v, Literal) else plain_literal(type_, v)))


def _placed(name: str, type_: PrimitiveType, value: Any, find: Callable[[Any], Interval]) -> Interval:
    try:
        return find(value)
    except (ValueError, ArithmeticError) as e:
        kind, shown = (str(value.type), value.value) if isinstance(value, Literal) else (type(value).__name__, value)
        what = f"column {name!r} of type {type_} cannot be compared with the {kind} literal {str(shown)!r}"
        kind_of_error = TypesNotComparedError if isinstance(e, TypesDoNotCompareError) else WhereError
        raise kind_of_error(f"{what}: {e}") from None


def _place_truncated(name: str, type_: PrimitiveType, value: Any) -> Interval:
    """Truncated values of the least decimals are below their range, so a literal there can still match. Integers wrap around, as
    in Iceberg Java, and stay in range."""
    return _place(name, DecimalType(precision=38, scale=type_.scale) if isinstance(type_, DecimalType) else type_, value)


def _leaf(op: Op, term: BoundTerm, *values: Any) -> Expression:
    return BoundPredicate(op, term, values)


def _not_null(term: BoundTerm) -> Expression:
    return BoundPredicate(Op.NOT_NULL, term.reference)


def _is_point(place: Interval) -> bool:
    return place.low is not None and place.high is not None and order_key(place.low) == order_key(place.high)


def _is_empty(place: Interval) -> bool:
    return place.low is None or place.high is None or order_key(place.low) > order_key(place.high)


def _equal(term: BoundTerm, place: Interval) -> Expression:
    if _is_empty(place):
        return ALWAYS_FALSE
    if _is_point(place):
        return _leaf(Op.EQ, term, place.low)
    return and_(_leaf(Op.GT_EQ, term, place.low), _leaf(Op.LT_EQ, term, place.high))


def _unequal(term: BoundTerm, place: Interval) -> Expression:
    if _is_empty(place):
        return _not_null(term)
    if _is_point(place):
        return _leaf(Op.NOT_EQ, term, place.low)
    return or_(_leaf(Op.LT, term, place.low), _leaf(Op.GT, term, place.high))


def _less(term: BoundTerm, place: Interval) -> Expression:
    if place.low is None:
        return _not_null(term)
    return ALWAYS_FALSE if place.high is None else _leaf(Op.LT, term, place.low)


def _less_or_equal(term: BoundTerm, place: Interval) -> Expression:
    if place.high is None:
        return ALWAYS_FALSE
    return _not_null(term) if place.low is None else _leaf(Op.LT_EQ, term, place.high)


def _greater(term: BoundTerm, place: Interval) -> Expression:
    if place.high is None:
        return _not_null(term)
    return ALWAYS_FALSE if place.low is None else _leaf(Op.GT, term, place.high)


def _greater_or_equal(term: BoundTerm, place: Interval) -> Expression:
    if place.low is None:
        return ALWAYS_FALSE
    return _not_null(term) if place.high is None else _leaf(Op.GT_EQ, term, place.low)


_COMPARE: dict[Op, Callable[[BoundTerm, Interval], Expression]] = {
    Op.EQ: _equal,
    Op.NOT_EQ: _unequal,
    Op.LT: _less,
    Op.LT_EQ: _less_or_equal,
    Op.GT: _greater,
    Op.GT_EQ: _greater_or_equal,
}


def _bind_set(op: Op, term: BoundTerm, places: list[Interval]) -> Expression:
    points = {order_key(p.low): p.low for p in places if _is_point(p)}
    values = tuple(points[key] for key in sorted(points))
    ranges = [p for p in places if not _is_point(p) and not _is_empty(p)]
    if op is Op.IN:
        several = _leaf(Op.IN if len(values) > 1 else Op.EQ, term, *values) if values else ALWAYS_FALSE
        return or_(several, *(_equal(term, p) for p in ranges))
    several = _leaf(Op.NOT_IN if len(values) > 1 else Op.NOT_EQ, term, *values) if values else _not_null(term)
    return and_(several, *(_unequal(term, p) for p in ranges))
