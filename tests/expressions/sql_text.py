"""Expressions as SQL text, to generate conditions and compare: ``parse_where(to_sql(e))`` means the same as ``e``.

Literals carry their type (``5L``, ``1.50BD``, ``DATE '...'``), names are back-quoted if necessary. Nanosecond timestamps and uuids
have no literal in Spark's dialect: the first are written as timestamps with nine digits, which this package accepts, the second as
casts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

from iceberg_ops.expressions.comparisons import decimal_literal, plain_literal
from iceberg_ops.expressions.predicates import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundPredicate,
    BoundTerm,
    BoundTransform,
    Expression,
    Literal,
    MayMatch,
    Not,
    Op,
    Or,
    Predicate,
    Term,
    TransformTerm,
)
from iceberg_ops.spec.epoch import NANOS_PER_SECOND, iso_date, iso_time, iso_timestamp
from iceberg_ops.spec.types import STRING, DecimalType, IcebergType, PrimitiveType
from iceberg_ops.spec.values import float_text

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WORDS = frozenset({
    "and", "or", "not", "in", "is", "like", "rlike", "ilike", "between", "escape", "null", "true", "false", "nan", "case",
    "when", "then", "else", "end", "cast", "try_cast", "exists", "select", "from", "where", "date", "time", "timestamp",
    "timestamp_ntz", "timestamp_ltz", "interval", "any", "all", "some", "distinct", "x", "r", "system", "as", "call",
    "connect_by_root", "current_date", "current_time", "current_timestamp", "current_user", "describe", "execute", "explain",
    "fetch", "glob", "grant", "if", "notnull", "optimize", "partitioned_by", "prepare", "regexp", "rename", "returning",
    "revoke", "rollback", "serdeproperties", "session_user", "show", "tablesample", "uncache", "vacuum", "xor",
})  # fmt: skip
_SYMBOLS = {Op.LT: "<", Op.LT_EQ: "<=", Op.GT: ">", Op.GT_EQ: ">=", Op.EQ: "=", Op.NOT_EQ: "!=", Op.IN: "IN", Op.NOT_IN: "NOT IN"}
_FUNCTIONS = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def to_sql(expression: Expression) -> str:
    """The expression in Spark's dialect."""
    if isinstance(expression, AlwaysTrue | AlwaysFalse):
        return "TRUE" if isinstance(expression, AlwaysTrue) else "FALSE"
    if isinstance(expression, And | Or):
        return f"{_inner(expression, expression.left)} {_word(expression)} {_inner(expression, expression.right)}"
    if isinstance(expression, Not):
        return f"NOT ({to_sql(expression.child)})"
    if isinstance(expression, MayMatch):
        return f"({expression.construct})"
    if isinstance(expression, BoundPredicate):
        return _leaf(expression.op, _bound_term(expression.term), [_text(expression.type, v) for v in expression.literals])
    if isinstance(expression, Predicate):
        return _leaf(expression.op, _term(expression.term), [_any_text(v) for v in expression.literals])
    raise TypeError(f"{type(expression).__name__} is not an expression")


def _word(expression: Expression) -> str:
    return "AND" if isinstance(expression, And) else "OR"


def _inner(outer: And | Or, part: Expression) -> str:
    mixed = isinstance(part, And | Or) and type(part) is not type(outer)
    return f"({to_sql(part)})" if mixed else to_sql(part)


def _leaf(op: Op, term: str, values: list[str]) -> str:
    if op is Op.IS_NULL or op is Op.NOT_NULL:
        return f"{term} IS {'NOT ' if op is Op.NOT_NULL else ''}NULL"
    if op is Op.IS_NAN or op is Op.NOT_NAN:
        return f"{'NOT ' if op is Op.NOT_NAN else ''}isnan({term})"
    if op is Op.STARTS_WITH or op is Op.NOT_STARTS_WITH:
        return f"{'NOT ' if op is Op.NOT_STARTS_WITH else ''}startswith({term}, {values[0]})"
    if op is Op.LIKE or op is Op.NOT_LIKE:
        return f"{term} {'NOT ' if op is Op.NOT_LIKE else ''}LIKE {values[0]}"
    return f"{term} {_SYMBOLS[op]} " + (f"({', '.join(values)})" if op.is_set else values[0])


def _name(dotted: str) -> str:
    parts = dotted.split(".")
    return ".".join(p if _PLAIN_NAME.fullmatch(p) and p.lower() not in _WORDS else f"`{p.replace('`', '``')}`" for p in parts)


def _call(transform: Any, name: str) -> str:
    if transform.parameter is not None:
        return f"system.{transform.name}({transform.parameter}, {name})"
    return f"system.{_FUNCTIONS.get(transform.name, transform.name)}({name})"


def _term(term: Term) -> str:
    return _call(term.transform, _name(term.name)) if isinstance(term, TransformTerm) else _name(term.name)


def _bound_term(term: BoundTerm) -> str:
    return _call(term.transform, _name(term.reference.name)) if isinstance(term, BoundTransform) else _name(term.name)


def _any_text(value: Any) -> str:
    literal = value if isinstance(value, Literal) else plain_literal(STRING, value)
    text = _text(literal.type, literal.value)
    if isinstance(literal.type, DecimalType) and decimal_literal(literal.value) != literal:
        return f"CAST({text} AS DECIMAL({literal.type.precision}, {literal.type.scale}))"
    return text


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _floating(name: str, suffix: str) -> Callable[[Any], str]:
    def show(value: float) -> str:
        text = float_text(value, single=name == "float")
        return f"{name}('{text}')" if "E" in text or not math.isfinite(value) else text + suffix

    return show


_TEXTS: Mapping[str, Callable[[Any], str]] = {
    "boolean": lambda v: "TRUE" if v else "FALSE",
    "int": str,
    "long": lambda v: f"{v}L",
    "float": _floating("float", "F"),
    "double": _floating("double", "D"),
    "decimal": lambda v: f"{v:f}BD",
    "date": lambda v: f"DATE '{iso_date(v)}'",
    "time": lambda v: f"TIME '{iso_time(v)}'",
    "timestamp": lambda v: f"TIMESTAMP_NTZ '{iso_timestamp(v)}'",
    "timestamptz": lambda v: f"TIMESTAMP '{iso_timestamp(v, utc=True)}'",
    "timestamp_ns": lambda v: f"TIMESTAMP_NTZ '{iso_timestamp(v, NANOS_PER_SECOND)}'",
    "timestamptz_ns": lambda v: f"TIMESTAMP '{iso_timestamp(v, NANOS_PER_SECOND, utc=True)}'",
    "string": _quoted,
    "uuid": lambda v: f"CAST('{v}' AS UUID)",
    "fixed": lambda v: f"X'{v.hex()}'",
    "binary": lambda v: f"X'{v.hex()}'",
}


def _text(type_: IcebergType, value: Any) -> str:
    return _TEXTS[type_.name if isinstance(type_, PrimitiveType) else ""](value)
