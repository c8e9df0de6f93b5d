"""Expressions as Iceberg's expression JSON, both ways (the form of REST scan planning and of our own task files).

A bound leaf is written by column name with its literals as JSON single values. Reading gives an unbound leaf whose plain literals
``bind`` converts by the column's type, so that bind, write, read, bind is a round trip. In addition to Iceberg's form there are:
``like`` and ``not-like``; ``{"type": "may-match", "construct": ..., "columns": [...]}`` for parts that cannot be evaluated; and a
``data-type`` beside the value of an unbound SQL literal. Only processes of the same version exchange these.

In documents of Iceberg Java, not-eq, not-in and not-starts-with also hold for null; here they do not (see ``predicates``).
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from uuid import UUID

from iceberg_ops.errors import SchemaError, WhereError
from iceberg_ops.expressions.comparisons import interval, plain_literal
from iceberg_ops.expressions.literal_text import timestamp_from_text
from iceberg_ops.expressions.predicates import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    AlwaysFalse,
    AlwaysTrue,
    And,
    BoundComputed,
    BoundPredicate,
    BoundTransform,
    Expression,
    Literal,
    MayMatch,
    Not,
    Op,
    Or,
    Predicate,
    Reference,
    Term,
    TransformTerm,
)
from iceberg_ops.spec.epoch import NANOS_PER_SECOND, iso_date, iso_time, iso_timestamp
from iceberg_ops.spec.transforms import transform_from_text
from iceberg_ops.spec.types import TIMESTAMP_NS, TIMESTAMPTZ_NS, IcebergType, PrimitiveType, primitive_from_name

_TEMPORAL: dict[str, Callable[[int], str]] = {
    "date": iso_date,
    "time": iso_time,
    "timestamp": iso_timestamp,
    "timestamptz": lambda v: iso_timestamp(v, utc=True),
    "timestamp_ns": lambda v: iso_timestamp(v, NANOS_PER_SECOND),
    "timestamptz_ns": lambda v: iso_timestamp(v, NANOS_PER_SECOND, utc=True),
}
_OPS = {op.value: op for op in Op}


def expression_to_json(expression: Expression) -> Any:
    """A JSON-ready value: a boolean for the constants, else a mapping."""
    if isinstance(expression, AlwaysTrue):
        return True
    if isinstance(expression, AlwaysFalse):
        return False
    if isinstance(expression, And | Or):
        kind = "and" if isinstance(expression, And) else "or"
        return {"type": kind, "left": expression_to_json(expression.left), "right": expression_to_json(expression.right)}
    if isinstance(expression, Not):
        return {"type": "not", "child": expression_to_json(expression.child)}
    if isinstance(expression, BoundComputed):
        names = [reference.name for reference in expression.references]
        return {"type": "may-match", "construct": expression.construct, "columns": names}
    if isinstance(expression, MayMatch):
        return {"type": "may-match", "construct": expression.construct, "columns": list(expression.columns)}
    if isinstance(expression, BoundPredicate):
        return _leaf(expression.op, _bound_term(expression), [_typed_value(expression.type, v) for v in expression.literals])
    if isinstance(expression, Predicate):
        return _leaf(expression.op, _term(expression.term), [_plain_value(v) for v in expression.literals])
    raise TypeError(f"{type(expression).__name__} is not an expression")


def _leaf(op: Op, term: Any, values: list[Any]) -> dict[str, Any]:
    document: dict[str, Any] = {"type": op.value, "term": term}
    if op.is_set:
        document["values"] = values
    elif values:
        document["value"] = values[0]
    return document


def _bound_term(leaf: BoundPredicate) -> Any:
    name = leaf.term.reference.name
    if isinstance(leaf.term, BoundTransform):
        return {"type": "transform", "transform": str(leaf.term.transform), "term": name}
    return name


def _term(term: Term) -> Any:
    if isinstance(term, TransformTerm):
        return {"type": "transform", "transform": str(term.transform), "term": term.reference.name}
    return term.name


def _typed_value(type_: IcebergType, value: Any) -> Any:
    """The JSON single value of a canonical value."""
    write = _TEMPORAL.get(type_.name) if isinstance(type_, PrimitiveType) else None
    return write(value) if write is not None else _plain_value(value)


def _plain_value(value: Any) -> Any:
    if isinstance(value, Literal):
        return {"type": "literal", "value": _typed_value(value.type, value.value), "data-type": str(value.type)}
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).hex()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return value


def expression_from_json(document: Any) -> Expression:
    """The unbound expression of a parsed JSON value. Raises WhereError."""
    if isinstance(document, bool):
        return ALWAYS_TRUE if document else ALWAYS_FALSE
    if not isinstance(document, Mapping):
        raise WhereError(f"expression JSON must be a boolean or an object, not {document!r}")
    kind = document.get("type")
    if kind == "literal" and isinstance(document.get("value"), bool):
        return ALWAYS_TRUE if document["value"] else ALWAYS_FALSE
    if kind == "and":
        return And(expression_from_json(_part(document, "left")), expression_from_json(_part(document, "right")))
    if kind == "or":
        return Or(expression_from_json(_part(document, "left")), expression_from_json(_part(document, "right")))
    if kind == "not":
        return Not(expression_from_json(_part(document, "child")))
    if kind == "may-match":
        return MayMatch(str(_part(document, "construct")), tuple(document.get("columns", ())))
    op = _OPS.get(kind) if isinstance(kind, str) else None
    if op is None:
        raise WhereError(f"expression JSON has the unknown type {kind!r}: it must be one of and, or, not, {', '.join(_OPS)}")
    return Predicate(op, _read_term(_part(document, "term")), _read_values(op, document))


def _part(document: Mapping[str, Any], key: str) -> Any:
    if key not in document:
        raise WhereError(f"expression JSON of type {document.get('type')!r} lacks {key!r}")
    return document[key]


def _read_term(document: Any) -> Term:
    if isinstance(document, str):
        return Reference(document)
    kind = document.get("type") if isinstance(document, Mapping) else None
    if kind == "reference":
        return _read_reference(_part(document, "term"))
    if kind == "transform":
        return TransformTerm(transform_from_text(str(_part(document, "transform"))), _read_reference(_part(document, "term")))
    raise WhereError(f"expression JSON term must be a name, a reference or a transform, not {document!r}")


def _read_reference(document: Any) -> Reference:
    if isinstance(document, str):
        return Reference(document)
    if isinstance(document, Mapping) and document.get("type") == "reference":
        return _read_reference(_part(document, "term"))
    raise WhereError(f"expression JSON reference must be a name, not {document!r}")


def _read_values(op: Op, document: Mapping[str, Any]) -> tuple[Any, ...]:
    key_needed = "values" if op.is_set else "value"
    wrong = {"value", "values"} - (set() if op.is_unary else {key_needed})
    for key in sorted(wrong & set(document)):
        raise WhereError(f"expression JSON of type {op.value!r} must not have {key!r}")
    if op.is_unary:
        return ()
    given = _part(document, key_needed)
    if op.is_set and not isinstance(given, list | tuple):
        raise WhereError(f"expression JSON of type {op.value!r}: 'values' must be a list, not {given!r}")
    return tuple(_read_value(op, v) for v in (given if op.is_set else [given]))


def _read_value(op: Op, given: Any) -> Any:
    if isinstance(given, Mapping) and given.get("type") == "literal":
        value = _part(given, "value")
        return _read_literal(op, str(given["data-type"]), value) if "data-type" in given else _read_value(op, value)
    if isinstance(given, bool | int | float | str):
        return given
    raise WhereError(f"expression JSON of type {op.value!r}: {given!r} is not a literal")


def _read_literal(op: Op, type_name: str, value: Any) -> Literal:
    # Binding can read a JSON single value for a column; here the literal's own type serves as the column.
    try:
        type_ = primitive_from_name(type_name)
        if type_ in (TIMESTAMP_NS, TIMESTAMPTZ_NS) and isinstance(
            value, str
        ):  # a literal of SQL may be beyond every value of a column
            return Literal(timestamp_from_text(value)[0], type_)
        return Literal(interval(type_, plain_literal(type_, value)).low, type_)
    except (ValueError, TypeError, ArithmeticError, SchemaError) as e:
        raise WhereError(f"expression JSON of type {op.value!r}: {value!r} is not a {type_name} literal: {e}") from None
