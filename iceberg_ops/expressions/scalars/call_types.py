"""Types of calls: the types to which Spark casts the arguments, and the result type.

Decimals: a result has the digits of Spark's rules. If there are more than 38, Spark rounds by additional rules, and the call
is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from iceberg_ops.expressions.common_types import MOST_DIGITS, wider
from iceberg_ops.expressions.scalars.terms import Bound, Constant, NotEvaluated
from iceberg_ops.spec.types import BOOLEAN, DOUBLE, FLOAT, INT, LONG, UNKNOWN, DecimalType, IcebergType, PrimitiveType

Typing = Callable[[Sequence[Bound]], tuple[list[PrimitiveType], PrimitiveType]]
_NUMBERS = frozenset({"int", "long", "float", "double", "decimal"})
_FLOATING = frozenset({"float", "double"})
_DATED = frozenset({"date", "timestamp", "timestamptz"})
_COMPARED = frozenset({"boolean", "string", "binary"}) | _NUMBERS | _DATED
_DIGITS = {INT: 10, LONG: 20}
_LEAST_SCALE_OF_QUOTIENT = 6
_DIGITS_OF_SIGNED = 34


def shown(arguments: Sequence[Bound]) -> str:
    """The types of arguments, for a message."""
    return ", ".join(str(a.type) for a in arguments)


def type_name(type_: IcebergType) -> str:
    return str(getattr(type_, "name", ""))


def common_type(arguments: Sequence[Bound], what: str) -> PrimitiveType:
    """The type to which Spark casts all of them. Raises NotEvaluated if there is none, or if Spark rounds."""
    result: PrimitiveType = UNKNOWN
    for argument in arguments:
        type_ = argument.type
        if type_ == UNKNOWN:
            continue
        if type_name(type_) not in _COMPARED or not isinstance(type_, PrimitiveType):
            raise NotEvaluated(f"{what} of type {type_}")
        both = type_ if result == UNKNOWN else _wider(result, type_)
        if both is None:
            raise NotEvaluated(f"{what} of different types ({shown(arguments)})")
        result = both
    return result


def _wider(a: PrimitiveType, b: PrimitiveType) -> PrimitiveType | None:
    names = {a.name, b.name}
    if a == b:
        return a
    if not (names <= _NUMBERS or names <= _DATED):
        return None
    if "decimal" in names and not names & _FLOATING:
        (p, s), (q, t) = _digits(a), _digits(b)
        if max(p - s, q - t) + max(s, t) > MOST_DIGITS:
            raise NotEvaluated(f"{a} with {b}, which need more than {MOST_DIGITS} digits together")
    return wider(a, b)


def _digits(type_: PrimitiveType) -> tuple[int, int]:
    return (type_.precision, type_.scale) if isinstance(type_, DecimalType) else (_DIGITS[type_], 0)


def _digits_beside_decimal(argument: Bound) -> tuple[int, int]:
    """An integer literal counts with its own digits."""
    if isinstance(argument, Constant) and argument.is_number and argument.type in _DIGITS:
        return len(str(abs(argument.value))), 0
    return _digits(argument.type)  # type: ignore[arg-type]


def same_types(arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
    """For comparisons: all are cast to one type, including dates written as text."""
    dated = [a for a in arguments if type_name(a.type) in _DATED]
    kept = arguments
    if dated:
        kept = [a for a in arguments if not (isinstance(a, Constant) and type_name(a.type) == "string")]
    shared = common_type(kept, "a comparison")
    return [shared] * len(arguments), BOOLEAN


def conditional(name: str) -> Typing:
    """``coalesce``: one type for all. ``case``: conditions and values alternate, followed by the else value."""

    def typing(arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
        if name == "coalesce":
            shared = common_type(arguments, name)
            return [shared] * len(arguments), shared
        conditions, values = arguments[:-1:2], [*arguments[1:-1:2], arguments[-1]]
        if any(c.type != BOOLEAN for c in conditions):
            raise NotEvaluated(f"CASE WHEN of {shown(conditions)}")
        shared = common_type(values, "CASE")
        types: list[PrimitiveType] = []
        for _ in conditions:
            types += [BOOLEAN, shared]
        return [*types, shared], shared

    return typing


def logical(arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
    if any(a.type not in (BOOLEAN, UNKNOWN) for a in arguments):
        raise NotEvaluated(f"a condition of type {shown(arguments)}")
    return [BOOLEAN] * len(arguments), BOOLEAN


def arithmetic(operator: str) -> Typing:
    """For two numbers, or for a date and days."""

    def typing(arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
        names = {type_name(a.type) for a in arguments}
        if not names - {"unknown"} <= _NUMBERS or names == {"unknown"}:
            raise NotEvaluated(f"{operator} of {shown(arguments)}")
        if "unknown" in names:
            raise NotEvaluated(f"{operator} of NULL")
        if "decimal" in names and not names & _FLOATING:
            return _decimals(operator, arguments)
        shared = common_type(arguments, operator)
        return [shared, shared], shared

    return typing


def _decimals(operator: str, arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
    for a in arguments:
        if isinstance(a, Constant) and a.type in _DIGITS and not a.is_number:  # Spark distinguishes 3L and CAST(3 AS BIGINT)
            raise NotEvaluated(f"{operator} of {shown(arguments)}, whose digits depend on how the whole number is written,")
    (p, s), (q, t) = (_digits_beside_decimal(a) for a in arguments)
    whole = max(p - s, q - t)
    if operator in "+-":
        precision, scale = whole + max(s, t) + 1, max(s, t)
    elif operator == "*":
        precision, scale = p + q + 1, s + t
    elif operator == "/":
        scale = max(_LEAST_SCALE_OF_QUOTIENT, s + q + 1)
        precision = p - s + t + scale
    else:
        precision, scale = min(p - s, q - t) + max(s, t), max(s, t)
    if precision > MOST_DIGITS or (operator == "%" and p - s + t > MOST_DIGITS):
        raise NotEvaluated(f"{operator} of {shown(arguments)}, which needs more than {MOST_DIGITS} digits,")
    given: list[PrimitiveType] = [DecimalType(precision=p, scale=s), DecimalType(precision=q, scale=t)]
    return given, DecimalType(precision=max(precision, 1), scale=scale)


def quotient(arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
    """``/`` for doubles, or for decimals."""
    names = {type_name(a.type) for a in arguments}
    if "decimal" not in names or names & _FLOATING:
        arithmetic("/")(arguments)
        return [DOUBLE, DOUBLE], DOUBLE
    return arithmetic("/")(arguments)


def whole_numbers(*results: PrimitiveType) -> Typing:
    """For two integers; ``results``: for ints, for longs."""

    def typing(arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
        if len(arguments) != 2 or any(a.type not in _DIGITS for a in arguments):
            raise NotEvaluated(f"a whole division of {shown(arguments)}")
        shared = common_type(arguments, "div")
        if len(results) == 1:
            return [shared, shared], results[0]
        return [shared, shared], shared

    return typing


def kept_number(arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
    """The result has the argument's type."""
    (argument,) = arguments if len(arguments) == 1 else (None,)
    if argument is None or not isinstance(argument.type, PrimitiveType) or argument.type.name not in _NUMBERS:
        raise NotEvaluated(f"a number of type {shown(arguments)}")
    return [argument.type], argument.type


def signed(arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
    """``abs`` and minus, which Spark rounds if a decimal has many digits."""
    types, result = kept_number(arguments)
    if isinstance(result, DecimalType) and result.precision > _DIGITS_OF_SIGNED:
        raise NotEvaluated(f"abs or minus of {result}")
    return types, result


def floor_types(arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
    """``floor``, ``ceil``: the result for integers and floats is a long."""
    (given,), _ = kept_number(arguments)
    if isinstance(given, DecimalType):
        digits = given.precision - given.scale + 1
        return [given], given if given.scale == 0 else DecimalType(precision=digits, scale=0)
    return [DOUBLE if given in (FLOAT, DOUBLE) else LONG], LONG


def rounded(arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
    """``round(x)``, ``round(x, digits)``: digits must be a literal, as in Spark."""
    digits = 0
    if len(arguments) == 2:
        given = arguments[1]
        if not isinstance(given, Constant) or given.type != INT:
            raise NotEvaluated("round to other digits than a number that is written")
        digits = given.value
    (type_,), _ = kept_number(arguments[:1])
    if type_ == FLOAT:
        raise NotEvaluated("round of float")
    if not -9 <= digits <= MOST_DIGITS or (digits < 0 and type_ not in _DIGITS):
        raise NotEvaluated(f"round of {type_} to {digits} digits")
    result = type_
    if isinstance(type_, DecimalType):
        scale = min(type_.scale, digits)
        precision = type_.precision - type_.scale + 1 + scale
        if precision > MOST_DIGITS:
            raise NotEvaluated(f"round of {type_} to {digits} digits, whose result needs more than {MOST_DIGITS} digits,")
        result = DecimalType(precision=precision, scale=scale)
    return [type_, INT][: len(arguments)], result
