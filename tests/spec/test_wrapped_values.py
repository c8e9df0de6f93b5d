"""Transforms whose value wraps around: the values of Iceberg Java's arithmetic, and their ranges.

The whole numbers are the results of ``TruncateUtil``'s formula in Java 17.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.data.arrow.arrow_values import array_of, values_of
from iceberg_ops.data.columns.partition_values import transformed
from iceberg_ops.spec.transform_functions import apply, in_order
from iceberg_ops.spec.transforms import DAY, HOUR, MONTH, YEAR, Transform, truncate
from iceberg_ops.spec.types import INT, LONG, TIMESTAMP, TIMESTAMP_NS, TIMESTAMPTZ, TIMESTAMPTZ_NS, IcebergType
from iceberg_ops.spec.wrapped_values import wrapped_values
from tests.strategies import ints, longs

INTS = [-(2**31), -(2**31) + 1, -2_000_000_000, -11, -1, 0, 5, 147_483_648, 1_500_000_000, 2**31 - 1]
LONGS = [-(2**63), -(2**63) + 9, -11, 5, 2**63 - 1]
OF_INTS = {
    10: [2147483646, 2147483646, -2000000000, -20, -10, 0, 0, 147483640, 1500000000, 2147483640],
    8: [-2147483648, -2147483648, -2000000000, -16, -8, 0, 0, 147483648, 1500000000, 2147483640],
    2**30: [-2147483648, -2147483648, -2147483648, -1073741824, -1073741824, 0, 0, 0, 1073741824, 1073741824],
    2**30 + 1: [2147483646, 2147483646, 2147483646, -1073741825, -1073741825, 0, 0, 0, 1073741825, 1073741825],
    2_000_000_000: [294967296, 294967296, *[-2000000000] * 3, 0, 0, 294967296, -2000000000, 2000000000],
    2**31 - 1: [2, *[-2147483647] * 4, 0, *[-2147483647] * 3, 2147483647],
}
OF_LONGS = {
    10: [9223372036854775806, -9223372036854775800, -20, 0, 9223372036854775800],
    2**31 - 1: [9223372034707292163, -9223372036854775806, -2147483647, 0, 9223372036854775806],
}
CASES = [(INT, w, INTS, found) for w, found in OF_INTS.items()] + [(LONG, w, LONGS, found) for w, found in OF_LONGS.items()]
TIMESTAMPS = [TIMESTAMP, TIMESTAMPTZ, TIMESTAMP_NS, TIMESTAMPTZ_NS]


@pytest.mark.parametrize(("type_", "width", "rows", "expected"), CASES, ids=lambda v: str(v) if isinstance(v, int) else "")
def test_whole_numbers_truncate_as_in_java(type_: IcebergType, width: int, rows: list[int], expected: list[int]) -> None:
    """XFORM-12"""
    assert [apply(truncate(width), type_, v) for v in rows] == expected
    assert values_of(type_, transformed(truncate(width), type_, array_of(type_, rows))) == expected


@pytest.mark.parametrize("transform", [YEAR, MONTH, DAY, HOUR], ids=str)
@pytest.mark.parametrize("type_", TIMESTAMPS, ids=str)
def test_the_first_and_last_timestamps_have_one_value_on_rows_and_alone(transform: Transform, type_: IcebergType) -> None:
    """XFORM-04 XFORM-05 XFORM-06 XFORM-07 XFORM-15"""
    rows = [-(2**63), -(2**63) + 1, -1, 0, 2**63 - 2, 2**63 - 1]
    wanted = [apply(transform, type_, v) for v in rows]
    assert values_of(transform.result_type(type_), transformed(transform, type_, array_of(type_, rows))) == wanted
    assert all(-(2**31) <= v < 2**31 for v in wanted)


def test_hours_beyond_an_int_wrap_around_as_in_java() -> None:
    """XFORM-07: ``(int) ChronoUnit.HOURS.between(EPOCH, ...)``"""
    last = (2**63 - 1) // 3_600_000_000
    assert (last, apply(HOUR, TIMESTAMP, 2**63 - 1)) == (2_562_047_788, last - 2**32)
    assert apply(HOUR, TIMESTAMP, -(2**63)) == 2**32 - last - 1
    assert apply(HOUR, TIMESTAMP, 2**31 * 3_600_000_000 - 1) == 2**31 - 1


@st.composite
def _cases(draw: st.DrawFn) -> tuple[Transform, IcebergType, int]:
    type_: IcebergType = draw(st.sampled_from([INT, LONG, TIMESTAMP]))
    value: int = draw(ints if type_ == INT else longs)
    return (HOUR if type_ == TIMESTAMP else truncate(draw(st.integers(1, 2**31 - 1)))), type_, value


@given(_cases())
def test_a_value_that_wraps_around_lies_where_it_is_said_to(case: tuple[Transform, IcebergType, Any]) -> None:
    """XFORM-12, SCAN-03"""
    transform, type_, value = case
    found = apply(transform, type_, value)
    if found != in_order(transform, type_, value):
        places = wrapped_values(transform, type_)
        assert any(w.first_row <= value <= w.last_row and w.low <= found <= w.high for w in places)
    if type_ == LONG and -(2**31) <= value < 2**31 and apply(transform, INT, value) != found:
        places = [w for w in wrapped_values(transform, LONG) if not w.are_own]
        assert any(w.first_row <= value <= w.last_row and w.low <= apply(transform, INT, value) <= w.high for w in places)
