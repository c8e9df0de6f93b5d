"""Generates SQL expressions computed from a row, of every type, with every function and operator that this package evaluates."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

from tests.expressions.generated_literals import sql_text
from tests.expressions.generated_texts import TextForms

COLUMNS: Mapping[str, Sequence[str]] = {
    "boolean": ("flag",),
    "int": ("i", "inner.x"),
    "long": ("l",),
    "float": ("f",),
    "double": ("d", "inner.d"),
    "decimal": ("dec", "tiny", "whole", "mid", "deep"),
    "string": ("s", "inner.`y z`"),
    "date": ("day",),
    "timestamp": ("ts",),
    "timestamp_ntz": ("ntz",),
    "binary": ("bin",),
}
LITERALS: Mapping[str, Sequence[str]] = {
    "boolean": ("TRUE", "FALSE"),
    "int": ("0", "1", "2", "-1", "-3", "7", "10", "127", "2147483647"),
    "long": ("0L", "3L", "-1L", "10000000000", "9223372036854775807"),
    "float": ("1.5F", "0F"),
    "double": ("0D", "-0.0D", "0.1D", "1.5D", "1e10", "double('NaN')", "double('Infinity')"),
    "decimal": ("0.5", "1.25", "-3.0", "10.0", "0.0", "100BD", "CAST('2.5' AS DECIMAL(5, 2))"),
    "string": ("''", "' '", "'a'", "'b'", "'ab'", "' a '", "'é'", "'😀'", "'1'", "'A%'", "'ß'", "'x'", "' 7 '", "'2020-01-01'"),
    "date": ("DATE '2020-01-01'", "DATE '1969-12-31'", "DATE '0001-01-01'", "DATE '2024-02-29'"),
    "timestamp": ("TIMESTAMP '2020-01-01 12:34:56.789'", "TIMESTAMP '1969-12-31 23:59:59.999999'"),
    "timestamp_ntz": ("TIMESTAMP_NTZ '2020-01-01 12:34:56'", "TIMESTAMP_NTZ '1582-10-10 00:00:00'"),
    "binary": ("X'61'", "X''"),
}
TYPES = tuple(COLUMNS)
NUMBERS = ("int", "long", "float", "double", "decimal")
DATED = ("date", "timestamp", "timestamp_ntz")
UNITS = (
    "year",
    "YYYY",
    "quarter",
    "month",
    "MON",
    "week",
    "day",
    "DD",
    "hour",
    "minute",
    "second",
    "millisecond",
    "microsecond",
    "x",
)
CASTS = {"int": "INT", "long": "BIGINT", "double": "DOUBLE", "string": "STRING", "date": "DATE", "timestamp": "TIMESTAMP",
         "timestamp_ntz": "TIMESTAMP_NTZ", "boolean": "BOOLEAN", "float": "FLOAT", "binary": "BINARY"}  # fmt: skip


class Terms:
    """Draws with one source of chance."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.texts = rng, TextForms(rng)

    def draw(self, type_: str | None = None) -> str:
        return self.of(type_ or self.rng.choice(TYPES[:-1]), self.rng.choice((1, 1, 2, 2, 3)))

    def of(self, type_: str, depth: int) -> str:
        if self.rng.random() < 0.02:
            type_ = self.rng.choice(TYPES)  # may not fit: then Spark refuses it, or casts it
        if depth == 0:
            return self._leaf(type_)
        forms = _FORMS[type_]
        found = self.rng.choice((*forms, _conditional, _conditional, _nulls) if type_ != "binary" else (_nulls,))
        return found(self, type_, depth - 1)

    def _leaf(self, type_: str) -> str:
        dice = self.rng.random()
        if dice < 0.03:
            return "NULL"
        return self.rng.choice(COLUMNS[type_] if dice < 0.7 else LITERALS[type_])

    def number(self, depth: int) -> str:
        return self.of(self.rng.choice(NUMBERS), depth)

    def count(self) -> str:
        return self.rng.choice(("0", "1", "2", "3", "-1", "-2", "5", "-7", "2147483647", "-2147483648", "i", "inner.x"))

    def condition(self, depth: int) -> str:
        return self.of("boolean", depth)


Form = Callable[[Terms, str, int], str]


def _conditional(t: Terms, type_: str, depth: int) -> str:
    a, b, c = t.condition(min(depth, 1)), t.of(type_, depth), t.of(type_, depth)
    return t.rng.choice((
        f"CASE WHEN {a} THEN {b} ELSE {c} END",
        f"CASE WHEN {a} THEN {b} WHEN {t.condition(0)} THEN {c} END",
        f"CASE {t.of('int', 0)} WHEN 1 THEN {b} WHEN {t.of('int', 0)} THEN {c} END",
        f"if({a}, {b}, {c})",
    ))  # fmt: skip


def _nulls(t: Terms, type_: str, depth: int) -> str:
    a, b, c = t.of(type_, depth), t.of(type_, depth), t.of(type_, 0)
    return t.rng.choice((f"coalesce({a}, {b}, {c})", f"nvl({a}, {b})", f"ifnull({a}, {b})", f"nullif({a}, {c})"))


def _arithmetic(t: Terms, type_: str, depth: int) -> str:
    operator = t.rng.choice("+-*%")
    a, b = t.of(type_, depth), t.of(type_ if t.rng.random() < 0.8 else t.rng.choice(NUMBERS), depth)
    if operator == "%" and t.rng.random() < 0.4:
        return f"mod({a}, {b})"
    text = f"{a} {operator} {b}"
    return f"({text})" if t.rng.random() < 0.8 else text


def _unary(t: Terms, type_: str, depth: int) -> str:
    a = t.of(type_, depth)
    return t.rng.choice((f"(- {a})", f"abs({a})", f"(- ({a}))"))


def _rounded(t: Terms, type_: str, depth: int) -> str:
    return t.rng.choice((f"round({t.of(type_, depth)}, {t.rng.choice(('0', '1', '2', '5'))})", f"round({t.of(type_, depth)})"))


def _divided(t: Terms, type_: str, depth: int) -> str:
    a = t.of("decimal", depth) if type_ == "decimal" else t.number(depth)
    return f"({a} / {t.of('decimal', 0) if type_ == 'decimal' else t.number(depth)})"


def _int(t: Terms, type_: str, depth: int) -> str:
    text, dated = t.of("string", depth), t.of(t.rng.choice(DATED), depth)
    part = t.rng.choice(
        ("year", "quarter", "month", "day", "dayofmonth", "dayofyear", "dayofweek", "weekday", "hour", "minute", "second")
    )
    return t.rng.choice((
        f"length({text})",
        f"char_length({text})",
        f"instr({text}, {t.of('string', 0)})",
        f"position({t.of('string', 0)} IN {text})",
        f"{part}({dated})",
        f"{part}({dated})",
        f"datediff({dated}, {t.of(t.rng.choice(DATED), 0)})",
        f"pmod({t.of('int', depth)}, {t.of('int', 0)})",
    ))  # fmt: skip


def _long(t: Terms, type_: str, depth: int) -> str:
    a = t.rng.choice((t.of("double", depth), t.of("int", depth), t.of("float", depth), t.of("long", depth)))
    whole = t.of(t.rng.choice(("int", "long")), depth)
    return t.rng.choice((f"floor({a})", f"ceil({a})", f"ceiling({a})", f"({whole} div {t.of('int', 0)})"))


def _decimal(t: Terms, type_: str, depth: int) -> str:
    a = t.of("decimal", depth)
    to = t.rng.choice(("DECIMAL(9, 2)", "DECIMAL(5, 0)", "DECIMAL(20, 6)", "DECIMAL(12, 2)", "DECIMAL(38, 0)", "DECIMAL(38, 37)"))
    if t.rng.random() < 0.3:
        return f"{t.rng.choice(('CAST', 'try_cast'))}({_text_to_read(t)} AS {to})"
    return t.rng.choice(
        (f"floor({a})", f"ceil({a})", f"CAST({a} AS {to})", f"CAST({t.of('int', depth)} AS {to})", f"(dec * {t.of('int', 0)})")
    )


def _cast(t: Terms, type_: str, depth: int) -> str:
    a = t.of(t.rng.choice(TYPES), depth) if t.rng.random() < 0.5 else _text_to_read(t)
    name = CASTS[type_]
    return t.rng.choice(
        (f"CAST({a} AS {name})", f"try_cast({a} AS {name})", f"{name.lower()}({a})" if type_ in ("int", "string") else a)
    )


def _text_to_read(t: Terms) -> str:
    """A text that is likely to be cast: of a column, a literal, or a part or an end of one."""
    literal = sql_text(t.rng, t.texts.draw()[0])
    column = t.rng.choice((*COLUMNS["string"], "inner.`y z`", "inner.`y z`"))
    return t.rng.choice(
        (column, column, column, literal, f"trim({column})", f"left({column}, {t.count()})", f"({column} || {literal})")
    )


def _string(t: Terms, type_: str, depth: int) -> str:
    a, b = t.of("string", depth), t.of("string", 0)
    return t.rng.choice((
        f"upper({a})",
        f"lower({a})",
        f"lcase({a})",
        f"trim({a})",
        f"ltrim({a})",
        f"rtrim({a})",
        f"btrim({a})",
        f"substring({a}, {t.count()}, {t.count()})",
        f"substr({a}, {t.count()})",
        f"substring({a} FROM {t.count()} FOR {t.count()})",
        f"left({a}, {t.count()})",
        f"right({a}, {t.count()})",
        f"concat({a}, {b}, {t.of('string', 0)})",
        f"({a} || {b})",
        f"({a} || {b} || 'x')",
        f"replace({a}, {b}, {t.of('string', 0)})",
        f"replace({a}, {b})",
        f"reverse({a})",
        f"CAST({t.of(t.rng.choice(('int', 'long', 'boolean', 'decimal', 'date')), depth)} AS STRING)",
    ))  # fmt: skip


def _date(t: Terms, type_: str, depth: int) -> str:
    if t.rng.random() < 0.2:
        return _cast(t, type_, depth)
    a = t.of(t.rng.choice(DATED), depth)
    return t.rng.choice((
        f"date_add({a}, {t.count()})",
        f"date_sub({a}, {t.count()})",
        f"({t.of('date', depth)} + {t.count()})",
        f"({t.of('date', depth)} - {t.count()})",
        f"to_date({a})",
        f"CAST({a} AS DATE)",
        f"last_day({a})",
        f"trunc({a}, '{t.rng.choice(UNITS)}')",
    ))  # fmt: skip


def _timestamp(t: Terms, type_: str, depth: int) -> str:
    a = t.of(t.rng.choice(DATED), depth)
    unit = t.rng.choice(UNITS)
    return t.rng.choice((f"date_trunc('{unit}', {a})", f"date_trunc('{unit.upper()}', {a})", f"CAST({a} AS TIMESTAMP)"))


def _comparison(t: Terms, _: str, depth: int) -> str:
    kind = t.rng.choice(TYPES)
    other = t.rng.choice(NUMBERS) if kind in NUMBERS else t.rng.choice(DATED) if kind in DATED else kind
    a, b = t.of(kind, depth), t.of(other, depth)
    operator = t.rng.choice(("=", "<>", "!=", "<", "<=", ">", ">=", "<=>"))
    return f"({a} {operator} {b})"


def _test(t: Terms, _: str, depth: int) -> str:
    kind = t.rng.choice(TYPES)
    a = t.of(kind, depth)
    no = t.rng.choice(("", "NOT "))
    return t.rng.choice((
        f"({a} IS {no}NULL)",
        f"({a} {no}IN ({t.of(kind, 0)}, {t.of(kind, 0)}, {t.of(kind, 0)}))",
        f"({a} {no}BETWEEN {t.of(kind, 0)} AND {t.of(kind, 0)})",
        f"({t.of('string', depth)} {no}LIKE '{t.rng.choice(('a%', '%b', '_', '%', 'A%', '%a%', ''))}')",
        f"({t.of('string', depth)} {no}LIKE {t.of('string', 0)})",
        f"(CAST({t.of('string', 0)} AS DATE) {no}IN ('2020-01-01', DATE '1969-12-31'))",
        f"({t.of('date', depth)} {no}IN ('2020-01-01', {t.of('date', 0)}, NULL))",
        f"({t.of('decimal', 0)} / ({t.of('long', 0)} * {t.of('decimal', 0)}) > {t.of('decimal', 0)})",
        f"{t.rng.choice(('startswith', 'endswith', 'contains'))}({t.of('string', depth)}, {t.of('string', 0)})",
        f"isnan({t.of('double', depth)})",
        f"isnull({a})",
        f"isnotnull({a})",
    ))  # fmt: skip


def _connective(t: Terms, _: str, depth: int) -> str:
    a, b = t.condition(depth), t.condition(depth)
    return t.rng.choice((
        f"({a} AND {b})",
        f"({a} OR {b})",
        f"(NOT {a})",
        f"(({a}) IS {t.rng.choice(('', 'NOT '))}{t.rng.choice(('TRUE', 'FALSE', 'NULL'))})",
        f"(({a}) = ({b}))",
    ))  # fmt: skip


_FORMS: Mapping[str, Sequence[Form]] = {
    "boolean": (_comparison, _comparison, _comparison, _test, _test, _connective, _cast),
    "int": (_int, _int, _int, _arithmetic, _unary, _rounded, _cast),
    "long": (_long, _arithmetic, _unary, _rounded, _cast),
    "float": (_arithmetic, _unary),
    "double": (_divided, _arithmetic, _unary, _rounded, _cast),
    "decimal": (_decimal, _arithmetic, _divided, _unary, _rounded),
    "string": (_string, _string, _string, _cast),
    "date": (_date,),
    "timestamp": (_timestamp, _cast),
    "timestamp_ntz": (_cast,),
    "binary": (),
}
