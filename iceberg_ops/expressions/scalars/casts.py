"""CAST of values of a column, by the rules for casting literals (``expressions.literal_casts``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from iceberg_ops.expressions import literal_casts
from iceberg_ops.expressions.comparisons import LONG_RANGE
from iceberg_ops.expressions.literal_text import NotFolded, date_from_text
from iceberg_ops.expressions.predicates import Literal
from iceberg_ops.expressions.scalars.terms import NotEvaluated
from iceberg_ops.spec.epoch import MICROS_PER_SECOND, SECONDS_PER_DAY
from iceberg_ops.spec.types import DATE, DOUBLE, FLOAT, INT, LONG, DecimalType, IcebergType, PrimitiveType

_MICROS_PER_DAY = SECONDS_PER_DAY * MICROS_PER_SECOND
_DIGITS_OF_DOUBLE = 15
_WHOLE = frozenset({"int", "long"})
_EXACT = _WHOLE | {"decimal"}
_NUMBERS = _EXACT | {"float", "double"}
_INSTANTS = frozenset({"timestamp", "timestamptz"})
_DATED = _INSTANTS | {"date"}
_SOURCES: dict[str, frozenset[str]] = {
    "boolean": frozenset({"boolean", "string", *_WHOLE}),
    "int": frozenset({"boolean", "string", *_NUMBERS}),
    "long": frozenset({"boolean", "string", *_NUMBERS}),
    "float": frozenset({"float"}),
    "double": frozenset({"double", "string", *_NUMBERS}),
    "decimal": frozenset({"string", *_EXACT}),
    "string": frozenset({"string", "boolean", "date", *_EXACT}),
    "date": frozenset({"string", *_DATED}),
    "timestamp": _DATED,
    "timestamptz": _DATED,
    "binary": frozenset({"binary", "string"}),
}
"""The types that can be cast to each type. Other casts depend on Java's text of a number, on a time zone, or on bits."""


def check_cast(source: IcebergType, target: PrimitiveType) -> None:
    """Raises NotEvaluated if values of ``source`` cannot be cast to ``target`` here."""
    name = getattr(source, "name", "")
    if name != "unknown" and name not in _SOURCES.get(target.name, frozenset()):
        raise NotEvaluated(f"a cast of {source} to {target}")
    if target == INT and isinstance(source, DecimalType) and source.precision > _DIGITS_OF_DOUBLE:
        raise NotEvaluated(f"a cast of {source} to int, which Spark does by way of a double")


def _first_instant(days: int) -> int:
    micros = days * _MICROS_PER_DAY
    if not LONG_RANGE[0] <= micros <= LONG_RANGE[1]:
        raise OverflowError(f"day {days} is beyond every timestamp")
    return micros


def caster(source: PrimitiveType, target: PrimitiveType, *, safe: bool, of_column: bool = False) -> Callable[[Any], Any]:
    """The cast of one value; ``safe``: None for a value that cannot be cast; ``of_column``: the values are not constants. Raises
    (when called) ValueError, and NotFolded for a value that only Spark can cast."""
    if source == target:
        return lambda value: value
    if target == DOUBLE and source in (INT, LONG, FLOAT):
        return float
    if target == LONG and source == INT:
        return lambda value: value
    if source.name == "string" and target.name == "binary":
        return lambda value: value.encode("utf-8")

    if source == DATE and target.name in _INSTANTS:
        return _first_instant

    is_date_of_column = of_column and source.name == "string" and target == DATE

    def cast(value: Any) -> Any:
        try:
            if is_date_of_column:
                return date_from_text(value, of_column=True)
            return literal_casts.cast(Literal(value, source), target).value
        except NotFolded:
            raise
        except (ValueError, ArithmeticError) as e:
            if not safe:
                raise ValueError(f"{value!r} of type {source} cannot be cast to {target}: {e}") from None
            if source.name == "string" and not is_date_of_column and target.name not in literal_casts.READ_ALIKE:
                raise NotFolded(f"try_cast of {value!r} to {target}") from None
            return None

    return cast
