"""DEFAULT of a column definition: converts a SQL literal to a canonical value of the column's type.

The rule: the column must hold the literal exactly, so ``DEFAULT 1.005`` is invalid for decimal(9, 2) and ``DEFAULT 3e9`` for int. A
number for a float or double column becomes the nearest one, because almost no decimal is exactly a float.
"""

from __future__ import annotations

import math
from typing import Any

from iceberg_ops.errors import OptionError, WhereError
from iceberg_ops.spec.types import IcebergType, PrimitiveType

_FLOATING = frozenset({"float", "double"})
_NUMERIC = frozenset({"int", "long", "float", "double", "decimal", "string"})


def parse_default(text: str, type_: IcebergType) -> Any:
    """The value, None for NULL. Raises OptionError for text that is not a literal of ``type_``."""
    from iceberg_ops.expressions.predicates import Literal
    from iceberg_ops.expressions.where_literals import Null, constant
    from iceberg_ops.expressions.where_parser import parse_condition

    try:
        literal = constant(parse_condition(text))
    except WhereError as e:
        raise OptionError(f"default {text!r}: {e}") from None
    if isinstance(literal, Null):
        return None
    if not isinstance(literal, Literal) or not isinstance(type_, PrimitiveType):
        raise OptionError(f"default {text!r}: must be a literal of type {type_}, or NULL")
    try:
        return _value(literal, type_)
    except (ValueError, ArithmeticError) as e:
        raise OptionError(f"default {text!r}: must be a literal of type {type_}: {e}") from None


def _value(literal: Any, type_: PrimitiveType) -> Any:
    from iceberg_ops.expressions.comparisons import interval
    from iceberg_ops.expressions.literal_casts import cast

    if type_.name == "uuid":
        return cast(literal, type_).value
    if type_.name in _FLOATING and literal.type.name in _NUMERIC:
        return _number(literal, cast(literal, type_).value)
    place = interval(type_, literal)
    if place.low is None or place.low != place.high:
        raise ValueError("no value of the column equals it")
    return place.low


def _number(literal: Any, value: float) -> float:
    if not math.isfinite(value):
        given_finite = not isinstance(literal.value, float) or math.isfinite(literal.value)
        is_number = given_finite and literal.type.name != "string"
        raise ValueError("it lies beyond them" if is_number else "JSON, in which defaults are stored, has no NaN and no infinities")
    is_exact = literal.type.name in _FLOATING
    return value if is_exact or value else 0.0  # a decimal has no negative zero
