"""Stores a literal in a column by SQL's store assignment, converted like Spark.

Integers and decimals can be stored in any number type that does not truncate them, within its range; text stays text. Assignments
that Spark refuses are refused with its message. The rule: a conversion is done only if its result is certainly the same as Spark's.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

from iceberg_ops.errors import DataError, NeedsSparkError, SchemaError
from iceberg_ops.expressions.literal_casts import cast
from iceberg_ops.expressions.predicates import Literal
from iceberg_ops.spec.types import IcebergType, PrimitiveType

_WHOLE = frozenset({"int", "long"})
_FRACTIONS = frozenset({"float", "double", "decimal"})
_NUMBERS = _WHOLE | _FRACTIONS
_SHOWN_FIRST = frozenset({("float", "decimal"), ("double", "decimal")})
"""Casts that depend on the text of a number, which differs between Java's versions."""
_HALF_MASK, _HALF = (1 << 29) - 1, 1 << 28
"""The bits of a double that a float does not have, and their value half way between two floats."""
_LEAST_FLOAT = 2.0**-126


def stored_value(column: str, column_type: IcebergType, literal: Literal) -> Any:
    """The canonical value of ``literal`` in a column of type ``wanted``.

    Raises SchemaError if it cannot be stored without a cast, DataError if it is out of range, UnsupportedError if only
    Spark knows the result.
    """
    given = literal.type
    if not isinstance(column_type, PrimitiveType):
        raise _only_spark(column, column_type, literal)
    if isinstance(literal.value, float) and literal.value == 0 and math.copysign(1, literal.value) < 0:
        raise _only_spark(column, column_type, literal)
    if given == column_type:
        return literal.value
    kinds = (given.name, column_type.name)
    if (kinds[0] in _FRACTIONS and kinds[1] in _WHOLE) or (kinds[0] == "string" and kinds[1] in _NUMBERS | {"boolean", "date"}):
        raise SchemaError(f"column {column!r}: {given} cannot be stored as {column_type} without an explicit cast")
    as_number = kinds[0] in _NUMBERS and kinds[1] in _NUMBERS and kinds not in _SHOWN_FIRST
    as_text = kinds[0] in _WHOLE | {"boolean"} and kinds[1] == "string"
    if (not as_number and not as_text) or (kinds[1] == "float" and not _is_certain_float(literal)):
        raise _only_spark(column, column_type, literal)
    try:
        value = cast(literal, column_type).value
    except (ValueError, ArithmeticError) as e:
        raise DataError(f"column {column!r}: {literal.value} does not fit {column_type}: {e}") from None
    if kinds[0] in _WHOLE | {"decimal"} and isinstance(value, float) and value == 0:
        return 0.0  # a decimal has no negative zero
    return value


def _is_certain_float(literal: Literal) -> bool:
    """Whether rounding to a double first, and then to a float, gives the same result as rounding once."""
    number = float(literal.value)
    if not math.isfinite(number):
        return isinstance(literal.value, float)
    if abs(number) > 3.4e38 or 0 < abs(number) < _LEAST_FLOAT:
        return False
    (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    exact = isinstance(literal.value, float) or Decimal(number) == Decimal(literal.value)
    return exact or bits & _HALF_MASK != _HALF


def _only_spark(column: str, column_type: IcebergType, literal: Literal) -> NeedsSparkError:
    return NeedsSparkError.to(f"{literal.type} {literal.value!r} in column {column!r} of type {column_type}")
