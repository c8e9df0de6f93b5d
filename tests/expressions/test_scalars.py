"""Each function and operator that this package evaluates, by example; ``tests/spark/test_terms_like_spark.py`` compares with
Spark."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.binding import reference
from iceberg_ops.expressions.literal_text import NotFolded
from iceberg_ops.expressions.scalars.binding import bind_scalar
from iceberg_ops.expressions.scalars.evaluation import compiled
from iceberg_ops.expressions.scalars.functions import ALIASES, FUNCTIONS, evaluated
from iceberg_ops.expressions.scalars.terms import Bound, NotEvaluated
from iceberg_ops.expressions.where_parser import parse_condition
from iceberg_ops.expressions.where_scalars import convert_scalar
from iceberg_ops.spec.epoch import parse_date, parse_timestamp
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    IcebergType,
    NestedField,
)

ROW: dict[str, tuple[IcebergType, Any]] = {
    "i": (INT, 7), "least": (INT, -(2**31)), "l": (LONG, 2**40), "minus": (INT, -7), "f": (FLOAT, 1.5), "d": (DOUBLE, 2.5),
    "nan": (DOUBLE, math.nan), "dec": (DecimalType(9, 2), Decimal("12.34")), "wide": (DecimalType(38, 10), Decimal("1.0000000000")),
    "s": (STRING, " aBc "),
    "e": (STRING, "é😀x"), "empty": (STRING, ""), "n": (INT, None), "sn": (STRING, None), "flag": (BOOLEAN, True),
    "day": (DATE, parse_date("2024-02-29")),
    "old": (DATE, parse_date("1969-12-31")), "u": (UUID, None),
    "ts": (TIMESTAMPTZ, parse_timestamp("2024-02-29T13:45:59.123456")),
    "ntz": (TIMESTAMP, parse_timestamp("1969-12-31T23:59:59.5")),
}  # fmt: skip
SCHEMA = Schema.of(*(NestedField(n, name, type_) for n, (name, (type_, _)) in enumerate(ROW.items(), 1)))
VALUES = tuple(value for _, value in ROW.values())


def term(text: str) -> Bound:
    return bind_scalar(convert_scalar(parse_condition(text)), lambda name: reference(SCHEMA, name))


def value(text: str) -> Any:
    return compiled(term(text), lambda r: lambda row: row[r.path[0]])(VALUES)


EXAMPLES: dict[str, list[tuple[str, Any]]] = {
    "upper": [("upper(s)", " ABC "), ("upper('ß')", "SS"), ("ucase(e)", "É😀X"), ("upper(sn)", None)],
    "lower": [("lower(s)", " abc "), ("lcase('É')", "é"), ("lower('İ')", "i̇")],
    "length": [("length(e)", 3), ("char_length(s)", 5), ("len(empty)", 0), ("character_length(sn)", None)],
    "trim": [("trim(s)", "aBc"), ("btrim('\t a ')", "\t a"), ("trim(BOTH FROM s)", "aBc")],
    "ltrim": [("ltrim(s)", "aBc ")],
    "rtrim": [("rtrim(s)", " aBc")],
    "substring": [
        ("substring('hello', 2, 3)", "ell"),
        ("substring('hello', 0, 2)", "he"),
        ("substr('hello', -3)", "llo"),
        ("substring('hello', -7, 4)", "he"),
        ("substring('hello' FROM 2 FOR 9)", "ello"),
        ("substring(e, 2, 1)", "😀"),
        ("substring('hello', 2, -1)", ""),
        ("substring('hello', 2, 2147483647)", "ello"),
    ],
    "left": [("left('hello', 2)", "he"), ("left('hello', -1)", "")],
    "right": [("right('hello', 2)", "lo"), ("right('hello', 0)", ""), ("right('hello', 9)", "hello")],
    "concat": [("concat(s, 'x', e)", " aBc xé😀x"), ("s || 'x'", " aBc x"), ("concat(s, sn)", None), ("concat(s)", " aBc ")],
    "replace": [("replace('aaa', 'a', 'b')", "bbb"), ("replace('aaa', '', 'b')", "aaa"), ("replace('aba', 'a')", "b")],
    "reverse": [("reverse(e)", "x😀é")],
    "instr": [("instr('hello', 'l')", 3), ("instr(e, 'x')", 3), ("instr(s, 'z')", 0), ("position('l' IN 'hello')", 3)],
    "startswith": [("startswith(s, empty)", True), ("startswith(s, trim(s))", False)],
    "endswith": [("endswith(e, 'x')", True)],
    "contains": [("contains(e, '😀')", True), ("contains(sn, 'a')", None)],
    "year": [("year(day)", 2024), ("year(ts)", 2024), ("year(ntz)", 1969)],
    "quarter": [("quarter(day)", 1), ("quarter(old)", 4)],
    "month": [("month(day)", 2), ("month(ntz)", 12)],
    "day": [("day(day)", 29), ("dayofmonth(old)", 31)],
    "dayofmonth": [("dayofmonth(day)", 29)],
    "dayofyear": [("dayofyear(day)", 60), ("dayofyear(old)", 365)],
    "dayofweek": [("dayofweek(day)", 5), ("dayofweek(DATE '2024-03-03')", 1)],
    "weekday": [("weekday(day)", 3), ("weekday(DATE '2024-03-04')", 0)],
    "hour": [("hour(ts)", 13), ("hour(ntz)", 23), ("hour(day)", 0)],
    "minute": [("minute(ts)", 45)],
    "second": [("second(ts)", 59), ("second(ntz)", 59)],
    "date_add": [("date_add(day, 1)", parse_date("2024-03-01")), ("day + i", parse_date("2024-03-07"))],
    "date_sub": [("date_sub(ts, 29)", parse_date("2024-01-31")), ("day - 29", parse_date("2024-01-31"))],
    "datediff": [("datediff(day, old)", 19783), ("date_diff(old, day)", -19783), ("datediff(ts, day)", 0)],
    "date_trunc": [
        ("date_trunc('month', ts)", parse_timestamp("2024-02-01T00:00:00")),
        ("date_trunc('WEEK', ts)", parse_timestamp("2024-02-26T00:00:00")),
        ("date_trunc('quarter', ntz)", parse_timestamp("1969-10-01T00:00:00")),
        ("date_trunc('hour', ntz)", parse_timestamp("1969-12-31T23:00:00")),
        ("date_trunc('YYYY', day)", parse_timestamp("2024-01-01T00:00:00")),
        ("date_trunc('millisecond', ts)", parse_timestamp("2024-02-29T13:45:59.123")),
        ("date_trunc('fortnight', ts)", None),
    ],
    "trunc": [("trunc(day, 'MM')", parse_date("2024-02-01")), ("trunc(ts, 'year')", parse_date("2024-01-01")),
              ("trunc(day, 'DD')", None)],
    "last_day": [("last_day(DATE '2023-02-01')", parse_date("2023-02-28")), ("last_day(old)", parse_date("1969-12-31"))],
    "to_date": [("to_date(ntz)", parse_date("1969-12-31"))],
    "+": [("i + 1", 8), ("i + l", 2**40 + 7), ("f + f", 3.0), ("i + d", 9.5), ("dec + 1", Decimal("13.34")), ("i + n", None)],
    "-": [("i - 10", -3), ("dec - 0.34", Decimal("12.00")), ("day - i", parse_date("2024-02-22"))],
    "*": [("i * i", 49), ("dec * 2", Decimal("24.68")), ("dec * 1.1BD", Decimal("13.574")), ("d * 2", 5.0)],
    "/": [("i / 2", 3.5), ("dec / 3", Decimal("4.113333")), ("f / f", 1.0), ("n / 0", "division by zero or NULL")],
    "%": [("i % 4", 3), ("minus % 4", -3), ("mod(i, 4)", 3), ("d % 2", 0.5), ("dec % 5", Decimal("2.34")), ("least % -1", 0)],
    "pmod": [("pmod(minus, 4)", 1), ("pmod(i, -4)", 3)],
    "div": [("minus div 2", -3), ("l div 3", 2**40 // 3)],
    "negative": [("- i", -7), ("- d", -2.5), ("- (dec)", Decimal("-12.34"))],
    "abs": [("abs(minus)", 7), ("abs(- d)", 2.5), ("abs(- dec)", Decimal("12.34"))],
    "floor": [("floor(d)", 2), ("floor(- dec)", Decimal(-13)), ("floor(nan)", 0), ("floor(1e300D)", 2**63 - 1)],
    "ceil": [("ceil(d)", 3), ("ceiling(dec)", Decimal(13)), ("ceil(i)", 7)],
    "round": [("round(d)", 3.0), ("round(dec, 1)", Decimal("12.3")), ("round(- d)", -3.0),
              ("round(2.345D, 2)", 2.35), ("round(15, -1)", 20)],
    "=": [("i = 7L", True), ("nan = nan", True), ("day = ts", False), ("day = '2024-02-29'", True), ("wide = 1", True)],
    "<>": [("i <> 8", True), ("i != n", None)],
    "<": [("d < nan", True), ("s < e", True)],
    "<=": [("i <= dec", True)],
    ">": [("nan > 1e308", True)],
    ">=": [("ts >= ntz", True)],
    "<=>": [("n <=> NULL", True), ("i <=> n", False), ("NOT (i <=> 7)", False)],
    "in": [("i + 0 IN (1, 7)", True), ("i + 0 IN (1, NULL)", None), ("i + 0 NOT IN (1, 2)", True), ("i IN (n, l, 7)", True)],
    "and": [("i = 7 AND n = 1", None), ("i = 8 AND n = 1", False), ("i BETWEEN 1 AND d + 9", True)],
    "or": [("i = 7 OR n = 1", True), ("i = 8 OR n = 1", None)],
    "not": [("NOT flag", False), ("NOT (n = 1)", None)],
    "is true": [("(n = 1) IS TRUE", False), ("flag IS TRUE", True)],
    "is false": [("(i = 1) IS FALSE", True), ("(n = 1) IS NOT FALSE", True)],
    "isnull": [("(i + n) IS NULL", True), ("isnull(i)", False), ("isnotnull(i)", True), ("i IS NOT NULL", True)],
    "isnan": [("isnan(nan)", True), ("isnan(d)", False)],
    "like": [("upper(s) LIKE ' A%'", True), ("e LIKE '__x'", True), ("s NOT LIKE s", False), ("sn LIKE 'a'", None)],
    "coalesce": [("coalesce(n, i)", 7), ("nvl(sn, 'x')", "x"), ("ifnull(n, d)", 2.5), ("coalesce(n, NULL)", None)],
    "case": [
        ("CASE WHEN i > 7 THEN 'a' WHEN i = 7 THEN s ELSE 'c' END", " aBc "),
        ("CASE i WHEN 7 THEN 1 END", 1),
        ("CASE WHEN n = 1 THEN 1 END", None),
        ("if(n = 1, 'a', 'b')", "b"),
        ("CASE WHEN i = 7 THEN 1 ELSE 1 / n END", 1.0),
    ],
    "nullif": [("nullif(i, 7L)", None), ("nullif(i, 8)", 7), ("nullif(n, 1)", None)],
}  # fmt: skip


def test_every_entry_of_the_table_has_an_example() -> None:
    assert EXAMPLES.keys() == FUNCTIONS.keys()
    assert set(ALIASES.values()) <= FUNCTIONS.keys()
    assert all(name in evaluated() for name in ("upper", "date_trunc", "nvl", "ceiling"))


@pytest.mark.parametrize(("text", "expected"), [pair for pairs in EXAMPLES.values() for pair in pairs])
def test_a_term_has_the_value_that_spark_gives_it(text: str, expected: Any) -> None:
    if expected == "division by zero or NULL":
        assert value(text) is None
        return
    found = value(text)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("i + 1", INT),
        ("i + l", LONG),
        ("i + f", DOUBLE),
        ("f * f", FLOAT),
        ("f / f", DOUBLE),
        ("dec + i", DecimalType(13, 2)),
        ("dec * 2", DecimalType(11, 2)),
        ("dec / 3", DecimalType(13, 6)),
        ("dec % 2", DecimalType(3, 2)),
        ("floor(dec)", DecimalType(8, 0)),
        ("round(dec, 1)", DecimalType(9, 1)),
        ("floor(i)", LONG),
        ("i div i", LONG),
        ("round(i)", INT),
        ("date_trunc('day', ntz)", TIMESTAMPTZ),
        ("CASE WHEN flag THEN i ELSE 1.5 END", DecimalType(11, 1)),
        ("coalesce(day, ts)", TIMESTAMPTZ),
        ("nullif(i, l)", INT),
    ],
)
def test_a_term_has_the_type_that_spark_gives_it(text: str, type_: IcebergType) -> None:
    assert term(text).type == type_


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2147483647 + i", "2147483654 is outside int"),
        ("- least", "is outside int"),
        ("abs(least)", "is outside int"),
        ("9223372036854775807 + i", "is outside long"),
        ("i / (i - 7)", "division by zero"),
        ("d % (d - d)", "division by zero"),
        ("dec % (i - 7)", "division by zero"),
        ("i div (i - 7)", "division by zero"),
        ("CAST(trim(s) AS INT)", "'aBc' is not a whole number"),
        ("CAST(l AS INT)", "is outside int"),
        ("CAST(dec AS DECIMAL(3, 2))", r"is outside decimal\(3, 2\)"),
        ("CASE WHEN flag THEN 1 / (i - 7) ELSE 1 END", "division by zero"),
        ("i = 7 AND 1 / (i - 7) > 1", "division by zero"),
    ],
)
def test_what_spark_raises_for_a_row_is_raised(text: str, says: str) -> None:
    with pytest.raises((ValueError, ArithmeticError), match=says) as e:
        value(text)
    assert not isinstance(e.value, NotFolded)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("CASE WHEN i = 7 THEN 1 ELSE 1 div (i - 7) END", 1),
        ("if(flag, i, CAST(s AS INT))", 7),
        ("coalesce(i, 1 div (i - 7))", 7),
        ("i = 8 AND 1 / (i - 7) > 1", False),
        ("i = 7 OR 1 / (i - 7) > 1", True),
        ("n + CAST(s AS INT)", None),
        ("i + 0 IN (7, 1 div (i - 7))", True),
    ],
)
def test_what_spark_does_not_look_at_is_not_evaluated(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("soundex(s)", "function soundex"),
        ("my_udf(s)", "function my_udf"),
        ("current_date()", "function current_date"),
        ("rand()", "function rand"),
        ("upper(soundex(s))", "function soundex"),
        ("s RLIKE 'a'", "s RLIKE 'a'"),
        ("i & 1", "i & 1"),
        ("ts + INTERVAL 1 DAY", "INTERVAL '1' DAY"),
        ("upper(i)", "upper of int (only string)"),
        ("substring(s, l)", "substring of string, long (only string, int or string, int, int)"),
        ("s + 1", "+ of string, int"),
        ("trim(LEADING 'x' FROM s)", "trim of other characters"),
        ("wide * wide", "more than 38 digits"),
        ("abs(wide)", "abs or minus of decimal(38, 10)"),
        ("dec / CAST(3 AS INT)", "how the whole number is written"),
        ("dec / (3L * 1.25)", "how the whole number is written"),
        ("(DATE '1969-12-31' - 2147483647) >= ts", "beyond every timestamp"),
        ("CAST(0.99999999999999999999999 AS INT) = i", "by way of a double"),
        ("(1.5F) IS NOT FALSE", "a condition of type float"),
        ("CAST(wide AS INT)", "a cast of decimal(38, 10) to int, which Spark does by way of a double"),
        ("CAST(d AS STRING)", "a cast of double to string"),
        ("CAST(s AS VARCHAR(2))", "VARCHAR"),
        ("CAST(s AS ARRAY<INT>)", "a cast to ARRAY<INT>"),
        ("i + 1Y", "TINYINT"),
        ("u = s", "column u of type uuid"),
        ("i = s", "a comparison of different types (int, string)"),
        ("1 / 0 = i", "division by zero"),
        ("s || i + 1", "|| beside another operator"),
        ("round(i, i)", "round to other digits"),
        ("round(f)", "round of float"),
        ("floor(d, 2)", "floor to a number of digits"),
        ("CASE WHEN NULL THEN 1 END", "CASE WHEN of unknown"),
        ("CASE WHEN flag THEN i ELSE s END", "CASE of different types"),
        ("upper(s) OVER ()", "OVER"),
        ("date_add(day, 1, 2)", "date_add of date, int, int"),
    ],
)
def test_what_only_spark_evaluates_is_named(text: str, says: str) -> None:
    try:
        with pytest.raises(NotEvaluated) as e:
            term(text)
    except WhereError:
        pytest.fail(f"{text} does not parse")
    assert says in str(e.value)


@pytest.mark.parametrize(
    "text",
    ["lower('AΣ')", "upper('\ua7db')", "date_add(day, 2147483647)", "round(1234567890.12345D, 4)", "pmod(minus, least)"],
)
def test_a_value_of_which_only_spark_knows_is_left_to_it(text: str) -> None:
    with pytest.raises((NotFolded, NotEvaluated)):
        value(text)
