"""Transforms: the spec's hash vectors, recorded truncations and dates, and the algebra every transform must keep."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.errors import SchemaError, UnsupportedError
from iceberg_ops.spec.transform_functions import apply, bucket_hash, human_value, in_order
from iceberg_ops.spec.transforms import (
    DAY,
    HOUR,
    IDENTITY,
    MONTH,
    VOID,
    YEAR,
    Transform,
    bucket,
    transform_from_text,
    truncate,
)
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
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    list_of,
    primitive_from_name,
)
from iceberg_ops.spec.values import decimal_of
from tests.fixture_paths import requires_fixtures
from tests.golden import golden_type, golden_value, vectors
from tests.strategies import decimal_types, ints, longs, primitive_types, texts, transforms_for, values

HASHES = vectors("hash_bucket")
ORDER_KEEPING = ("identity", "truncate", "year", "month", "day", "hour")


@requires_fixtures
@pytest.mark.parametrize(("type_name", "text", "expected"), HASHES.get("hash", []), ids=str)
def test_values_hash_as_appendix_b_says(type_name: str, text: str, expected: int) -> None:
    """HASH-01 HASH-02 HASH-03 HASH-04 HASH-05 HASH-06 HASH-07 HASH-08 HASH-09 HASH-12 XFORM-17"""
    type_ = golden_type(type_name)
    assert bucket_hash(type_, golden_value(type_, text)) == expected


@requires_fixtures
@pytest.mark.parametrize(("type_name", "text", "expected"), HASHES.get("hash_not_bucketable_but_defined", []), ids=str)
def test_types_that_are_never_bucketed_have_their_hash_too(type_name: str, text: str, expected: int) -> None:
    """HASH-11 HASH-14"""
    type_ = golden_type(type_name)
    assert bucket_hash(type_, golden_value(type_, text)) == expected
    with pytest.raises(SchemaError, match="cannot take values"):
        apply(bucket(4), type_, golden_value(type_, text))


def test_the_text_of_a_number_hashes_apart_from_the_number() -> None:
    """HASH-10"""
    assert bucket_hash(STRING, "34") == -427558391 != bucket_hash(INT, 34)


def test_all_nans_hash_alike() -> None:
    """HASH-14"""
    assert bucket_hash(DOUBLE, math.nan) == bucket_hash(DOUBLE, -math.nan) == bucket_hash(FLOAT, math.nan)


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (INT, 34, 3),
        (DecimalType(precision=9, scale=2), "14.20", 3),
        (DATE, 17486, 10),
        (STRING, "iceberg", 9),
        (UUID, "f79c3e09-677c-4bbd-a479-3f349cb785e7", 12),
        (BINARY, "hex:00010203", 9),
    ],
)
def test_buckets_of_sixteen(type_: IcebergType, value: object, expected: int) -> None:
    """HASH-15 XFORM-02 XFORM-11"""
    assert apply(bucket(16), type_, golden_value(type_, value) if isinstance(value, str) else value) == expected


@given(st.integers(-(10**20), 10**20), st.integers(0, 10))
def test_decimals_hash_by_unscaled_value_alone(unscaled: int, scale: int) -> None:
    """HASH-13"""
    narrow, wide = DecimalType(precision=30, scale=scale), DecimalType(precision=38, scale=0)
    assert bucket_hash(narrow, decimal_of(unscaled, scale)) == bucket_hash(wide, decimal_of(unscaled, 0))


@given(primitive_types(), st.integers(1, 1000), st.data())
def test_buckets_are_never_negative(type_: IcebergType, n: int, data: st.DataObject) -> None:
    """XFORM-11"""
    if bucket(n).can_transform(type_):
        assert 0 <= apply(bucket(n), type_, data.draw(values(type_))) < n


@given(ints)
def test_an_int_and_an_equal_long_share_their_bucket(value: int) -> None:
    """HASH-12"""
    assert apply(bucket(97), INT, value) == apply(bucket(97), LONG, value)


@given(st.integers(-(2**53), 2**53), st.integers(0, 999))
def test_nanoseconds_share_the_bucket_of_their_microsecond(micros: int, rest: int) -> None:
    """XFORM-17"""
    assert apply(bucket(13), TIMESTAMP_NS, micros * 1000 + rest) == apply(bucket(13), TIMESTAMP, micros)


@pytest.mark.parametrize("transform", [bucket(0), truncate(0)])
def test_a_parameter_of_zero_is_refused(transform: Transform) -> None:
    with pytest.raises(SchemaError, match="above 0"):
        apply(transform, INT, 1)


@requires_fixtures
@pytest.mark.parametrize(("type_name", "width", "text", "expected"), vectors("truncate").get("cases", []), ids=str)
def test_values_truncate_as_recorded(type_name: str, width: int, text: str, expected: str) -> None:
    """XFORM-03 XFORM-12 XFORM-13 XFORM-14"""
    type_ = golden_type(type_name)
    result = apply(truncate(width), type_, golden_value(type_, text))
    assert result == golden_value(type_, expected)
    assert str(result) == str(golden_value(type_, expected))


def test_a_decimal_truncates_its_unscaled_value() -> None:
    """XFORM-13"""
    assert str(apply(truncate(50), DecimalType(precision=9, scale=2), Decimal("10.65"))) == "10.50"


def test_unknown_columns_can_not_be_truncated() -> None:
    """Vectors truncate.json, errors"""
    with pytest.raises(SchemaError, match="cannot take values of type unknown"):
        apply(truncate(10), UNKNOWN, "x")


@requires_fixtures
@pytest.mark.parametrize(("type_name", "name", "text", "expected"), vectors("datetime_transforms").get("ordinal", []), ids=str)
def test_dates_and_times_have_their_ordinal(type_name: str, name: str, text: str, expected: int) -> None:
    """XFORM-04 XFORM-05 XFORM-06 XFORM-07 XFORM-15 XFORM-17"""
    type_ = golden_type(type_name)
    assert apply(Transform(name), type_, golden_value(type_, text)) == expected


@requires_fixtures
@pytest.mark.parametrize(("type_name", "name", "text", "expected"), vectors("datetime_transforms").get("human_string", []), ids=str)
def test_ordinals_read_as_dates(type_name: str, name: str, text: str, expected: str) -> None:
    type_ = golden_type(type_name)
    transform = Transform(name)
    assert human_value(transform, type_, apply(transform, type_, golden_value(type_, text))) == expected
    assert human_value(transform, type_, None) == "null"


@requires_fixtures
def test_result_types_are_as_recorded() -> None:
    """XFORM-04 XFORM-05 XFORM-06 XFORM-07 XFORM-16"""
    for name, expected in vectors("datetime_transforms")["result_types"].items():
        assert str(Transform(name).result_type(TIMESTAMP)) == expected


@pytest.mark.parametrize(
    ("transform", "source", "result"),
    [(IDENTITY, STRING, STRING), (bucket(4), STRING, INT), (truncate(4), LONG, LONG), (VOID, DATE, DATE)],
)
def test_result_types_follow_the_source(transform: Transform, source: IcebergType, result: IcebergType) -> None:
    """XFORM-01 XFORM-02 XFORM-03 XFORM-08"""
    assert transform.result_type(source) == result


ALLOWED = {
    "identity": {"boolean", "int", "long", "float", "double", "decimal", "date", "time", "timestamp", "timestamptz", "timestamp_ns",
                 "timestamptz_ns", "string", "uuid", "fixed", "binary", "unknown"},
    "bucket[4]": {"int", "long", "decimal", "date", "time", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns", "string",
                  "uuid", "fixed", "binary"},
    "truncate[4]": {"int", "long", "decimal", "string", "binary"},
    "year": {"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"},
    "month": {"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"},
    "day": {"date", "timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"},
    "hour": {"timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns"},
}  # fmt: skip
PRIMITIVES = [
    *(primitive_from_name(n) for n in sorted(ALLOWED["identity"] - {"decimal", "fixed"})),
    DecimalType(precision=9, scale=2), FixedType(length=4), VARIANT, GeometryType(), GeographyType(),
]  # fmt: skip


@pytest.mark.parametrize("text", ALLOWED)
def test_each_transform_takes_its_source_types_and_no_other(text: str) -> None:
    """XFORM-01 XFORM-02 XFORM-03 XFORM-04 XFORM-05 XFORM-06 XFORM-07 TYPE-38"""
    transform = transform_from_text(text)
    for type_ in PRIMITIVES:
        name = str(type_).split("(")[0].split("[")[0]
        assert transform.can_transform(type_) == (name in ALLOWED[text]), f"{text} of {type_}"
    assert not transform.can_transform(list_of(1, INT))


@pytest.mark.parametrize("text", [*ALLOWED, "void"])
def test_null_stays_null(text: str) -> None:
    """XFORM-10 PART-13"""
    assert apply(transform_from_text(text), TIMESTAMP, None) is None


@given(primitive_types(), st.data())
def test_void_makes_null_of_everything(type_: IcebergType, data: st.DataObject) -> None:
    """XFORM-08"""
    assert apply(VOID, type_, data.draw(values(type_))) is None


def test_an_unknown_transform_keeps_its_text_and_computes_nothing() -> None:
    """PART-09 GEN-09"""
    unknown = transform_from_text("Zorder(3)")
    assert str(unknown) == "Zorder(3)"
    assert not unknown.is_known
    assert unknown.result_type(INT) == STRING
    with pytest.raises(UnsupportedError, match="Zorder"):
        apply(unknown, INT, 1)


@pytest.mark.parametrize(("text", "expected"), [("BUCKET[4]", bucket(4)), ("Identity", IDENTITY), ("Truncate[3]", truncate(3))])
def test_transforms_are_read_without_regard_to_case(text: str, expected: Transform) -> None:
    assert transform_from_text(text) == expected


@given(primitive_types(), st.data())
def test_order_is_kept_by_every_transform_but_bucket(type_: IcebergType, data: st.DataObject) -> None:
    """SCAN-03: what makes pruning by projected ranges right."""
    if str(type_) == "uuid":
        return
    transform = data.draw(transforms_for(type_))
    if transform.name not in ORDER_KEEPING:
        return
    a, b = sorted(data.draw(st.tuples(values(type_, allow_nan=False), values(type_, allow_nan=False))))
    assert in_order(transform, type_, a) <= in_order(transform, type_, b)


@given(st.one_of(st.tuples(st.just(INT), ints), st.tuples(st.just(LONG), longs)), st.integers(1, 2**31 - 1))
def test_a_truncated_number_is_the_nearest_multiple_below(pair: tuple[IcebergType, int], width: int) -> None:
    """XFORM-12"""
    type_, value = pair
    result = in_order(truncate(width), type_, value)
    assert result % width == 0
    assert 0 <= value - result < width


@given(texts, st.integers(1, 30))
def test_truncated_text_is_a_prefix_of_code_points(value: str, width: int) -> None:
    """XFORM-14"""
    result = apply(truncate(width), STRING, value)
    assert value.startswith(result)
    assert len(result) == min(width, len(value))


@given(decimal_types(), st.integers(1, 10**6), st.data())
def test_a_truncated_decimal_keeps_its_scale(type_: DecimalType, width: int, data: st.DataObject) -> None:
    """XFORM-13"""
    value = data.draw(values(type_))
    result = apply(truncate(width), type_, value)
    assert -result.as_tuple().exponent == type_.scale
    assert result <= value


@given(st.integers(-(2**55), 2**56))
def test_coarser_times_are_functions_of_finer_ones(micros: int) -> None:
    """XFORM-15 XFORM-18: timestamptz goes by UTC, exactly as timestamp does."""
    hour, day = apply(HOUR, TIMESTAMP, micros), apply(DAY, TIMESTAMP, micros)
    assert hour // 24 == day
    assert apply(MONTH, TIMESTAMP, micros) == apply(MONTH, DATE, day)
    assert apply(MONTH, DATE, day) // 12 == apply(YEAR, DATE, day)
    for transform in (YEAR, MONTH, DAY, HOUR):
        assert apply(transform, TIMESTAMPTZ, micros) == apply(transform, TIMESTAMP, micros)


def test_time_of_day_has_no_calendar_transform() -> None:
    for transform in (YEAR, MONTH, DAY, HOUR):
        assert not transform.can_transform(TIME)
    assert not YEAR.can_transform(BOOLEAN)
