"""Binding: a term's columns by field id, its types, and the casts between them. A value that is equal for every row is computed
here.

Raises NotEvaluated for a term that only Spark evaluates. The caller (``find``) raises the error for an unknown column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iceberg_ops.expressions.literal_text import NotFolded
from iceberg_ops.expressions.predicates import BoundReference
from iceberg_ops.expressions.scalars.casts import caster, check_cast
from iceberg_ops.expressions.scalars.evaluation import of_constants
from iceberg_ops.expressions.scalars.functions import ALIASES, FUNCTIONS
from iceberg_ops.expressions.scalars.terms import (
    NULL,
    TOO_DEEP,
    Bound,
    BoundCall,
    BoundColumn,
    CastTo,
    Column,
    Constant,
    NotEvaluated,
    Refused,
    Scalar,
)
from iceberg_ops.spec.types import DATE, INT, UNKNOWN, PrimitiveType

Find = Callable[[str], BoundReference]
_TYPES = frozenset({
    "boolean", "int", "long", "float", "double", "decimal", "string", "binary", "date", "timestamp", "timestamptz",
})  # fmt: skip
"""Types of columns that terms may read."""
_MOST_LEVELS = 100
"""The depth limit: evaluation uses as many levels of Python's stack."""
_OF_DATES = {"+": "date_add", "-": "date_sub"}


def bind_scalar(term: Scalar, find: Find) -> Bound:
    """The term with its columns and types resolved. Raises NotEvaluated, and the errors of ``find``."""
    return _bound(term, find, 0)


def _bound(term: Scalar, find: Find, level: int) -> Bound:
    if level > _MOST_LEVELS:
        raise NotEvaluated(TOO_DEEP)
    if isinstance(term, Refused):
        raise NotEvaluated(term.what)
    if isinstance(term, Constant):
        return term
    if isinstance(term, Column):
        return _column(find(term.name))
    if isinstance(term, CastTo):
        child = _bound(term.child, find, level + 1)
        check_cast(child.type, term.type)
        return _known(BoundCall("cast", (child,), term.type, term.safe))
    return _call(ALIASES.get(term.name, term.name), [_bound(a, find, level + 1) for a in term.arguments])


def _column(reference: BoundReference) -> Bound:
    if not isinstance(reference.type, PrimitiveType) or reference.type.name not in _TYPES:
        raise NotEvaluated(f"column {reference.name} of type {reference.type} in an expression")
    return BoundColumn(reference)


def _call(name: str, arguments: Sequence[Bound]) -> Bound:
    if name in _OF_DATES and [a.type for a in arguments] == [DATE, INT]:
        name = _OF_DATES[name]
    if name == "nullif":
        left, right = arguments
        return _call("case", [_call("=", [left, right]), NULL, left])
    types, result = FUNCTIONS[name].typing(arguments)
    cast = tuple(_coerced(a, t) for a, t in zip(arguments, types, strict=True))
    return _known(BoundCall(name, cast, result))


def _coerced(argument: Bound, type_: PrimitiveType) -> Bound:
    """The argument cast to the type that the call needs."""
    if argument.type in (type_, UNKNOWN):
        return argument
    if isinstance(argument, Constant) and argument.value is not None:
        try:
            return Constant(caster(argument.type, type_, safe=False)(argument.value), type_)
        except NotFolded as e:
            raise NotEvaluated(str(e)) from None
        except (ValueError, ArithmeticError) as e:
            raise NotEvaluated(f"{argument.value!r} as {type_}: {e}") from None
    check_cast(argument.type, type_)
    return Constant(None, type_) if isinstance(argument, Constant) else BoundCall("cast", (argument,), type_)


def _known(call: BoundCall) -> Bound:
    """A value that is equal for every row, as a constant. An error in every row is left to Spark."""
    if not all(isinstance(a, Constant) for a in call.arguments):
        return call
    try:
        return Constant(of_constants(call), call.type)
    except (ValueError, ArithmeticError) as e:
        raise NotEvaluated(f"{call.name} of {', '.join(str(getattr(a, 'value', '')) for a in call.arguments)}: {e}") from None
