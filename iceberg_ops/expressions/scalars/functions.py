"""The table of functions and operators that are evaluated without Spark, by name.

An entry has its forms, each with argument types and a result type, and the evaluation of canonical values, none of which is None: a
call with a NULL is NULL, and arguments after the NULL are not evaluated. Entries of arithmetic and of comparisons have typing
rules (``call_types``); those in ``LAZY`` have their own evaluation (``evaluation``), which chooses the arguments it evaluates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_ops.expressions.scalars import arithmetic as numbers
from iceberg_ops.expressions.scalars import dates, texts
from iceberg_ops.expressions.scalars.call_types import (
    Typing,
    arithmetic,
    conditional,
    floor_types,
    logical,
    quotient,
    rounded,
    same_types,
    shown,
    signed,
    whole_numbers,
)
from iceberg_ops.expressions.scalars.terms import Bound, Constant, NotEvaluated
from iceberg_ops.spec.types import BOOLEAN, DATE, INT, LONG, STRING, TIMESTAMPTZ, PrimitiveType

Evaluation = Callable[..., Any]
_TYPES: dict[str, PrimitiveType] = {
    "string": STRING,
    "int": INT,
    "long": LONG,
    "date": DATE,
    "timestamp": TIMESTAMPTZ,
    "boolean": BOOLEAN,
}
_TAKEN_AS: dict[PrimitiveType, tuple[str, ...]] = {
    STRING: ("string",),
    INT: ("int",),
    LONG: ("int", "long"),
    DATE: ("date", "timestamp", "timestamptz"),
    TIMESTAMPTZ: ("date", "timestamp", "timestamptz"),
    BOOLEAN: ("boolean",),
}
"""Argument types that Spark, and this package, convert to a parameter's type."""


@dataclass(frozen=True, slots=True)
class Function:
    """``typing``: from bound arguments to the types to which they are cast and the result type. ``evaluation``: from both to the
    function of the values."""

    name: str
    typing: Typing
    evaluation: Callable[[Sequence[Bound], PrimitiveType], Evaluation] | None = None


def _forms(name: str, forms: Sequence[str]) -> Typing:
    """``string, int -> string``: the first form that accepts the arguments; ``string* -> string`` accepts any number of them."""
    parsed = []
    for form in forms:
        left, _, right = form.partition(" -> ")
        parsed.append((left.split(", "), _TYPES[right]))

    def typing(arguments: Sequence[Bound]) -> tuple[list[PrimitiveType], PrimitiveType]:
        for parameter_types, result in parsed:
            repeated = [parameter_types[0][:-1]] * len(arguments) if parameter_types[0].endswith("*") else parameter_types
            types = [_TYPES[w] for w in repeated]
            if len(types) == len(arguments) and all(_takes(t, a) for t, a in zip(types, arguments, strict=True)):
                return types, result
        raise NotEvaluated(f"{name} of {shown(arguments)} (only {' or '.join(f.partition(' -> ')[0] for f in forms)})")

    return typing


def _takes(parameter_type: PrimitiveType, given: Bound) -> bool:
    name = getattr(given.type, "name", "")
    return name == "unknown" or name in _TAKEN_AS[parameter_type]


def _plain(name: str, evaluation: Evaluation, *forms: str) -> Function:
    return Function(name, _forms(name, forms), lambda arguments, result: evaluation)


def _numeric(name: str, typing: Typing, of_types: Callable[[Sequence[Any], PrimitiveType], Evaluation]) -> Function:
    return Function(name, typing, lambda arguments, result: of_types([a.type for a in arguments], result))


def _round(arguments: Sequence[Bound], result: PrimitiveType) -> Evaluation:
    digits = arguments[1].value if len(arguments) > 1 and isinstance(arguments[1], Constant) else 0
    evaluate = numbers.round_half_up(arguments[0].type, result, digits)  # type: ignore[arg-type]
    return lambda x, *_: evaluate(x)


_ENTRIES = (
    _plain("upper", texts.upper, "string -> string"),
    _plain("lower", texts.lower, "string -> string"),
    _plain("length", len, "string -> int"),
    _plain("trim", texts.trim, "string -> string"),
    _plain("ltrim", texts.ltrim, "string -> string"),
    _plain("rtrim", texts.rtrim, "string -> string"),
    _plain("substring", texts.substring, "string, int -> string", "string, int, int -> string"),
    _plain("left", texts.left, "string, int -> string"),
    _plain("right", texts.right, "string, int -> string"),
    _plain("concat", texts.concat, "string* -> string"),
    _plain("replace", texts.replace, "string, string, string -> string", "string, string -> string"),
    _plain("reverse", texts.reverse, "string -> string"),
    _plain("instr", texts.instr, "string, string -> int"),
    _plain("startswith", texts.starts_with, "string, string -> boolean"),
    _plain("endswith", texts.ends_with, "string, string -> boolean"),
    _plain("contains", texts.contains, "string, string -> boolean"),
    *(_plain(name, part, "date -> int") for name, part in dates.PARTS_OF_DATES.items()),
    *(_plain(name, part, "timestamp -> int") for name, part in dates.PARTS_OF_TIMES.items()),
    _plain("date_add", dates.date_add, "date, int -> date"),
    _plain("date_sub", dates.date_sub, "date, int -> date"),
    _plain("datediff", dates.date_diff, "date, date -> int"),
    _plain("date_trunc", dates.date_trunc, "string, timestamp -> timestamp"),
    _plain("trunc", dates.trunc, "date, string -> date"),
    _plain("last_day", dates.last_day, "date -> date"),
    _plain("to_date", lambda days: days, "date -> date"),
    _numeric("+", arithmetic("+"), numbers.add),
    _numeric("-", arithmetic("-"), numbers.subtract),
    _numeric("*", arithmetic("*"), numbers.multiply),
    _numeric("/", quotient, numbers.divide),
    _numeric("%", arithmetic("%"), numbers.remainder),
    _numeric("pmod", whole_numbers(INT, LONG), numbers.positive_remainder),
    _numeric("div", whole_numbers(LONG), numbers.whole_quotient),
    _numeric("negative", signed, numbers.negative),
    _numeric("abs", signed, numbers.absolute),
    _numeric("floor", floor_types, numbers.floor),
    _numeric("ceil", floor_types, numbers.ceil),
    Function("round", rounded, _round),
    *(Function(name, same_types) for name in ("=", "<>", "<", "<=", ">", ">=", "<=>", "in")),
    *(Function(name, logical) for name in ("and", "or", "not", "is true", "is false")),
    Function("isnull", lambda arguments: ([_any(a) for a in arguments], BOOLEAN)),
    Function("isnan", lambda arguments: ([_floating(a) for a in arguments], BOOLEAN)),
    Function("like", _forms("like", ["string, string -> boolean"])),
    Function("coalesce", conditional("coalesce")),
    Function("case", conditional("case")),
    Function("nullif", same_types),
)
FUNCTIONS = {entry.name: entry for entry in _ENTRIES}
ALIASES = {
    "ucase": "upper",
    "lcase": "lower",
    "char_length": "length",
    "character_length": "length",
    "len": "length",
    "substr": "substring",
    "btrim": "trim",
    "nvl": "coalesce",
    "ifnull": "coalesce",
    "mod": "%",
    "ceiling": "ceil",
    "date_diff": "datediff",
    "if": "case",
}
"""Other names; ``if`` of three arguments is a CASE of one branch."""
_OPERATORS = frozenset({"negative", "in", "and", "or", "not", "is true", "is false", "like", "case", "div"})


def evaluated() -> str:
    """The functions that are evaluated without Spark, for an error message."""
    names = sorted(({*FUNCTIONS, *ALIASES} - _OPERATORS) - {n for n in FUNCTIONS if not n[0].isalpha()})
    return f"comparisons, AND, OR, NOT, IN, BETWEEN, LIKE, IS, CASE, CAST, + - * / % div ||, and {', '.join(names)}"


def _any(argument: Bound) -> PrimitiveType:
    if not isinstance(argument.type, PrimitiveType):
        raise NotEvaluated(f"IS NULL of {argument.type}")
    return argument.type


def _floating(argument: Bound) -> PrimitiveType:
    if not isinstance(argument.type, PrimitiveType) or argument.type.name not in ("float", "double"):
        raise NotEvaluated(f"isnan of {argument.type}")
    return argument.type
