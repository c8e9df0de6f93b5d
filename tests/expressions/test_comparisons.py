"""A literal compared with a column of another type: the interval of matching values is exact."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.expressions.comparisons import Interval, interval, plain_literal
from iceberg_ops.expressions.literal_text import timestamp_from_text
from iceberg_ops.expressions.predicates import Literal
from iceberg_ops.spec.types import (
    BINARY,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    DecimalType,
    FixedType,
    PrimitiveType,
)
from tests.strategies import longs


def float_after(value: float) -> float:
    """The next 32-bit float, by counting bit patterns."""
    bits = struct.unpack("<i", struct.pack("<f", value))[0]
    bits = 1 if value == 0 else bits + (1 if bits > 0 else -1)
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_lies_between_neighbouring_floats(value: float) -> None:
    found = interval(FLOAT, Literal(value, DOUBLE))
    assert found.high <= value <= found.low
    assert found.low == found.high or float_after(found.high) == found.low


@given(longs, st.integers(-20, 20))
def test_a_long_column_meets_doubles_as_its_cast_does(near: int, offset: int) -> None:
    value = float(near)
    found = interval(LONG, Literal(value, DOUBLE))
    column = max(-(2**63), min(2**63 - 1, near + offset))
    assert (float(column) >= value) == (found.low is not None and column >= found.low)
    assert (float(column) <= value) == (found.high is not None and column <= found.high)


@given(st.decimals(allow_nan=False, allow_infinity=False, places=3, min_value=-20, max_value=20), st.integers(-2000, 2000))
def test_a_decimal_column_meets_decimals_exactly(value: Decimal, unscaled: int) -> None:
    column_type = DecimalType(precision=5, scale=2)
    found = interval(column_type, plain_literal(column_type, value))
    column = Decimal(unscaled).scaleb(-2)
    assert (Fraction(column) >= Fraction(value)) == (found.low is not None and column >= found.low)
    assert (Fraction(column) <= Fraction(value)) == (found.high is not None and column <= found.high)


@given(st.binary(max_size=5), st.binary(min_size=2, max_size=2))
def test_fixed_bytes_meet_bytes_of_any_length(value: bytes, column: bytes) -> None:
    found = interval(FixedType(length=2), Literal(value, BINARY))
    assert (column >= value) == (found.low is not None and column >= found.low)
    assert (column <= value) == (found.high is not None and column <= found.high)


DAY = 86_400_000_000


@pytest.mark.parametrize(
    ("column", "value", "low", "high"),
    [
        (INT, 2**31, None, 2**31 - 1),
        (INT, -(2**31) - 1, -(2**31), None),
        (INT, Decimal("1.5"), 2, 1),
        (DATE, dt.date(1970, 1, 2), 1, 1),
        (DATE, dt.datetime(1970, 1, 2, 12), 2, 1),
        (DATE, "1970-01-02", 1, 1),
        (TIMESTAMP, dt.date(1970, 1, 2), DAY, DAY),
        (TIMESTAMPTZ, dt.datetime(1970, 1, 2, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), DAY, DAY),
        (TIMESTAMP_NS, "1970-01-01T00:00:00.000000001", 1, 1),
        (TIMESTAMP_NS, dt.datetime(1970, 1, 1, 0, 0, 0, 1), 1000, 1000),
        (FLOAT, 0.1, 0.10000000149011612, 0.10000000149011612),
        (BINARY, "00ff", b"\x00\xff", b"\x00\xff"),
    ],
)
def test_a_plain_value_is_placed(column: PrimitiveType, value: Any, low: Any, high: Any) -> None:
    assert interval(column, plain_literal(column, value)) == Interval(low, high)


@pytest.mark.parametrize(
    ("column", "value"), [(INT, b"x"), (STRING, 5), (DATE, 1.5), (TIMESTAMP, True), (INT, object()), (BINARY, "xy")]
)
def test_what_does_not_compare_is_refused(column: PrimitiveType, value: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of Python's own, whose words differ between versions
        interval(column, plain_literal(column, value))


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("1970-01-02", DAY * 1000),
        ("1970-01-02T00:00:00Z", DAY * 1000),
        ("1970-01-02 01:00:00+01:00", DAY * 1000),
        ("1970-01-02 01:05:00+1:5", DAY * 1000),
        ("1970-01-02 01:00:00 Europe/Paris", DAY * 1000),
        ("1970-01-01 00:00:00.1234567899", 123456789),
        ("1969-12-31 23:59:59.9999999999", -1),
        ("+10000-01-01 00:00:00", 253402300800 * 10**9),
    ],
)
def test_timestamps_are_read_with_and_without_zone(text: str, nanos: int) -> None:
    """A timestamp without offset is UTC; digits beyond nanoseconds are cut."""
    assert timestamp_from_text(text)[0] == nanos


@pytest.mark.parametrize(
    "text",
    [
        "", "x", "2020-13-01", "2020-01-01 25:00", "2020-01-01 00:00:00 Nowhere/Land", "2020-02-30", "20-01-01",
        "2020-01-01 00:00Z", "2020-01-01 00:00:00z", "2020-01-01 00:00:00+105", "2020-01-01 00:00:00+18:01", "٢٠٢٠-01-01",
    ],
)  # fmt: skip
def test_what_is_no_timestamp_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of Python's own, whose words differ between versions
        timestamp_from_text(text)
