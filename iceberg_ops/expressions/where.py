"""Parses SQL WHERE text to an expression, in Spark SQL's dialect and with Spark's meaning.

The common forms over columns and literals are exact: comparisons (literal on either side, ``<=>``, ``IS [NOT] DISTINCT
FROM``), IN, BETWEEN, LIKE, IS [NOT] NULL / TRUE / FALSE / NAN, isnan, startswith, endswith, contains, NOT, AND, OR, bare booleans,
dates of timestamps (``CAST(ts AS DATE)``, ``year(ts)``) and Iceberg's ``system.bucket(16, id)``. Anything else that Spark could
evaluate (``upper(a) = 'X'``, ``a < b``) becomes ``MayMatch``, which prunes nothing: either with a term (``where_scalars``) that is
evaluated on rows after binding, or without one. So does a subquery if the caller has an engine for it. Text that Spark would
refuse, and other subqueries, raise WhereError.

Three-valued logic is resolved here: each node is translated for the wanted truth value, so NOT is never above an unknown
part. Column names are dotted and resolved by ``iceberg_ops.expressions.binding``. A timestamp without offset is UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from sqlglot import exp

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.common_types import shared_types, spark_interval
from iceberg_ops.expressions.comparisons import at_microseconds
from iceberg_ops.expressions.like import is_literal, is_prefix, literal_pattern, literal_prefix, matcher, stored_pattern
from iceberg_ops.expressions.literal_text import floating_from_text
from iceberg_ops.expressions.ordering import order_key
from iceberg_ops.expressions.predicates import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    And,
    Expression,
    Literal,
    MayMatch,
    Op,
    Or,
    Predicate,
    Reference,
    Term,
    and_,
    column_names,
    eq,
    in_,
    is_null,
    leaves,
    not_,
    not_null,
    or_,
    predicate,
)
from iceberg_ops.expressions.where_literals import DIALECT, NULL, Constant, Node, Null, constant
from iceberg_ops.expressions.where_parser import parse_condition, refused_if_too_deep
from iceberg_ops.expressions.where_scalars import convert_term
from iceberg_ops.expressions.where_terms import column_term, column_text, operand
from iceberg_ops.spec.types import BINARY, BOOLEAN, STRING


class TruthGoal(Enum):
    """The truth value (of three) for which a translation is true."""

    TRUE = "true"
    FALSE = "false"
    UNKNOWN = "unknown"


_OPPOSITE = {TruthGoal.TRUE: TruthGoal.FALSE, TruthGoal.FALSE: TruthGoal.TRUE, TruthGoal.UNKNOWN: TruthGoal.UNKNOWN}
_COMPARISONS: dict[type[Node], Op] = {
    exp.EQ: Op.EQ,
    exp.NEQ: Op.NOT_EQ,
    exp.LT: Op.LT,
    exp.LTE: Op.LT_EQ,
    exp.GT: Op.GT,
    exp.GTE: Op.GT_EQ,
}
_NULL_TESTS = ("isnull", "isnotnull")
_NUMBERS = frozenset({"int", "long", "float", "double", "decimal"})
_FLIPPED = {Op.LT: Op.GT, Op.LT_EQ: Op.GT_EQ, Op.GT: Op.LT, Op.GT_EQ: Op.LT_EQ}
_TRUTH_OF = {True: TruthGoal.TRUE, False: TruthGoal.FALSE}


def parse_where(text: str, *, subqueries: bool = False) -> Expression:
    """The rows for which the SQL condition ``text`` (without the word WHERE) is true. Raises WhereError.

    ``subqueries``: a part with a subquery is a ``MayMatch`` without columns, because names inside may belong to other tables."""
    tree = parse_condition(text)
    if not subqueries and _has_subquery(tree):
        raise WhereError(f"not supported: a subquery in {text!r}, because a filter reads one table")
    with refused_if_too_deep(text):
        return convert_where(tree)


def convert_where(tree: Node) -> Expression:
    """The rows for which the parsed condition ``tree`` is true. Raises WhereError.

    Spark refuses an unknown column and a literal that cannot be compared even if a constant beside it decides the
    condition. So a part that folding removes stays as a part that no row matches; binding checks it and drops it."""
    expression = _truth(tree, TruthGoal.TRUE)
    seen, names = {_same_check(leaf) for leaf in leaves(expression)}, column_names(expression)
    checks = (leaf for leaf in _checks(tree) if leaf.op is not Op.IS_NULL or leaf.term.name not in names)
    folded = {check: leaf for leaf in checks if (check := _same_check(leaf)) not in seen}
    if not folded:
        return expression
    never = or_(*(And(leaf, not_(leaf)) for leaf in folded.values()))
    if expression != ALWAYS_TRUE:
        return or_(expression, never)
    term = next(iter(folded.values())).term
    return Or(Or(is_null(term), not_null(term)), never)


def _checks(node: Node) -> Iterator[Predicate]:
    """The parts that binding must check: every leaf of the condition, whatever is beside it, and the columns of parts without
    one."""
    if isinstance(node, exp.Paren | exp.Not):
        yield from _checks(node.this)
    elif isinstance(node, exp.And | exp.Or):
        for part in node.flatten():
            yield from _checks(part)
    elif not _has_subquery(node):
        # One translation of a list contains all of its literals, and a list may be too long to translate it twice.
        wants = (TruthGoal.TRUE,) if isinstance(node, exp.In) else (TruthGoal.TRUE, TruthGoal.FALSE)
        checked_leaves = [leaf for want in wants for leaf in leaves(_truth(node, want))]
        yield from (leaf for leaf in checked_leaves if isinstance(leaf, Predicate))
        columns = {name for leaf in checked_leaves if isinstance(leaf, MayMatch) for name in leaf.columns}
        if not any(isinstance(leaf, Predicate | MayMatch) for leaf in checked_leaves):
            columns = {column_text(column) for column in node.find_all(exp.Column)}
        yield from (Predicate(Op.IS_NULL, Reference(name)) for name in sorted(columns))


def _same_check(leaf: Expression) -> object:
    """A leaf and its negation need only one check."""
    if isinstance(leaf, Predicate):
        return frozenset((leaf.op, leaf.op.negated)), leaf.term, leaf.literals
    return leaf


def _has_subquery(node: Node) -> bool:
    return node.find(exp.Query, exp.Exists) is not None


def _opaque(node: Node, want: TruthGoal) -> Expression:
    columns = () if _has_subquery(node) else tuple(dict.fromkeys(column_text(column) for column in node.find_all(exp.Column)))
    text, value = node.sql(dialect=DIALECT), convert_term(node)
    if want is TruthGoal.TRUE:
        return MayMatch(text, columns, value)
    if want is TruthGoal.FALSE:
        return MayMatch(f"NOT ({text})", columns, value.negated())
    return MayMatch(f"({text}) IS NULL", columns, value.is_unknown())


def _truth(node: Node, want: TruthGoal) -> Expression:
    """True for exactly the rows for which the condition ``node`` has the truth value ``want``."""
    if isinstance(node, exp.Paren):
        return _truth(node.this, want)
    if isinstance(node, exp.Not):
        return _truth(node.this, _OPPOSITE[want])
    if isinstance(node, exp.And | exp.Or):
        return _connective(node, want)
    if _has_subquery(node):
        return _opaque(node, want)
    if handler := _HANDLERS.get(type(node)):
        expression = handler(node, want)
        return _opaque(node, want) if expression is None else expression
    if isinstance(node, exp.Anonymous):
        expression = _function(node, want)
        if expression is not None:
            return expression
    return _value(node, want)


def _connective(node: Node, want: TruthGoal) -> Expression:
    parts = list(node.flatten())
    strong = TruthGoal.FALSE if isinstance(node, exp.And) else TruthGoal.TRUE
    if want is strong:
        return or_(*(_truth(p, want) for p in parts))
    if want is not TruthGoal.UNKNOWN:
        return and_(*(_truth(p, want) for p in parts))
    unknown = [_truth(p, TruthGoal.UNKNOWN) for p in parts]
    weak = [or_(_truth(p, _OPPOSITE[strong]), u) for p, u in zip(parts, unknown, strict=True)]
    return and_(*weak, or_(*unknown))


def _fixed(truth: bool | None, want: TruthGoal) -> Expression:
    """A condition with the same truth value for every row."""
    actual = TruthGoal.UNKNOWN if truth is None else _TRUTH_OF[truth]
    return ALWAYS_TRUE if actual is want else ALWAYS_FALSE


def _leaf(positive: Expression, term: Term, want: TruthGoal) -> Expression:
    """A leaf that is unknown exactly if its column is null."""
    if want is TruthGoal.UNKNOWN:
        return is_null(term)
    return positive if want is TruthGoal.TRUE else not_(positive)


def _certain(positive: Expression, negative: Expression, want: TruthGoal) -> Expression:
    """A condition that is never unknown."""
    return {TruthGoal.TRUE: positive, TruthGoal.FALSE: negative, TruthGoal.UNKNOWN: ALWAYS_FALSE}[want]


def _value(node: Node, want: TruthGoal) -> Expression:
    """A bare boolean: a constant or a column."""
    value = constant(node)
    if isinstance(value, Null):
        return _fixed(None, want)
    if isinstance(value, Literal):
        if value.type != BOOLEAN:
            raise WhereError(f"{node.sql(dialect=DIALECT)} is a {value.type} literal, not a condition")
        return _fixed(value.value, want)
    term = column_term(node)
    if isinstance(term, Reference):
        return _leaf(eq(term, Literal(True, BOOLEAN)), term, want)
    return _opaque(node, want)


def _is_condition(node: Node) -> bool:
    inner = node.unnest()
    if isinstance(inner, exp.Anonymous):
        return str(inner.this).lower() in _NULL_TESTS
    return isinstance(inner, exp.Connector | exp.Not) or type(inner) in _HANDLERS


def _comparison(node: Node, want: TruthGoal) -> Expression | None:
    op, left, right = _COMPARISONS[type(node)], node.this, node.expression
    if op in (Op.EQ, Op.NOT_EQ):
        for side, other in ((left, right), (right, left)):
            value = constant(other) if _is_condition(side) else None
            if isinstance(value, Literal) and value.type == BOOLEAN:
                same = value.value is (op is Op.EQ)
                return _truth(side, want if same else _OPPOSITE[want])
        if _is_condition(left) or _is_condition(right):
            return _equal_conditions(left, right, want if op is Op.EQ else _OPPOSITE[want])
    return _compare(op, left, right, want)


def _equal_conditions(left: Node, right: Node, want: TruthGoal) -> Expression:
    if want is TruthGoal.UNKNOWN:
        return or_(_truth(left, want), _truth(right, want))
    pairs = (
        ((TruthGoal.TRUE, TruthGoal.TRUE), (TruthGoal.FALSE, TruthGoal.FALSE))
        if want is TruthGoal.TRUE
        else ((TruthGoal.TRUE, TruthGoal.FALSE), (TruthGoal.FALSE, TruthGoal.TRUE))
    )
    return or_(*(and_(_truth(left, a), _truth(right, b)) for a, b in pairs))


def _compare(op: Op, left: Node, right: Node, want: TruthGoal) -> Expression | None:
    a, b = constant(left), constant(right)
    if isinstance(a, Null) or isinstance(b, Null):
        return _fixed(None, want) if _cannot_fail(left) and _cannot_fail(right) else None
    if isinstance(a, Literal) and isinstance(b, Literal):
        return _fixed(_compare_literals(op, a, b), want)
    if isinstance(a, Literal):
        left, b, op = right, a, _FLIPPED.get(op, op)
    if not isinstance(b, Literal):
        return None
    term, value = operand(left, b)
    return None if term is None else _leaf(predicate(op, term, value), term, want)


def _cannot_fail(node: Node) -> bool:
    """Spark also evaluates the other side of a comparison with NULL, and raises if it has an error."""
    return constant(node) is not None or column_term(node) is not None


def _compare_literals(op: Op, a: Literal, b: Literal) -> bool:
    a, b = at_microseconds(a), at_microseconds(b)
    try:
        place = spark_interval(a.type, b, shared_types(a.type, [b]), ordered=op in _FLIPPED)
    except (ValueError, ArithmeticError):
        try:
            place, a, op = spark_interval(b.type, a, shared_types(b.type, [a]), ordered=op in _FLIPPED), b, _FLIPPED.get(op, op)
        except (ValueError, ArithmeticError) as e:
            what = f"a {a.type} literal ({a.value!r}) does not compare with a {b.type} literal ({b.value!r}): {e}"
            raise WhereError(what) from None
    key, low, high = order_key(a.value), order_key(place.low), order_key(place.high)
    below = low is None or key < low
    above = high is None or key > high
    answers = {Op.LT: below, Op.GT_EQ: not below, Op.GT: above, Op.LT_EQ: not above}
    return answers.get(op, (not below and not above) is (op is Op.EQ))


def _null_safe(node: Node, want: TruthGoal) -> Expression | None:
    if isinstance(node, exp.NullSafeNEQ):
        want = _OPPOSITE[want]
    left, right = node.this, node.expression
    a, b = constant(left), constant(right)
    if a is not None and b is not None:
        both = isinstance(a, Null) and isinstance(b, Null)
        same = both or (isinstance(a, Literal) and isinstance(b, Literal) and _compare_literals(Op.EQ, a, b))
        return _fixed(same, want)
    side, value = (right, a) if a is not None else (left, b)
    if value is None:
        return None
    if _is_condition(side):
        return _is_truth(side, value, want)
    if isinstance(value, Null):
        term = column_term(side)
        return None if term is None else _certain(is_null(term), not_null(term), want)
    term, value = operand(side, value)
    if term is None:
        return None
    equal = eq(term, value)
    return _certain(equal, or_(not_(equal), is_null(term)), want)


def _is_truth(node: Node, value: Constant, want: TruthGoal) -> Expression | None:
    """``condition IS TRUE | FALSE | NULL``."""
    if isinstance(value, Literal) and value.type != BOOLEAN:
        return None
    asked = TruthGoal.UNKNOWN if isinstance(value, Null) else _TRUTH_OF[bool(value.value)]
    if want is TruthGoal.FALSE:
        return or_(*(_truth(node, other) for other in TruthGoal if other is not asked))
    return _truth(node, asked) if want is TruthGoal.TRUE else ALWAYS_FALSE


def _is(node: Node, want: TruthGoal) -> Expression | None:
    side, right = node.this, node.expression
    if isinstance(right, exp.Column) and column_text(right).lower() == "nan":
        return _isnan(side, want)
    value = constant(right)
    if not isinstance(value, Null | Literal):
        return None
    literal = constant(side)
    if isinstance(literal, Literal) and isinstance(value, Literal) and literal.type != BOOLEAN:
        return None
    if literal is not None:
        return _fixed(literal == value if isinstance(literal, Literal) else isinstance(value, Null), want)
    if isinstance(value, Null) and not _is_condition(side):
        term = column_term(side)
        return None if term is None else _certain(is_null(term), not_null(term), want)
    return _is_truth(side, value, want)


def _isnan(side: Node, want: TruthGoal) -> Expression | None:
    literal = constant(side)
    if isinstance(literal, Literal):
        return _fixed(_is_nan_literal(side, literal), want)
    if literal is not None:
        return _fixed(False, want)
    term = column_term(side)
    if term is None:
        return None
    return _certain(predicate(Op.IS_NAN, term), predicate(Op.NOT_NAN, term), want)


def _is_nan_literal(node: Node, literal: Literal) -> bool:
    """Spark reads a text as a number. Raises WhereError for a text that is not one."""
    try:
        if literal.type == STRING:
            return floating_from_text(literal.value) != floating_from_text(literal.value)
        if literal.type.name in _NUMBERS:
            return bool(literal.value != literal.value)
    except ValueError as e:
        raise WhereError(f"isnan of {node.sql(dialect=DIALECT)}: {e}") from None
    raise WhereError(f"isnan of {node.sql(dialect=DIALECT)}: a {literal.type} literal is not a number")


def _in(node: Node, want: TruthGoal) -> Expression | None:
    items = node.expressions
    if not items:
        raise WhereError(f"{node.sql(dialect=DIALECT)}: IN needs at least one value")
    values = [constant(item) for item in items]
    term = column_term(node.this)
    if not _one_type(node.this, items, values):
        return None
    if term is None or None in values:
        if not _is_sum_of_pairs(node.this, values):
            return None
        return _convert_connective(exp.Or, [exp.EQ(this=node.this.copy(), expression=item.copy()) for item in items], want)
    has_null = NULL in values
    known = [v for v in values if isinstance(v, Literal)]
    if not known:
        return _fixed(None, want)
    if want is TruthGoal.TRUE:
        return in_(term, known)
    if want is TruthGoal.FALSE:
        return ALWAYS_FALSE if has_null else not_(in_(term, known))
    return or_(is_null(term), not_(in_(term, known))) if has_null else is_null(term)


def _one_type(value: Node, items: list[Node], constants: list[Constant | None]) -> bool:
    """Whether the type in which Spark compares is known: it casts all of an IN list to one type, including columns and typed
    NULLs."""
    if any(isinstance(c, Null) and not isinstance(item.unnest(), exp.Null) for item, c in zip(items, constants, strict=True)):
        return False
    if column_term(value) is not None and None not in constants:
        return True
    kinds = {c.type for c in (constant(value), *constants) if isinstance(c, Literal)}
    return len(kinds) < 2


def _is_sum_of_pairs(value: Node, constants: list[Constant | None]) -> bool:
    """Whether a list is equivalent to the comparisons with each of its items: no item changes the type for another."""
    if constant(value) is not None:
        return constants.count(None) <= 1
    return isinstance(value.unnest(), exp.Year) and None not in constants


def _convert_connective(kind: Callable[..., Node], parts: list[Node], want: TruthGoal) -> Expression:
    node = parts[0]
    for part in parts[1:]:
        node = kind(this=node, expression=part)
    return _truth(node, want)


def _between(node: Node, want: TruthGoal) -> Expression | None:
    if node.args.get("symmetric"):
        return None
    low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    return _convert_connective(exp.And, [low, high], want)


def _like(node: Node, want: TruthGoal) -> Expression | None:
    escape = "\\"
    if isinstance(node, exp.Escape):
        given = constant(node.expression)
        if not isinstance(given, Literal) or given.type != STRING or not isinstance(node.this, exp.Like):
            return None
        node, escape = node.this, given.value
    if isinstance(node.expression, exp.Any | exp.All):
        return _like_several(node, escape, want)
    if node.args.get("negate"):
        want = _OPPOSITE[want]
    pattern, value, term = constant(node.expression), constant(node.this), column_term(node.this)
    if isinstance(pattern, Null) or isinstance(value, Null):
        return _fixed(None, want) if _cannot_fail(node.this) and _cannot_fail(node.expression) else None
    if not isinstance(pattern, Literal) or pattern.type != STRING:
        return None
    held = stored_pattern(pattern.value, escape)
    if isinstance(value, Literal):
        return _fixed(matcher(held)(value.value), want) if value.type == STRING else None
    return None if term is None else _leaf(_like_leaf(term, held), term, want)


def _like_several(node: Node, escape: str, want: TruthGoal) -> Expression | None:
    """``[NOT] LIKE ANY (...)`` is any of the single tests, including negation; ALL is all of them."""
    if escape != "\\":
        return None
    patterns = node.expression.this.unnest()
    items = patterns.expressions if isinstance(patterns, exp.Tuple) else [patterns]
    single = [exp.Like(this=node.this.copy(), expression=item.copy(), negate=node.args.get("negate")) for item in items]
    return _convert_connective(exp.Or if isinstance(node.expression, exp.Any) else exp.And, single, want)


def _like_leaf(term: Term, pattern: str) -> Expression:
    """The simplest exact leaf for a stored pattern."""
    if is_literal(pattern):
        return eq(term, Literal(literal_prefix(pattern), STRING))
    if is_prefix(pattern):
        return predicate(Op.STARTS_WITH, term, Literal(literal_prefix(pattern), STRING))
    return predicate(Op.LIKE, term, Literal(pattern, STRING))


def _affix(before: str, after: str) -> Callable[[Node, TruthGoal], Expression | None]:
    def translate(node: Node, want: TruthGoal) -> Expression | None:
        text, term = constant(node.expression), column_term(node.this)
        if isinstance(text, Null) and _cannot_fail(node.this):
            return _fixed(None, want)
        if term is None or not isinstance(text, Literal):
            return None
        if text.type == BINARY and not before:
            return _leaf(predicate(Op.STARTS_WITH, term, text), term, want)
        if text.type != STRING:
            return None
        return _leaf(_like_leaf(term, before + literal_pattern(text.value) + after), term, want)

    return translate


def _function(node: exp.Anonymous, want: TruthGoal) -> Expression | None:
    name = str(node.this).lower()
    if name in _NULL_TESTS and len(node.expressions) == 1:
        asked = want if name == "isnull" else _OPPOSITE[want]
        return _truth(exp.Is(this=node.expressions[0].copy(), expression=exp.Null()), asked)
    return None


_HANDLERS: dict[type[Node], Callable[[Any, TruthGoal], Expression | None]] = {
    **dict.fromkeys(_COMPARISONS, _comparison),
    exp.NullSafeEQ: _null_safe,
    exp.NullSafeNEQ: _null_safe,
    exp.Is: _is,
    exp.IsNan: lambda node, want: _isnan(node.this, want),
    exp.In: _in,
    exp.Between: _between,
    exp.Like: _like,
    exp.Escape: _like,
    exp.StartsWith: _affix("", "%"),
    exp.EndsWith: _affix("%", ""),
    exp.Contains: _affix("%", "%"),
}
