"""Predicates as immutable values, for a WHERE, a conflict filter or a residual.

An expression is a tree of ``And``, ``Or``, ``Not``, the constants ``ALWAYS_TRUE`` and ``ALWAYS_FALSE``, and leaves. An unbound leaf
(``Predicate``) names a column; ``iceberg_ops.expressions.binding`` converts it to a ``BoundPredicate`` with a field id, a type and
literals in canonical form. This module knows no schema, no file and no SQL text.

The meaning is that of Spark SQL in the whole package: three-valued logic (a comparison with null is unknown, NOT of unknown is
unknown, a filter keeps rows for which it is true), NaN equal to itself and greater than every other value, -0.0 equal to 0.0.
IS_NULL, NOT_NULL, IS_NAN and NOT_NAN are never unknown: NOT_NAN holds for null, as Spark's ``NOT isnan(x)`` does. (Iceberg Java
differs: its not-eq, not-in and not-starts-with hold for null.)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from iceberg_ops.errors import WhereError
from iceberg_ops.spec.transforms import Transform
from iceberg_ops.spec.types import IcebergType, PrimitiveType


class Op(str, Enum):
    """A leaf's operation; the values are the names of Iceberg's expression JSON (LIKE and NOT_LIKE are ours)."""

    IS_NULL = "is-null"
    NOT_NULL = "not-null"
    IS_NAN = "is-nan"
    NOT_NAN = "not-nan"
    LT = "lt"
    LT_EQ = "lt-eq"
    GT = "gt"
    GT_EQ = "gt-eq"
    EQ = "eq"
    NOT_EQ = "not-eq"
    IN = "in"
    NOT_IN = "not-in"
    STARTS_WITH = "starts-with"
    NOT_STARTS_WITH = "not-starts-with"
    LIKE = "like"
    NOT_LIKE = "not-like"

    @property
    def negated(self) -> Op:
        """The operation that is true where this one is false (both are unknown together)."""
        return _NEGATED[self]

    @property
    def is_unary(self) -> bool:
        return self in _UNARY

    @property
    def is_set(self) -> bool:
        return self in (Op.IN, Op.NOT_IN)

    @property
    def rejects_null(self) -> bool:
        """True if the leaf cannot be true for a null value."""
        return self not in (Op.IS_NULL, Op.NOT_NAN)


_PAIRS = (
    (Op.IS_NULL, Op.NOT_NULL),
    (Op.IS_NAN, Op.NOT_NAN),
    (Op.LT, Op.GT_EQ),
    (Op.LT_EQ, Op.GT),
    (Op.EQ, Op.NOT_EQ),
    (Op.IN, Op.NOT_IN),
    (Op.STARTS_WITH, Op.NOT_STARTS_WITH),
    (Op.LIKE, Op.NOT_LIKE),
)
_NEGATED = {a: b for pair in _PAIRS for a, b in (pair, pair[::-1])}
_UNARY = frozenset({Op.IS_NULL, Op.NOT_NULL, Op.IS_NAN, Op.NOT_NAN})


class Expression:
    """Base of all expressions. Equality is structural."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AlwaysTrue(Expression):
    """True for every row."""


@dataclass(frozen=True, slots=True)
class AlwaysFalse(Expression):
    """True for no row (false or unknown)."""


ALWAYS_TRUE = AlwaysTrue()
ALWAYS_FALSE = AlwaysFalse()


@dataclass(frozen=True, slots=True)
class And(Expression):
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Or(Expression):
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Not(Expression):
    child: Expression


@dataclass(frozen=True, slots=True)
class MayMatch(Expression):
    """A part of a SQL condition that is not a comparison of a column with a literal. Pruning keeps everything (inclusive: true),
    it proves nothing (strict: false). ``construct`` is the SQL text, ``columns`` are the names it reads.

    ``value`` is the condition as a term (``expressions.scalars``), if there is one: binding converts it to a ``BoundComputed``, or
    states in ``reason`` which part only Spark evaluates. Then evaluating it on rows raises WhereError."""

    construct: str
    columns: tuple[str, ...] = ()
    value: Any = field(default=None, compare=False)
    reason: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal with its SQL type; ``value`` is in the canonical form of ``type``. Binding converts it like Spark."""

    value: Any
    type: PrimitiveType

    def __post_init__(self) -> None:
        object.__setattr__(self, "value", one_nan(self.value))


@dataclass(frozen=True, slots=True)
class Reference:
    """A column by its dotted name."""

    name: str


@dataclass(frozen=True, slots=True)
class TransformTerm:
    """A partition transform of a column. ``is_cast``: in SQL it is a cast or a date function, which also accepts text."""

    transform: Transform
    reference: Reference
    is_cast: bool = field(default=False, compare=False)

    @property
    def name(self) -> str:
        return self.reference.name


Term = Reference | TransformTerm


@dataclass(frozen=True, slots=True)
class Predicate(Expression):
    """An unbound leaf. ``literals`` holds ``Literal``s (from SQL), or plain values: canonical, Python's own date and time classes,
    or the text of Iceberg's JSON single-value form."""

    op: Op
    term: Term
    literals: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        expected_count = 0 if self.op.is_unary else None if self.op.is_set else 1
        if expected_count is not None and len(self.literals) != expected_count:
            raise WhereError(f"{self.op.value} on {self.term.name!r} takes {expected_count} literals, not {len(self.literals)}")
        if any(v is None for v in self.literals):
            raise WhereError(f"{self.op.value} on {self.term.name!r}: null is not a literal, use is_null or null_safe_eq")


@dataclass(frozen=True, slots=True)
class BoundReference:
    """A field of a schema, or of a partition tuple. ``path`` leads to its value in a canonical row: the index in each struct."""

    field_id: int
    name: str
    type: IcebergType
    path: tuple[int, ...]

    @property
    def reference(self) -> BoundReference:
        return self


@dataclass(frozen=True, slots=True)
class BoundTransform:
    """A transform of a field; ``type`` is the transform's result type."""

    transform: Transform
    reference: BoundReference
    type: IcebergType

    @property
    def field_id(self) -> int:
        return self.reference.field_id

    @property
    def name(self) -> str:
        return f"{self.transform}({self.reference.name})"


BoundTerm = BoundReference | BoundTransform


@dataclass(frozen=True, slots=True)
class BoundPredicate(Expression):
    """A leaf bound to a field. ``literals`` are canonical values of ``type``; those of IN and NOT_IN are distinct and ascending."""

    op: Op
    term: BoundTerm
    literals: tuple[Any, ...] = ()

    @property
    def field_id(self) -> int:
        """Id of the source field, also for a transform."""
        return self.term.field_id

    @property
    def type(self) -> IcebergType:
        """Type of the compared values (for a transform its result type)."""
        return self.term.type

    @property
    def literal(self) -> Any:
        """The only literal of a comparison."""
        return self.literals[0]

    @property
    def is_plain(self) -> bool:
        """True if the term is a field itself, not a transform of it."""
        return isinstance(self.term, BoundReference)


@dataclass(frozen=True, slots=True)
class BoundComputed(Expression):
    """A condition that is computed from each row: ``value`` is a bound term of type boolean. It prunes nothing and proves nothing
    about files. ``construct`` is its SQL text, ``references`` are the columns that it reads, each once."""

    construct: str
    value: Any
    references: tuple[BoundReference, ...]


def one_nan(value: Any) -> Any:
    """The value; any NaN becomes the one object ``math.nan``, so that equal expressions compare equal."""
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def col(name: str | Term) -> Term:
    """A term from a dotted column name."""
    return Reference(name) if isinstance(name, str) else name


def predicate(op: Op, term: str | Term, *literals: Any) -> Expression:
    """A leaf; IN and NOT_IN of zero or one literal become simpler."""
    values = tuple(one_nan(v) for v in literals)
    if op.is_set:
        values = tuple({(type(v), v): v for v in values}.values())
        if not values:
            return ALWAYS_FALSE if op is Op.IN else ALWAYS_TRUE
        if len(values) == 1:
            op = Op.EQ if op is Op.IN else Op.NOT_EQ
    return Predicate(op, col(term), values)


def eq(term: str | Term, value: Any) -> Expression:
    return predicate(Op.EQ, term, value)


def not_eq(term: str | Term, value: Any) -> Expression:
    return predicate(Op.NOT_EQ, term, value)


def lt(term: str | Term, value: Any) -> Expression:
    return predicate(Op.LT, term, value)


def lt_eq(term: str | Term, value: Any) -> Expression:
    return predicate(Op.LT_EQ, term, value)


def gt(term: str | Term, value: Any) -> Expression:
    return predicate(Op.GT, term, value)


def gt_eq(term: str | Term, value: Any) -> Expression:
    return predicate(Op.GT_EQ, term, value)


def in_(term: str | Term, values: Iterable[Any]) -> Expression:
    return predicate(Op.IN, term, *values)


def not_in(term: str | Term, values: Iterable[Any]) -> Expression:
    return predicate(Op.NOT_IN, term, *values)


def is_null(term: str | Term) -> Expression:
    return predicate(Op.IS_NULL, term)


def not_null(term: str | Term) -> Expression:
    return predicate(Op.NOT_NULL, term)


def is_nan(term: str | Term) -> Expression:
    return predicate(Op.IS_NAN, term)


def not_nan(term: str | Term) -> Expression:
    return predicate(Op.NOT_NAN, term)


def starts_with(term: str | Term, prefix: Any) -> Expression:
    return predicate(Op.STARTS_WITH, term, prefix)


def not_starts_with(term: str | Term, prefix: Any) -> Expression:
    return predicate(Op.NOT_STARTS_WITH, term, prefix)


def null_safe_eq(term: str | Term, value: Any) -> Expression:
    """``<=>``: null equals null, as in the comparison of a partition value or of an equality delete's key."""
    return is_null(term) if value is None else eq(term, value)


def and_(*parts: Expression) -> Expression:
    """All of them; constants fold, no parts give true. The tree is balanced, so that thousands of parts stay shallow."""
    kept = [p for p in parts if not isinstance(p, AlwaysTrue)]
    if any(isinstance(p, AlwaysFalse) for p in kept):
        return ALWAYS_FALSE
    return _balanced(And, kept) if kept else ALWAYS_TRUE


def or_(*parts: Expression) -> Expression:
    """Any of them; constants fold, no parts give false. The tree is balanced."""
    kept = [p for p in parts if not isinstance(p, AlwaysFalse)]
    if any(isinstance(p, AlwaysTrue) for p in kept):
        return ALWAYS_TRUE
    return _balanced(Or, kept) if kept else ALWAYS_FALSE


def _balanced(node: type[And] | type[Or], parts: list[Expression]) -> Expression:
    if len(parts) == 1:
        return parts[0]
    middle = (len(parts) + 1) // 2
    return node(_balanced(node, parts[:middle]), _balanced(node, parts[middle:]))


def not_(child: Expression) -> Expression:
    """Negation with three-valued logic. A leaf is negated in place, anything else is wrapped (see ``rewrite_not``)."""
    if isinstance(child, AlwaysTrue):
        return ALWAYS_FALSE
    if isinstance(child, AlwaysFalse):
        return ALWAYS_TRUE
    if isinstance(child, Not):
        return child.child
    return _negate_leaf(child) or Not(child)


def _negate_leaf(leaf: Expression) -> Expression | None:
    if isinstance(leaf, Predicate):
        return Predicate(leaf.op.negated, leaf.term, leaf.literals)
    if isinstance(leaf, BoundPredicate):
        return BoundPredicate(leaf.op.negated, leaf.term, leaf.literals)
    if isinstance(leaf, MayMatch):
        value = None if leaf.value is None else leaf.value.negated()
        return MayMatch(f"NOT ({leaf.construct})", leaf.columns, value, leaf.reason)
    if isinstance(leaf, BoundComputed):
        return BoundComputed(f"NOT ({leaf.construct})", leaf.value.negated(), leaf.references)
    return None


def rewrite_not(expression: Expression) -> Expression:
    """The same expression without ``Not``: negation is moved into the leaves. Required before projecting or pruning."""
    if isinstance(expression, And):
        return and_(rewrite_not(expression.left), rewrite_not(expression.right))
    if isinstance(expression, Or):
        return or_(rewrite_not(expression.left), rewrite_not(expression.right))
    if not isinstance(expression, Not):
        return expression
    child = expression.child
    if isinstance(child, And):
        return or_(rewrite_not(Not(child.left)), rewrite_not(Not(child.right)))
    if isinstance(child, Or):
        return and_(rewrite_not(Not(child.left)), rewrite_not(Not(child.right)))
    if isinstance(child, Not):
        return rewrite_not(child.child)
    return not_(child)


def leaves(expression: Expression) -> Iterator[Expression]:
    """Every leaf (constants included), left to right."""
    pending = [expression]
    while pending:
        node = pending.pop()
        if isinstance(node, And | Or):
            pending += (node.right, node.left)
        elif isinstance(node, Not):
            pending.append(node.child)
        else:
            yield node


def is_exact(expression: Expression) -> bool:
    """False if a part of it cannot be evaluated (``MayMatch``): such an expression prunes, but decides nothing."""
    return not any(isinstance(leaf, MayMatch) for leaf in leaves(expression))


def opaque_parts(expression: Expression) -> list[MayMatch]:
    """The parts of a bound expression that cannot be evaluated without Spark."""
    return [leaf for leaf in leaves(expression) if isinstance(leaf, MayMatch)]


def field_ids(expression: Expression) -> frozenset[int]:
    """Ids of the fields a bound expression reads."""
    ids: set[int] = set()
    for leaf in leaves(expression):
        if isinstance(leaf, BoundPredicate):
            ids.add(leaf.field_id)
        elif isinstance(leaf, BoundComputed):
            ids.update(reference.field_id for reference in leaf.references)
    return frozenset(ids)


def column_names(expression: Expression) -> frozenset[str]:
    """Names of the columns an unbound expression reads, opaque parts included."""
    names: set[str] = set()
    for leaf in leaves(expression):
        if isinstance(leaf, Predicate):
            names.add(leaf.term.name)
        elif isinstance(leaf, MayMatch):
            names.update(leaf.columns)
    return frozenset(names)
