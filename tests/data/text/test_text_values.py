"""Which text is a value of which type, one by one and for whole columns at once."""

from __future__ import annotations

import math
import struct
import time
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.sources.text.text_values import TextForms, parse_texts, text_parser
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    FixedType,
    IcebergType,
)

FORMS = TextForms(numbers={"Inf": math.inf, "-Inf": -math.inf})
MONEY = DecimalType(5, 2)
SECOND = 1_000_000

VALUES: list[tuple[IcebergType, str, Any]] = [
    (BOOLEAN, "true", True),
    (BOOLEAN, "FALSE", False),
    (INT, "+2147483647", 2**31 - 1),
    (INT, "-2147483648", -(2**31)),
    (LONG, "-9223372036854775808", -(2**63)),
    (DOUBLE, "1e-400", 0.0),
    (DOUBLE, ".5", 0.5),
    (DOUBLE, "-0", -0.0),
    (DOUBLE, "Inf", math.inf),
    (DOUBLE, "-infinity", -math.inf),
    (FLOAT, "16777217", 16777216.0),
    (FLOAT, "3.4028235e38", 3.4028234663852886e38),
    (MONEY, "1.2", Decimal("1.20")),
    (MONEY, "1.2000", Decimal("1.20")),
    (MONEY, "9.9999e2", Decimal("999.99")),
    (MONEY, "-0.00", Decimal("0.00")),
    (DecimalType(38, 38), ".1", Decimal("0.1")),
    (DATE, "1970-01-02", 1),
    (DATE, "1970-1-2", 1),
    (DATE, "1970-01-02 00:00:00", 1),
    (DATE, "+10000-01-01", 2932897),
    (TIMESTAMP, "1970-01-01", 0),
    (TIMESTAMP, "1970-01-01T00:00:01.5", 1_500_000),
    (TIMESTAMP, "1970-01-01 00:00:00.000001000", 1),
    (TIMESTAMP_NS, "1970-01-01 00:00:00.000000001", 1),
    (TIMESTAMPTZ, "1970-01-01T02:00:01+02:00", SECOND),
    (TIMESTAMPTZ, "1970-01-01 00:00:01", SECOND),
    (TIMESTAMPTZ, "1970-01-01 00:00:01 Europe/London", SECOND - 3600 * SECOND),
    (STRING, " a ", " a "),
    (BINARY, "é", "é".encode()),
    (FixedType(2), "ab", b"ab"),
]
NO_VALUES: list[tuple[IcebergType, str]] = [
    (BOOLEAN, "t"),
    (BOOLEAN, "1"),
    (INT, "2147483648"),
    (INT, "1.0"),
    (INT, " 1"),
    (INT, "0x1F"),
    (INT, "١"),  # noqa: RUF001 - a digit that is none of ours
    (INT, ""),
    (LONG, "9" * 5000),
    (DOUBLE, "1e400"),
    (DOUBLE, "1d"),
    (DOUBLE, "1_0"),
    (DOUBLE, "+"),
    (FLOAT, "3.4028236e38"),
    (MONEY, "1.234"),
    (MONEY, "1000"),
    (MONEY, "NaN"),
    (MONEY, "1e999999999999999999999"),
    (MONEY, "1e-999999999"),
    (DATE, "2024-02-30"),
    (DATE, "2020-01-01 garbage"),
    (DATE, "2020-01-01 10:00:00"),
    (DATE, "2020"),
    (TIMESTAMP, "12:30"),
    (TIMESTAMP, "1970-01-01 00:00:00Z"),
    (TIMESTAMP, "1970-01-01 00:00:00.0000001"),
    (TIMESTAMP_NS, "1970-01-01 00:00:00.0000000001"),
    (TIMESTAMP_NS, "2300-01-01 00:00:00"),
    (TIMESTAMPTZ, "1970-01-01 25:00:00"),
    (STRING, "a\ud800"),
    (UUID, "no-uuid"),
    (FixedType(2), "abc"),
]


def of_one(type_: IcebergType, text: str) -> Any:
    array, wrong = parse_texts([text], type_, FORMS)
    assert not wrong, wrong
    return values_of(type_, array)[0]


def bits(value: Any) -> Any:
    """-0.0 and 0.0 apart."""
    return struct.pack(">d", value) if isinstance(value, float) else value


@pytest.mark.parametrize(("type_", "text", "value"), VALUES, ids=[f"{t} {x}" for t, x, _ in VALUES])
def test_a_text_is_the_value_that_it_says(type_: IcebergType, text: str, value: Any) -> None:
    assert bits(of_one(type_, text)) == bits(value)


@pytest.mark.parametrize(("type_", "text"), NO_VALUES, ids=[f"{t} {x[:20]!r}" for t, x in NO_VALUES])
def test_a_text_that_is_no_value_of_its_type_is_named(type_: IcebergType, text: str) -> None:
    array, wrong = parse_texts([None, text], type_, FORMS)
    assert array.to_pylist() == [None, None]
    assert list(wrong) == [1]
    assert f"is not a valid {type_}" in wrong[1]


WRITTEN = {
    INT: st.one_of(st.integers(-(2**32), 2**32).map(str), st.sampled_from(["+1", "01", "-0"])),
    LONG: st.integers(-(2**65), 2**65).map(str),
    DOUBLE: st.one_of(
        st.floats().map(repr), st.integers(-(10**20), 10**20).map(str), st.sampled_from(["1.", ".5", "-0", "007.50"])
    ),
    FLOAT: st.one_of(st.floats(width=32).map(repr), st.floats().map(repr), st.decimals(-10, 10, places=12).map(str)),
    MONEY: st.one_of(st.decimals(-2000, 2000, places=2).map(str), st.sampled_from(["1", "-1.5", "00.5", "1e2"])),
    DecimalType(38, 0): st.integers(-(10**39), 10**39).map(str),
    DATE: st.one_of(st.dates().map(str), st.sampled_from(["0000-01-01", "2023-02-29", "2024-1-1", "1582-10-10"])),
    TIMESTAMP: st.one_of(
        st.datetimes().map(str), st.sampled_from(["0000-01-01 00:00:00", "2024-01-01T24:00:00", "1969-12-31 23:59:59.9"])
    ),
    STRING: st.text(),
}


@given(st.data())
@pytest.mark.parametrize("type_", WRITTEN, ids=str)
def test_a_whole_column_is_read_as_its_texts_one_by_one(type_: IcebergType, data: st.DataObject) -> None:
    texts = data.draw(st.lists(st.one_of(st.none(), WRITTEN[type_]), max_size=8))
    array, wrong = parse_texts(texts, type_, FORMS)
    parse, expected, refused = text_parser(type_, FORMS), list[Any](), set[int]()
    for i, text in enumerate(texts):
        try:
            expected.append(None if text is None else parse(text))
        except ValueError:
            expected.append(None)
            refused.add(i)
    assert set(wrong) == refused
    assert repr(list(map(bits, values_of(type_, array)))) == repr(list(map(bits, expected)))


@given(st.decimals(-(10**6), 10**6, allow_nan=False, places=9), st.integers(-30, 30))
def test_a_float_is_the_nearest_one_to_its_text(number: Decimal, exponent: int) -> None:
    text = f"{number:f}e{exponent}"
    nearest = pa.array([text]).cast(pa.float32())[0].as_py()
    assert bits(of_one(FLOAT, text)) == bits(nearest) if math.isfinite(nearest) else True


@given(st.floats(2.0**-120, 2.0**120))
def test_a_text_halfway_between_two_floats_is_not_rounded_twice(value: float) -> None:
    low = struct.unpack("<f", struct.pack("<f", value))[0]
    high = struct.unpack("<f", struct.pack("<I", struct.unpack("<I", struct.pack("<f", low))[0] + 1))[0]
    with localcontext(prec=400):
        middle = (Decimal(low) + Decimal(high)) / 2
    text = f"{middle:f}"
    assert of_one(FLOAT, f"{text}0000001" if "." in text else f"{text}.0000001") == high


@pytest.mark.parametrize("type_", [DOUBLE, FLOAT, MONEY, LONG], ids=str)
def test_a_long_text_that_is_no_number_is_refused_in_time_that_grows_with_its_length_alone(type_: IcebergType) -> None:
    started = time.monotonic()
    assert list(parse_texts(["1" * 40_000 + "x", "1" * 40_000 + ".x"], type_, FORMS)[1]) == [0, 1]
    assert time.monotonic() - started < 10
