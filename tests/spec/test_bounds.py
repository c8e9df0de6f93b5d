"""Truncated bounds: recorded cases, and the proof that they still bound."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.spec.bounds import truncate_lower, truncate_upper
from iceberg_ops.spec.types import BINARY, LONG, STRING, FixedType
from tests.fixture_paths import requires_fixtures
from tests.golden import vectors

CASES = vectors("bounds_truncation")
any_text = st.text(st.characters(exclude_categories=("Cs",)), max_size=8) | st.text(
    st.sampled_from("a\ud7ff\ue000\uffff\U00010000\U0010ffff"), max_size=8
)
any_bytes = st.binary(max_size=8) | st.lists(st.sampled_from([0, 0xFE, 0xFF]), max_size=8).map(bytes)


@requires_fixtures
@pytest.mark.parametrize(("value", "width", "expected"), CASES.get("binary_min", []))
def test_binary_lower_bounds_are_as_recorded(value: str, width: int, expected: str) -> None:
    """MANIFEST-54"""
    assert truncate_lower(BINARY, bytes.fromhex(value), width).hex() == expected


@requires_fixtures
@pytest.mark.parametrize(("value", "width", "expected"), CASES.get("binary_max", []))
def test_binary_upper_bounds_are_as_recorded(value: str, width: int, expected: str | None) -> None:
    """MANIFEST-54"""
    found = truncate_upper(BINARY, bytes.fromhex(value), width)
    assert (None if found is None else found.hex()) == expected


@requires_fixtures
@pytest.mark.parametrize(("value", "width", "expected"), CASES.get("string_min", []))
def test_string_lower_bounds_are_as_recorded(value: str, width: int, expected: str) -> None:
    """MANIFEST-54"""
    assert truncate_lower(STRING, value, width) == expected


@requires_fixtures
@pytest.mark.parametrize(("value", "width", "expected"), CASES.get("string_max", []))
def test_string_upper_bounds_are_as_recorded(value: str, width: int, expected: str | None) -> None:
    """MANIFEST-54"""
    assert truncate_upper(STRING, value, width) == expected


@given(any_text, st.integers(1, 6))
def test_string_bounds_bound_by_code_point_and_by_utf8(value: str, width: int) -> None:
    """MANIFEST-53 MANIFEST-54 BIN-05"""
    low, high = truncate_lower(STRING, value, width), truncate_upper(STRING, value, width)
    assert low <= value
    assert low.encode() <= value.encode()
    assert len(low) <= width
    if high is None:
        assert len(value) > width
        assert set(value[:width]) == {"\U0010ffff"}
    else:
        assert high >= value
        assert high.encode() >= value.encode()
        assert len(high) <= width


@given(any_bytes, st.integers(1, 6))
def test_binary_bounds_bound_unsigned(value: bytes, width: int) -> None:
    """MANIFEST-53 MANIFEST-54 BIN-05"""
    low, high = truncate_lower(BINARY, value, width), truncate_upper(BINARY, value, width)
    assert low <= value
    assert len(low) <= width
    if high is None:
        assert set(value[:width]) == {0xFF}
    else:
        assert high >= value
        assert len(high) <= width


def test_fixed_is_cut_like_binary_and_numbers_not_at_all() -> None:
    assert truncate_upper(FixedType(length=3), b"abc", 2) == b"ac"
    assert truncate_upper(LONG, 2**40, 2) == truncate_lower(LONG, 2**40, 2) == 2**40
