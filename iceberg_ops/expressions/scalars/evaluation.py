"""Compiles a bound term to a function of a row. Arguments that Spark does not evaluate are not evaluated here, so that their errors
are not raised: arguments after a NULL, CASE branches that are not taken, the right side of an AND whose left side is false.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.like import matcher, stored_pattern
from iceberg_ops.expressions.ordering import order_key, order_key_function
from iceberg_ops.expressions.predicates import BoundReference
from iceberg_ops.expressions.scalars.casts import caster
from iceberg_ops.expressions.scalars.functions import FUNCTIONS
from iceberg_ops.expressions.scalars.terms import Bound, BoundCall, BoundColumn, Constant
from iceberg_ops.spec.types import DOUBLE, FLOAT

_RIGHT_FIRST = frozenset({"/", "%", "div", "pmod"})
"""Spark evaluates the divisor before the dividend."""
Value = Callable[[Any], Any]
ValueOf = Callable[[BoundReference], Value]


def compiled(term: Bound, value_of: ValueOf) -> Value:
    """The value of a term for one row; ``value_of`` gives the function that reads one of its columns. Calling it raises ValueError
    and ArithmeticError if Spark raises, and ``NotFolded`` for a value that only Spark can compute."""
    if isinstance(term, Constant):
        value = term.value
        return lambda row: value
    if isinstance(term, BoundColumn):
        return value_of(term.reference)
    arguments = [compiled(a, value_of) for a in term.arguments]
    if term.name == "cast":
        (given,) = term.arguments
        of_column = not isinstance(given, Constant)
        return _strict(caster(given.type, term.type, safe=term.safe, of_column=of_column), arguments)  # type: ignore[arg-type]
    if lazy := LAZY.get(term.name):
        return lazy(term, arguments)
    evaluation = FUNCTIONS[term.name].evaluation
    assert evaluation is not None
    call = evaluation(term.arguments, term.type)
    if term.name in _RIGHT_FIRST:
        return _of_two(lambda y, x: call(x, y), arguments[1], arguments[0])
    return _strict(call, arguments)


def of_constants(term: BoundCall) -> Any:
    """The value of a term without columns. Raises the errors of ``compiled``."""
    return compiled(term, lambda reference: lambda row: None)(())


def _strict(call: Callable[..., Any], arguments: Sequence[Value]) -> Value:
    """NULL if an argument is NULL."""
    if len(arguments) == 1:
        return _of_one(call, arguments[0])
    if len(arguments) == 2:
        return _of_two(call, *arguments)

    def several(row: Any) -> Any:
        values = []
        for argument in arguments:
            value = argument(row)
            if value is None:
                return None
            values.append(value)
        return call(*values)

    return several


def _of_one(call: Callable[[Any], Any], argument: Value) -> Value:
    def value(row: Any) -> Any:
        x = argument(row)
        return None if x is None else call(x)

    return value


def _of_two(call: Callable[[Any, Any], Any], left: Value, right: Value) -> Value:
    def value(row: Any) -> Any:
        x = left(row)
        if x is None:
            return None
        y = right(row)
        return None if y is None else call(x, y)

    return value


def _comparison(compare: Callable[[Any, Any], bool]) -> Callable[[BoundCall, Sequence[Value]], Value]:
    def lazy(term: BoundCall, arguments: Sequence[Value]) -> Value:
        key = _key(term)
        return _of_two(lambda x, y: compare(key(x), key(y)), *arguments)

    return lazy


def _key(term: BoundCall) -> Callable[[Any], Any]:
    return order_key if any(a.type in (FLOAT, DOUBLE) for a in term.arguments) else order_key_function(term.type)


def _null_safe(term: BoundCall, arguments: Sequence[Value]) -> Value:
    left, right = arguments
    return lambda row: order_key(left(row)) == order_key(right(row))


def _in(_: BoundCall, arguments: Sequence[Value]) -> Value:
    searched, items = arguments[0], arguments[1:]

    def value(row: Any) -> bool | None:
        x = searched(row)
        if x is None:
            return None
        key, has_null = order_key(x), False
        for item in items:
            y = item(row)
            if y is None:
                has_null = True
            elif order_key(y) == key:
                return True
        return None if has_null else False

    return value


def _in_constants(term: BoundCall, arguments: Sequence[Value]) -> Value:
    items = term.arguments[1:]
    if not all(isinstance(item, Constant) for item in items):
        return _in(term, arguments)
    values = [item.value for item in items if isinstance(item, Constant)]
    keys, otherwise = frozenset(order_key(v) for v in values if v is not None), None if None in values else False
    return _of_one(lambda x: True if order_key(x) in keys else otherwise, arguments[0])


def _connective(strong: bool) -> Callable[[BoundCall, Sequence[Value]], Value]:
    """AND (``strong`` false), OR (true): a side with that value decides."""

    def lazy(_: BoundCall, arguments: Sequence[Value]) -> Value:
        left, right = arguments

        def value(row: Any) -> bool | None:
            x: bool | None = left(row)
            if x is strong:
                return strong
            y: bool | None = right(row)
            if y is strong:
                return strong
            return None if x is None or y is None else not strong

        return value

    return lazy


def _coalesce(_: BoundCall, arguments: Sequence[Value]) -> Value:
    def value(row: Any) -> Any:
        return next((first for argument in arguments if (first := argument(row)) is not None), None)

    return value


def _case(_: BoundCall, arguments: Sequence[Value]) -> Value:
    branches, otherwise = list(zip(arguments[:-1:2], arguments[1:-1:2], strict=True)), arguments[-1]

    def value(row: Any) -> Any:
        for condition, then in branches:
            if condition(row) is True:
                return then(row)
        return otherwise(row)

    return value


def _like(term: BoundCall, arguments: Sequence[Value]) -> Value:
    pattern = term.arguments[1]
    if isinstance(pattern, Constant) and pattern.value is not None:
        return _of_one(matcher(stored_pattern(pattern.value, "\\")), arguments[0])
    return _of_two(_matches, *arguments)


def _matches(text: str, pattern: str) -> bool:
    try:
        held = stored_pattern(pattern, "\\")
    except WhereError as e:
        raise ValueError(str(e)) from None
    return matcher(held)(text)


def _concat(_: BoundCall, arguments: Sequence[Value]) -> Value:
    """Spark evaluates every part, also after a NULL."""

    def value(row: Any) -> str | None:
        parts = [argument(row) for argument in arguments]
        return None if None in parts else "".join(parts)

    return value


LAZY: dict[str, Callable[[BoundCall, Sequence[Value]], Value]] = {
    "=": _comparison(lambda x, y: x == y),
    "<>": _comparison(lambda x, y: x != y),
    "<": _comparison(lambda x, y: x < y),
    "<=": _comparison(lambda x, y: x <= y),
    ">": _comparison(lambda x, y: x > y),
    ">=": _comparison(lambda x, y: x >= y),
    "<=>": _null_safe,
    "in": _in_constants,
    "and": _connective(False),
    "or": _connective(True),
    "not": lambda _, arguments: _of_one(lambda x: not x, arguments[0]),
    "is true": lambda _, arguments: lambda row: arguments[0](row) is True,
    "is false": lambda _, arguments: lambda row: arguments[0](row) is False,
    "isnull": lambda _, arguments: lambda row: arguments[0](row) is None,
    "isnan": lambda _, arguments: lambda row: (x := arguments[0](row)) is not None and math.isnan(x),
    "like": _like,
    "coalesce": _coalesce,
    "case": _case,
    "concat": _concat,
}
"""Calls that choose which arguments they evaluate, or that have a value for NULL."""
