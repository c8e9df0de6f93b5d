"""Constants in SQL text: converts parse-tree nodes to typed literals, folded like in Spark.

A number with an exponent is a double, with a point a decimal, else int, long or decimal by size; suffixes, typed strings
(``DATE '...'``, ``TIMESTAMP_NTZ '...'``), ``X'ff'``, casts and the type functions (``double('NaN')``, ``bigint(1)``) name their
type. A node that is not a constant, or that this package cannot fold, gives None; an invalid constant (``CAST('x' AS INT)``) raises
WhereError.
Imported only by ``iceberg_ops.expressions.where``, because the SQL parser is slow to load.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from sqlglot import exp

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.comparisons import INT_RANGE, LONG_RANGE, decimal_literal
from iceberg_ops.expressions.literal_casts import READ_ALIKE, cast, to_whole
from iceberg_ops.expressions.literal_text import NotFolded
from iceberg_ops.expressions.predicates import Literal
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    PrimitiveType,
)

DIALECT = "spark"
Node = Any
"""A node of the SQL parser's tree."""


class Null:
    """The literal NULL, of any type."""


NULL = Null()
Constant = Literal | Null

_TYPES: dict[str, PrimitiveType] = {
    "BOOLEAN": BOOLEAN,
    "INT": INT,
    "BIGINT": LONG,
    "FLOAT": FLOAT,
    "DOUBLE": DOUBLE,
    "DATE": DATE,
    "TIME": TIME,
    "TEXT": STRING,
    "VARCHAR": STRING,
    "CHAR": STRING,
    "BINARY": BINARY,
    "VARBINARY": BINARY,
    "TIMESTAMP": TIMESTAMPTZ,
    "TIMESTAMPTZ": TIMESTAMPTZ,
    "TIMESTAMPLTZ": TIMESTAMPTZ,
    "TIMESTAMPNTZ": TIMESTAMP,
    "UUID": UUID,
}
_DIGITS_OF_MINUS = 34
"""The digits to which Spark rounds an operand after a minus that is not part of the literal, as in ``-(1.5)``."""
_FUNCTIONS: dict[str, PrimitiveType | str] = {
    "tinyint": "tinyint",
    "smallint": "smallint",
    "int": INT,
    "bigint": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "decimal": DecimalType(precision=10, scale=0),
    "binary": BINARY,
    "string": STRING,
    "boolean": BOOLEAN,
    "date": DATE,
    "timestamp": TIMESTAMPTZ,
}


def constant(node: Node) -> Constant | None:
    """The constant of ``node``, or None if it is not one. Raises WhereError."""
    try:
        return _fold(node)
    except (ValueError, ArithmeticError) as e:
        raise WhereError(f"{node.sql(dialect=DIALECT)} is not a literal: {e}") from None


def _fold(node: Node) -> Constant | None:
    if isinstance(node, exp.Paren):
        return _fold(node.this)
    if isinstance(node, exp.Null):
        return NULL
    if isinstance(node, exp.Boolean):
        return Literal(bool(node.this), BOOLEAN)
    if isinstance(node, exp.Literal):
        return Literal(node.this, STRING) if node.is_string else _number(node.this)
    if isinstance(node, exp.RawString):
        return Literal(node.this, STRING)
    if isinstance(node, exp.HexString):
        digits = str(node.this)
        return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits), BINARY)
    if isinstance(node, exp.Neg):
        return _negated(node.this)
    if isinstance(node, exp.Concat):
        return _joined(node)
    if isinstance(node, exp.Cast):
        number = _floating_digits(node)
        return _cast(node, _fold(node.this)) if number is None else _floating(node, number)
    if isinstance(node, exp.Anonymous) and str(node.this).lower() in _FUNCTIONS and len(node.expressions) == 1:
        return _cast_to(_fold(node.expressions[0]), _FUNCTIONS[str(node.this).lower()])
    return None


def _number(text: str) -> Literal:
    if "e" in text.lower():
        value = float(text)
        if math.isinf(value):
            raise ValueError("it is outside double")
        return Literal(value, DOUBLE)
    if "." in text:
        return decimal_literal(Decimal(text))
    whole = int(text)
    if INT_RANGE[0] <= whole <= INT_RANGE[1]:
        return Literal(whole, INT)
    return Literal(whole, LONG) if LONG_RANGE[0] <= whole <= LONG_RANGE[1] else decimal_literal(Decimal(whole))


def _negated(node: Node) -> Constant | None:
    """Minus belongs to the digits: ``-128Y`` and ``-9223372036854775808L`` are in range although their digits alone are not."""
    if isinstance(node, exp.Literal) and not node.is_string:
        return _number(_flipped(node.this))
    if isinstance(node, exp.Cast) and (digits := _floating_digits(node)) is not None:
        return _floating(node, _flipped(digits))
    if isinstance(node, exp.Cast) and _is_suffixed(node):
        text = node.this.this
        return _cast(node, Literal(_flipped(text), STRING) if node.this.is_string else _number(_flipped(text)))
    value = _fold(node)
    if value is None or isinstance(value, Null):
        return value
    if value.type.name not in ("int", "long", "float", "double", "decimal"):
        raise ValueError(f"a {value.type} literal has no minus")
    if isinstance(value.value, Decimal) and len(value.value.as_tuple().digits) > _DIGITS_OF_MINUS:
        return None
    negative = value.value.copy_negate() if isinstance(value.value, Decimal) and value.value else -value.value
    if value.type.name in ("int", "long"):
        return to_whole(Literal(negative, LONG), value.type.name)
    return Literal(negative, value.type)


def _floating_digits(node: Node) -> str | None:
    """The digits of a number with suffix D or F, which are read directly: a decimal could have too many, and has no -0.0."""
    is_number = isinstance(node.this, exp.Literal) and not node.this.is_string
    return str(node.this.this) if is_number and cast_type(node.to) in (FLOAT, DOUBLE) else None


def _floating(node: Node, digits: str) -> Constant | None:
    literal = _cast(node, Literal(digits, STRING))
    if isinstance(literal, Literal) and math.isinf(literal.value):
        raise ValueError(f"it is outside {literal.type}")
    return literal


def _is_suffixed(node: Node) -> bool:
    """A number with a type suffix: the parser represents it as a cast (of the digits as text for BD)."""
    if not isinstance(node.this, exp.Literal):
        return False
    return not node.this.is_string or bool(node.to.this == exp.DataType.Type.DECIMAL and node.to.expressions)


def _flipped(text: str) -> str:
    return text[1:] if text.startswith("-") else f"-{text}"


def _joined(node: Node) -> Constant | None:
    """Adjacent string literals."""
    parts = [_fold(part) for part in node.expressions]
    if all(isinstance(p, Literal) and p.type == STRING for p in parts):
        return Literal("".join(p.value for p in parts if isinstance(p, Literal)), STRING)
    return NULL if any(isinstance(p, Null) for p in parts) and all(p is not None for p in parts) else None


def cast_type(node: Node) -> PrimitiveType | str | None:
    """The type that a cast names, ``tinyint`` and ``smallint`` by name; None for one that is not a primitive of Iceberg. Raises
    WhereError for an invalid decimal."""
    name = node.this.name if hasattr(node.this, "name") else str(node.this)
    if name in ("TINYINT", "SMALLINT"):
        return name.lower()
    if name == "DECIMAL":
        numbers = [int(p.this.this) for p in node.expressions]
        precision, scale = numbers[0] if numbers else 10, numbers[1] if len(numbers) > 1 else 0
        if not 1 <= precision <= 38 or not 0 <= scale <= precision:
            raise WhereError(f"DECIMAL({precision}, {scale}): a decimal has 1 to 38 digits, and not more after the point")
        return DecimalType(precision=precision, scale=scale)
    return _TYPES.get(name)


def _cast(node: Node, value: Constant | None) -> Constant | None:
    target = cast_type(node.to)
    return None if target is None else _cast_to(value, target, safe=bool(node.args.get("safe")))


def _cast_to(value: Constant | None, target: PrimitiveType | str, *, safe: bool = False) -> Constant | None:
    if value is None or isinstance(value, Null):
        return value
    try:
        return to_whole(value, target) if isinstance(target, str) else cast(value, target)
    except NotFolded:
        return None
    except (ValueError, ArithmeticError):
        if not safe:
            raise
        # Spark reads more texts as dates and timestamps than this package: words, and hours without a day, which mean today.
        return NULL if isinstance(target, str) or target.name in READ_ALIKE else None
