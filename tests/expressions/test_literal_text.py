"""Texts that a cast reads as Spark does, case by case. ``tests/spark/test_text_casts_like_spark.py`` generates many more."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pytest

from iceberg_ops.expressions.literal_casts import cast
from iceberg_ops.expressions.literal_text import NotFolded, date_from_text, timestamp_from_text
from iceberg_ops.expressions.ordering import order_key
from iceberg_ops.expressions.predicates import Literal
from iceberg_ops.expressions.scalars.casts import caster
from iceberg_ops.spec.types import BOOLEAN, DATE, DOUBLE, FLOAT, INT, STRING, DecimalType, PrimitiveType

WHOLE, TINY, CENTS = DecimalType(38, 0), DecimalType(38, 37), DecimalType(9, 2)


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        ("0x1.8p1", DOUBLE, 3.0),
        ("-0x1p1024", DOUBLE, -math.inf),
        ("0x0p9999999999", DOUBLE, 0.0),
        ("-NaN", DOUBLE, math.nan),
        ("iNf", DOUBLE, math.inf),
        ("1e99999999999", DOUBLE, math.inf),
        ("1e-99999999999", FLOAT, 0.0),
        ("\x0016777217.0000001\t", FLOAT, 16777218.0),
        ("0e999", WHOLE, Decimal(0)),
        ("1e-999999", WHOLE, Decimal(0)),
        ("1e-00000000000000001", CENTS, Decimal("0.10")),
        ("0.00" + "4" + "9" * 3000, CENTS, Decimal("0.00")),
        ("0.005", CENTS, Decimal("0.01")),
        ("-0.005", CENTS, Decimal("-0.01")),
        (".5", TINY, Decimal("0.5" + "0" * 36)),
        ("5.", WHOLE, Decimal(5)),
        (" 2020 \x7f", DATE, 18262),
        ("2020-1", DATE, 18262),
        ("2020-1-1T25:00", DATE, 18262),
        ("5881580-07-11", DATE, 2**31 - 1),
    ],
)
def test_a_text_is_read(text: str, type_: PrimitiveType, expected: Any) -> None:
    for value in (cast(Literal(text, STRING), type_).value, caster(STRING, type_, safe=False, of_column=True)(text)):
        assert order_key(value) == order_key(expected)
        assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("1\x7f", DOUBLE),
        ("1\x7f", CENTS),
        ("1\xa0", INT),
        ("+nan", DOUBLE),
        ("0x1", DOUBLE),
        ("1e", DOUBLE),
        ("\u0663", DOUBLE),
        ("1" * 39, WHOLE),
        ("1e38", WHOLE),
        ("1.5f", CENTS),
        ("5881581", DATE),
        ("20-01-01", DATE),
        ("2020-02-30", DATE),
        ("today", DATE),
        ("tru", BOOLEAN),
    ],
)
def test_a_text_is_refused_and_null_to_try_cast(text: str, type_: PrimitiveType) -> None:
    with pytest.raises(ValueError, match=r"not|outside|digits|tomorrow") as e:
        cast(Literal(text, STRING), type_)
    assert not isinstance(e.value, NotFolded)
    assert caster(STRING, type_, safe=True, of_column=True)(text) is None


@pytest.mark.parametrize("text", ["\u0663", "1e\uff13", "1e2147483647", "1e-99999999999", "0e2147483648"])
def test_a_decimal_that_depends_on_java_is_left_to_spark(text: str) -> None:
    with pytest.raises(NotFolded):
        cast(Literal(text, STRING), WHOLE)


def test_only_a_constant_is_a_word_for_a_day() -> None:
    assert date_from_text("\x00EPOCH ") == 0
    assert timestamp_from_text("epoch") == (0, False)
    for text, of_column in (("epoch", True), ("epoch\x7f", False)):
        with pytest.raises(ValueError, match="is not a date"):
            date_from_text(text, of_column=of_column)


@pytest.mark.parametrize("text", ["294247-01-11", "-294247-01-01 10:00:00+18:00"])
def test_a_timestamp_beyond_microseconds_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is outside timestamp"):
        timestamp_from_text(text)
