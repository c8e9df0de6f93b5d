"""Projection: converts a predicate on rows to a predicate on partition values (spec: "Scan Planning", "Partition Transforms").

*Inclusive*: if a row matches, its partition value does. It is used for pruning. *Strict*: if a partition value matches, every row
of the partition does. It decides metadata-only deletes and lets residuals drop a leaf. Both need an expression without ``Not``
(``bind`` gives one), and both read partition tuples by index, so a projected expression belongs to one spec.

Order-preserving transforms (identity, truncate, year, month, day, hour) project ranges; bucket only equality; every known transform
except void keeps null separate from values. Void and unknown transforms give no information: inclusive true, strict false.
If a transform's value wraps around (``wrapped_values``), it gives no bounds for its rows: such a partition is kept if one of
them may match, and never decided. Early writers rounded times before 1970 toward zero, one too high; projections onto negative
years, months, days and hours include that (requirement XFORM-15)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from iceberg_ops.expressions.like import literal_prefix
from iceberg_ops.expressions.ordering import order_key
from iceberg_ops.expressions.predicates import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundPredicate,
    BoundReference,
    BoundTransform,
    Expression,
    Op,
    Or,
    and_,
    or_,
    rewrite_not,
)
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transform_functions import apply, in_order
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import DecimalType, IcebergType, NestedField, PrimitiveType
from iceberg_ops.spec.values import decimal_of, unscaled
from iceberg_ops.spec.wrapped_values import WrappedValues, wrapped_values

_TIMES = frozenset({"year", "month", "day", "hour"})
_LeafProjection = Callable[[BoundPredicate, PartitionField, BoundReference], Expression]


def project_inclusive(expression: Expression, spec: PartitionSpec, schema: Schema | Mapping[int, NestedField]) -> Expression:
    """A predicate on partition tuples of ``spec`` that holds wherever some row of the partition may match.

    ``schema`` (or fields by id; best those of all schemas of the table) gives the types of the partition values.
    """
    project = partial(_on_all_fields, and_, ALWAYS_TRUE, _inclusive, spec, _partition_references(spec, schema))
    return _walk(rewrite_not(expression), project, ALWAYS_TRUE)


def project_strict(expression: Expression, spec: PartitionSpec, schema: Schema | Mapping[int, NestedField]) -> Expression:
    """A predicate on partition tuples of ``spec`` that holds only where every row of the partition matches."""
    project = partial(_on_all_fields, or_, ALWAYS_FALSE, _strict, spec, _partition_references(spec, schema))
    return _walk(rewrite_not(expression), project, ALWAYS_FALSE)


def _partition_references(spec: PartitionSpec, schema: Schema | Mapping[int, NestedField]) -> tuple[BoundReference, ...]:
    fields = schema.fields_by_id if isinstance(schema, Schema) else schema
    types = spec.partition_type(fields).fields
    return tuple(BoundReference(f.field_id, f.name, f.type, (i,)) for i, f in enumerate(types))


def _walk(expression: Expression, project: Callable[[BoundPredicate], Expression], opaque: Expression) -> Expression:
    if isinstance(expression, And):
        return and_(_walk(expression.left, project, opaque), _walk(expression.right, project, opaque))
    if isinstance(expression, Or):
        return or_(_walk(expression.left, project, opaque), _walk(expression.right, project, opaque))
    if isinstance(expression, AlwaysTrue | AlwaysFalse):
        return expression
    if isinstance(expression, BoundPredicate):
        return project(expression)
    return opaque


def _on_all_fields(
    join: Callable[..., Expression],
    nothing: Expression,
    one: _LeafProjection,
    spec: PartitionSpec,
    references: tuple[BoundReference, ...],
    leaf: BoundPredicate,
) -> Expression:
    """A column may be the source of several partition fields; all informative ones count."""
    projected = [
        one(leaf, f, ref)
        for f, ref in zip(spec.fields, references, strict=True)
        if f.source_ids == (leaf.field_id,) and f.transform.can_transform(leaf.term.reference.type) and not f.transform.is_void
    ]
    return join(*projected) if projected else nothing


def _same_transform(leaf: BoundPredicate, f: PartitionField) -> bool:
    return isinstance(leaf.term, BoundTransform) and leaf.term.transform == f.transform


def _leaf(op: Op, ref: BoundReference, *values: Any) -> Expression:
    if op.is_set:
        values = tuple({order_key(v): v for v in values}[k] for k in sorted({order_key(v) for v in values}))
        if len(values) == 1:
            op = Op.EQ if op is Op.IN else Op.NOT_EQ
    return BoundPredicate(op, ref, values)


def _inclusive(leaf: BoundPredicate, f: PartitionField, ref: BoundReference) -> Expression:
    if f.transform.is_identity and leaf.is_plain:
        return BoundPredicate(leaf.op, ref, leaf.literals)
    if leaf.op in (Op.IS_NULL, Op.NOT_NULL):
        return BoundPredicate(leaf.op, ref)
    if _same_transform(leaf, f):
        foreign = (_within(ref, w) for w in _wrapped(leaf, f) if not w.are_own)
        return or_(BoundPredicate(leaf.op, ref, leaf.literals), *foreign)
    present = BoundPredicate(Op.NOT_NULL, ref) if leaf.op.rejects_null else ALWAYS_TRUE
    if not leaf.is_plain:
        return present
    if f.transform.name == "bucket":
        exact = leaf.op in (Op.EQ, Op.IN)
        return _leaf(leaf.op, ref, *(apply(f.transform, leaf.type, v) for v in leaf.literals)) if exact else present
    projected = _inclusive_ordered(leaf, f.transform, ref)
    if projected is None:
        return present
    return or_(projected, *(_within(ref, w) for w in _wrapped(leaf, f) if _may_be_among(leaf, w)))


def _inclusive_ordered(leaf: BoundPredicate, transform: Transform, ref: BoundReference) -> Expression | None:
    """For an order-preserving transform; None if the leaf has no useful image."""
    op, type_ = leaf.op, leaf.type
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH, Op.LIKE, Op.NOT_LIKE):
        return _inclusive_text(leaf, transform, ref)

    def image(value: Any) -> Any:
        return in_order(transform, type_, value)

    if op in (Op.EQ, Op.IN):
        images = [w for v in leaf.literals for w in _with_old_rounding(transform, type_, image(v))]
        return _leaf(Op.IN, ref, *images)
    if op is Op.LT:
        below = _before(type_, leaf.literal)
        if below is not None:
            return _leaf(Op.LT_EQ, ref, _with_old_rounding(transform, type_, image(below))[-1])
        # Text and bytes have no predecessor: if the literal is its own image, equal images lie at or above it.
        at = image(leaf.literal)
        return _leaf(Op.LT if at == leaf.literal else Op.LT_EQ, ref, at)
    if op is Op.LT_EQ:
        return _leaf(Op.LT_EQ, ref, _with_old_rounding(transform, type_, image(leaf.literal))[-1])
    if op is Op.GT:
        above = _after(type_, leaf.literal)
        return _leaf(Op.GT_EQ, ref, image(leaf.literal if above is None else above))
    return _leaf(Op.GT_EQ, ref, image(leaf.literal)) if op is Op.GT_EQ else None


def _with_old_rounding(transform: Transform, source: IcebergType, image: Any) -> tuple[Any, ...]:
    """The partition values that rows of ``image`` may have, ascending: early writers wrote -1 as 0."""
    rounded = transform.name in _TIMES and image < 0 and not (transform.name == "day" and _is_date(source))
    return (image, image + 1) if rounded else (image,)


def _is_date(type_: IcebergType) -> bool:
    return isinstance(type_, PrimitiveType) and type_.name == "date"


def _inclusive_text(leaf: BoundPredicate, transform: Transform, ref: BoundReference) -> Expression | None:
    width = transform.parameter or 0
    if leaf.op is Op.NOT_STARTS_WITH:
        return _leaf(leaf.op, ref, leaf.literal) if len(leaf.literal) <= width else None
    if leaf.op is Op.NOT_LIKE:
        return None
    prefix = literal_prefix(leaf.literal) if leaf.op is Op.LIKE else leaf.literal
    if not prefix:
        return None
    return _leaf(Op.STARTS_WITH, ref, prefix) if len(prefix) < width else _leaf(Op.EQ, ref, prefix[:width])


def _strict(leaf: BoundPredicate, f: PartitionField, ref: BoundReference) -> Expression:
    if f.transform.is_identity and leaf.is_plain:
        return BoundPredicate(leaf.op, ref, leaf.literals)
    if leaf.op in (Op.IS_NULL, Op.NOT_NULL):
        return BoundPredicate(leaf.op, ref)
    if _same_transform(leaf, f):
        foreign = (_outside(ref, w) for w in _wrapped(leaf, f) if not w.are_own)
        return and_(BoundPredicate(leaf.op, ref, leaf.literals), *foreign)
    if not leaf.is_plain:
        return ALWAYS_FALSE
    if f.transform.name == "bucket":
        if leaf.op not in (Op.NOT_EQ, Op.NOT_IN):
            return ALWAYS_FALSE
        return _leaf(leaf.op, ref, *(apply(f.transform, leaf.type, v) for v in leaf.literals))
    projected = _strict_ordered(leaf, f.transform, ref)
    return and_(projected, *(_outside(ref, w) for w in _wrapped(leaf, f)))


def _strict_ordered(leaf: BoundPredicate, transform: Transform, ref: BoundReference) -> Expression:
    op, type_ = leaf.op, leaf.type
    if op in (Op.STARTS_WITH, Op.NOT_STARTS_WITH, Op.LIKE, Op.NOT_LIKE):
        return _strict_text(leaf, transform, ref)

    def image(value: Any) -> Any:
        return in_order(transform, type_, value)

    if op in (Op.NOT_EQ, Op.NOT_IN):
        images = [w for v in leaf.literals for w in _with_old_rounding(transform, type_, image(v))]
        return _leaf(Op.NOT_IN, ref, *images)
    if op is Op.LT:
        return _leaf(Op.LT, ref, image(leaf.literal))
    if op is Op.LT_EQ:
        above = _after(type_, leaf.literal)
        return _leaf(Op.LT, ref, image(leaf.literal if above is None else above))
    if op is Op.GT:
        return _leaf(Op.GT, ref, _with_old_rounding(transform, type_, image(leaf.literal))[-1])
    if op is Op.GT_EQ:
        below = _before(type_, leaf.literal)
        if below is not None:
            return _leaf(Op.GT, ref, _with_old_rounding(transform, type_, image(below))[-1])
        at = image(leaf.literal)
        return _leaf(Op.GT_EQ if at == leaf.literal else Op.GT, ref, at)
    return ALWAYS_FALSE


def _strict_text(leaf: BoundPredicate, transform: Transform, ref: BoundReference) -> Expression:
    width = transform.parameter or 0
    if leaf.op is Op.STARTS_WITH:
        return _leaf(leaf.op, ref, leaf.literal) if len(leaf.literal) <= width else ALWAYS_FALSE
    prefix = literal_prefix(leaf.literal) if leaf.op is Op.NOT_LIKE else leaf.literal
    if leaf.op is Op.LIKE or not prefix:
        return ALWAYS_FALSE
    return _leaf(Op.NOT_STARTS_WITH, ref, prefix) if len(prefix) <= width else _leaf(Op.NOT_EQ, ref, prefix[:width])


def _wrapped(leaf: BoundPredicate, f: PartitionField) -> tuple[WrappedValues, ...]:
    return wrapped_values(f.transform, leaf.term.reference.type)


def _within(ref: BoundReference, wrapped: WrappedValues) -> Expression:
    if wrapped.low == wrapped.high:
        return _leaf(Op.EQ, ref, wrapped.low)
    return and_(_leaf(Op.GT_EQ, ref, wrapped.low), _leaf(Op.LT_EQ, ref, wrapped.high))


def _outside(ref: BoundReference, wrapped: WrappedValues) -> Expression:
    if wrapped.low == wrapped.high:
        return _leaf(Op.NOT_EQ, ref, wrapped.low)
    return or_(_leaf(Op.LT, ref, wrapped.low), _leaf(Op.GT, ref, wrapped.high))


def _may_be_among(leaf: BoundPredicate, wrapped: WrappedValues) -> bool:
    """Whether a row whose partition value wraps around may match."""
    if leaf.op in (Op.LT, Op.LT_EQ):
        return bool(wrapped.first_row <= leaf.literal)
    if leaf.op in (Op.GT, Op.GT_EQ):
        return bool(wrapped.last_row >= leaf.literal)
    return any(wrapped.first_row <= v <= wrapped.last_row for v in leaf.literals)


def _before(type_: IcebergType, value: Any) -> Any:
    """The greatest value below; None for types without one."""
    return _step(type_, value, -1)


def _after(type_: IcebergType, value: Any) -> Any:
    """The least value above; None for types without one."""
    return _step(type_, value, 1)


def _step(type_: IcebergType, value: Any, by: int) -> Any:
    if isinstance(type_, DecimalType):
        return decimal_of(unscaled(value) + by, type_.scale)
    return value + by if isinstance(value, int) else None
