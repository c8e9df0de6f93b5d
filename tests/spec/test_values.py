"""Binary single values and the text people read (Appendix D)."""

from __future__ import annotations

import math
import struct
import uuid
from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from iceberg_ops.errors import CorruptTableError, DataError, UnsupportedError
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
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    StructType,
    list_of,
)
from iceberg_ops.spec.values import (
    decimal_of,
    float_text,
    from_bytes,
    geo_bound_from_bytes,
    geo_bound_to_bytes,
    human,
    to_bytes,
    unscaled,
)
from tests.fixture_paths import requires_fixtures
from tests.golden import golden_type, golden_value, vectors
from tests.strategies import decimal_types, primitive_types, values

BINARY_VECTORS = vectors("single_value_binary")


@requires_fixtures
@pytest.mark.parametrize(("type_name", "text", "expected"), BINARY_VECTORS.get("cases", []), ids=str)
def test_values_have_their_recorded_bytes(type_name: str, text: str, expected: str) -> None:
    """BIN-01 BIN-02 BIN-04 TYPE-02 TYPE-03 TYPE-04 TYPE-05 TYPE-06 TYPE-07 TYPE-08 TYPE-09 TYPE-10 TYPE-11 TYPE-12 TYPE-13 TYPE-14
    TYPE-15 TYPE-16 TYPE-17"""
    type_ = golden_type(type_name)
    value = golden_value(type_, text)
    assert to_bytes(type_, value).hex() == expected
    assert from_bytes(type_, bytes.fromhex(expected)) == value


def _corner(label: str) -> tuple[float, float, float | None, float | None]:
    dimensions, numbers = label.rsplit(maxsplit=1)[-1].split("(")
    parts = dict(zip(dimensions, map(float, numbers.rstrip(")").split(",")), strict=True))
    return parts["X"], parts["Y"], parts.get("Z"), parts.get("M")


@requires_fixtures
@pytest.mark.parametrize(("label", "expected"), BINARY_VECTORS.get("bounds_geo", []), ids=str)
def test_geo_bounds_are_points_of_doubles(label: str, expected: str) -> None:
    """BIN-08 TYPE-22 TYPE-23"""
    corner = _corner(label)
    assert geo_bound_to_bytes(*corner).hex() == expected
    assert geo_bound_from_bytes(bytes.fromhex(expected)) == corner


@pytest.mark.parametrize("length", [0, 8, 17, 40])
def test_a_geo_bound_of_any_other_length_is_corrupt(length: int) -> None:
    """BIN-08"""
    with pytest.raises(CorruptTableError, match="must be 16, 24 or 32"):
        geo_bound_from_bytes(bytes(length))


@given(primitive_types(), st.data())
def test_every_value_comes_back_from_its_bytes(type_: IcebergType, data: st.DataObject) -> None:
    """BIN-01"""
    value = data.draw(values(type_))
    back = from_bytes(type_, to_bytes(type_, value))
    if isinstance(value, float):
        assert struct.pack("<d", back) == struct.pack("<d", value) or (math.isnan(back) and math.isnan(value))
    else:
        assert back == value
        assert type(back) is type(value)


@pytest.mark.parametrize(
    ("type_", "data", "expected"),
    [
        (LONG, struct.pack("<i", -7), -7),
        (DOUBLE, struct.pack("<f", 1.5), 1.5),
        (TIMESTAMP, struct.pack("<i", 1), 86_400_000_000),
        (TIMESTAMP_NS, struct.pack("<i", -1), -86_400_000_000_000),
        (DecimalType(precision=18, scale=2), b"\x05\x8c", Decimal("14.20")),
        (DecimalType(precision=18, scale=2), b"\x00\x00\x00\x05\x8c", Decimal("14.20")),
        (DecimalType(precision=18, scale=2), b"\xff\xff\xff", Decimal("-0.01")),
    ],
)
def test_bounds_written_before_a_promotion_are_widened(type_: IcebergType, data: bytes, expected: object) -> None:
    """SCHEMA-10 BIN-02"""
    assert from_bytes(type_, data) == expected


@pytest.mark.parametrize(
    ("type_", "data"),
    [
        (INT, b""),
        (INT, bytes(8)),
        (LONG, bytes(3)),
        (LONG, bytes(16)),
        (FLOAT, bytes(8)),
        (DOUBLE, bytes(2)),
        (DATE, bytes(8)),
        (TIME, bytes(4)),
        (TIMESTAMPTZ, bytes(4)),
        (TIMESTAMPTZ_NS, bytes(4)),
        (UUID, bytes(15)),
        (BOOLEAN, b""),
        (BOOLEAN, bytes(2)),
        (DecimalType(precision=9, scale=2), b""),
        (STRING, b"\xff\xfe"),
        (UNKNOWN, b"\x00"),
        (StructType(), b"\x00"),
    ],
)
def test_bytes_of_a_wrong_length_are_corrupt(type_: IcebergType, data: bytes) -> None:
    """SCHEMA-10: timestamptz never was a date, so four bytes are not a bound of it."""
    with pytest.raises(CorruptTableError, match="binary single value"):
        from_bytes(type_, data)


@pytest.mark.parametrize("byte", [b"\x01", b"\x02", b"\xff"])
def test_any_byte_but_zero_is_true(byte: bytes) -> None:
    """BIN-03"""
    assert from_bytes(BOOLEAN, byte) is True
    assert from_bytes(BOOLEAN, b"\x00") is False


def test_a_fixed_bound_may_be_cut_short() -> None:
    """MANIFEST-54: Java truncates bounds of fixed columns as it does those of binary ones."""
    assert from_bytes(FixedType(length=20), b"abc") == b"abc"


@pytest.mark.parametrize("type_", [UNKNOWN, StructType(), list_of(1, INT)], ids=str)
def test_types_without_a_binary_form_are_refused_by_name(type_: IcebergType) -> None:
    """BIN-01 TYPE-01 TYPE-18 TYPE-19"""
    with pytest.raises(UnsupportedError, match="binary single value"):
        to_bytes(type_, ())


@pytest.mark.parametrize(
    ("type_", "value"), [(INT, 2**31), (LONG, 2**63), (INT, "1"), (UUID, "x"), (STRING, "\ud800"), (BINARY, "x")]
)
def test_a_value_outside_its_type_is_refused(type_: IcebergType, value: object) -> None:
    with pytest.raises(DataError, match="is not a value of type"):
        to_bytes(type_, value)


@given(decimal_types(), st.data())
@example(DecimalType(precision=3, scale=0), None)
def test_decimals_take_the_fewest_bytes(type_: DecimalType, data: st.DataObject | None) -> None:
    """BIN-02 HASH-13"""
    numbers = [data.draw(values(type_))] if data else [decimal_of(n, 0) for n in (0, 127, 128, -128, -129, 255, 256)]
    for number in numbers:
        raw = to_bytes(type_, number)
        if len(raw) > 1:
            redundant = (raw[0] == 0 and raw[1] < 0x80) or (raw[0] == 0xFF and raw[1] >= 0x80)
            assert not redundant
        assert int.from_bytes(raw, "big", signed=True) == unscaled(number)


def test_a_decimal_of_full_width_is_never_rounded() -> None:
    """TYPE-32"""
    number = Decimal("-9999999999999999999999999999.9999999999")
    assert from_bytes(DecimalType(precision=38, scale=10), to_bytes(DecimalType(precision=38, scale=10), number)) == number


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (BOOLEAN, False, "false"),
        (FLOAT, 2.25, "2.25"),
        (DOUBLE, 1e7, "1.0E7"),
        (DOUBLE, 1e-4, "1.0E-4"),
        (DOUBLE, -0.0, "-0.0"),
        (DOUBLE, math.inf, "Infinity"),
        (DOUBLE, math.nan, "NaN"),
        (DecimalType(precision=12, scale=11), Decimal("0E-11"), "0E-11"),
        (DecimalType(precision=9, scale=2), Decimal("3.00"), "3.00"),
        (DATE, 20150, "2025-03-03"),
        (DATE, -719_529, "-0001-12-31"),
        (DATE, 2_932_897, "+10000-01-01"),
        (TIME, 61_200_000_000, "17:00"),
        (TIME, 61_201_000_000, "17:00:01"),
        (TIME, 61_201_500_000, "17:00:01.500"),
        (TIME, 61_201_000_001, "17:00:01.000001"),
        (TIMESTAMP, 1_740_960_000_000_000, "2025-03-03T00:00:00"),
        (TIMESTAMPTZ, 1_740_960_000_500_000, "2025-03-03T00:00:00.5+00:00"),
        (TIMESTAMP_NS, 1, "1970-01-01T00:00:00.000000001"),
        (STRING, "some-string", "some-string"),
        (BINARY, b"\x01\x02\x03", "AQID"),
        (FixedType(length=2), b"ab", "YWI="),
        (INT, None, "null"),
    ],
)
def test_values_read_as_java_shows_them(type_: IcebergType, value: object, expected: str) -> None:
    assert human(type_, value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_text_of_a_double_reads_back(value: float) -> None:
    assert float(float_text(value)) == value


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_the_text_of_a_float_reads_back_as_the_same_float(value: float) -> None:
    text = float_text(value, single=True)
    assert struct.pack("<f", float(text)) == struct.pack("<f", value)
    assert len(text) <= len(float_text(value))


def test_wkb_and_variant_bounds_travel_as_they_are() -> None:
    """BIN-09 TYPE-39 TYPE-21 TYPE-22 TYPE-23"""
    for type_ in (VARIANT, GeometryType(crs="EPSG:4326"), GeographyType()):
        assert from_bytes(type_, to_bytes(type_, b"\x01\x02")) == b"\x01\x02"


def test_a_uuid_is_sixteen_bytes_big_endian() -> None:
    """TYPE-35 BIN-04"""
    key = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    assert to_bytes(UUID, key).hex() == key.hex
    assert from_bytes(UUID, key.bytes) == key
