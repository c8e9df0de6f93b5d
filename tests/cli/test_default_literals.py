"""DEFAULT accepts a literal that the column holds exactly: DEFAULT-05, DEFAULT-10."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any
from uuid import UUID as Uuid

import pytest

from iceberg_ops.cli.default_literals import parse_default
from iceberg_ops.errors import OptionError
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
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    FixedType,
    IcebergType,
    NestedField,
    StructType,
)
from iceberg_ops.spec.values import float32

PRICE = DecimalType(9, 2)
SEVEN = Uuid(int=7)
TAKEN: list[tuple[IcebergType, str, Any]] = [
    (FLOAT, "0.1", float32(0.1)), (FLOAT, "1", 1.0), (FLOAT, "'0.1'", float32(0.1)), (FLOAT, "16777217", 2.0**24),
    (DOUBLE, "0.1", 0.1), (DOUBLE, "0.1F", float32(0.1)), (DOUBLE, "1e300", 1e300), (DOUBLE, "-0.0", 0.0),
    (PRICE, "1.5", Decimal("1.50")), (PRICE, "CAST('1.50' AS DECIMAL(4, 2))", Decimal("1.50")), (PRICE, "7", Decimal("7.00")),
    (DecimalType(9, 8), "0", Decimal("0E-8")), (DecimalType(38, 38), "1e-38BD", Decimal("1E-38")),
    (INT, "5", 5), (INT, "5L", 5), (INT, "'5'", 5), (LONG, "9223372036854775807", 2**63 - 1),
    (DATE, "DATE '1970-01-02'", 1), (DATE, "'1970-01-02'", 1), (TIME, "TIME '00:00:01'", 1_000_000),
    (TIMESTAMP, "TIMESTAMP_NTZ '1970-01-01 00:00:00.000001'", 1), (TIMESTAMPTZ, "TIMESTAMP '1970-01-01 01:00:00+01:00'", 0),
    (TIMESTAMPTZ_NS, "TIMESTAMP '1970-01-01 00:00:00.000000001'", 1), (STRING, "'it''s'", "it's"), (BOOLEAN, "TRUE", True),
    (UUID, f"'{SEVEN}'", SEVEN), (UUID, f"CAST('{str(SEVEN).upper()}' AS UUID)", SEVEN), (BINARY, "X'00ff'", b"\x00\xff"),
    (FixedType(2), "X'00ff'", b"\x00\xff"), (INT, "NULL", None), (StructType((NestedField(1, "a", INT),)), "NULL", None),
]  # fmt: skip
REFUSED: list[tuple[IcebergType, str, str]] = [
    (FLOAT, "double('NaN')", "JSON, in which defaults are stored, has no NaN"), (DOUBLE, "'Infinity'", "no infinities"),
    (FLOAT, "1e39", "lies beyond"), (FLOAT, "TRUE", "literal of type float"), (PRICE, "1.005", "no value of the column equals it"),
    (INT, "3e9", "no value"), (INT, "1.5", "no value"), (INT, "1 + 1", "literal of type int, or NULL"), (INT, "a", "or NULL"),
    (INT, "1,", "cannot parse"), (STRING, "5", "do not compare"), (FixedType(2), "X'00'", "no value"), (UUID, "'7'", "not a uuid"),
    (DATE, "'soon'", "not a date"), (StructType((NestedField(1, "a", INT),)), "1", "or NULL"),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "text", "value"), TAKEN, ids=lambda v: str(v)[:30])
def test_a_literal_becomes_the_value_of_its_column(type_: IcebergType, text: str, value: Any) -> None:
    assert repr(parse_default(text, type_)) == repr(value)


def test_negative_zero_stays_negative() -> None:
    assert math.copysign(1, parse_default("-0.0D", DOUBLE)) == -1


@pytest.mark.parametrize(("type_", "text", "why"), REFUSED, ids=lambda v: str(v)[:30])
def test_what_the_column_can_not_hold_is_refused(type_: IcebergType, text: str, why: str) -> None:
    with pytest.raises(OptionError, match=why) as caught:
        parse_default(text, type_)
    assert f"default {text!r}" in str(caught.value)
