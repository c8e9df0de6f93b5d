"""JSON single values (Appendix D): recorded forms, refusals and round trips."""

from __future__ import annotations

import json
import math
import re
import uuid
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.serde.json.schema_json import type_from_json
from iceberg_ops.serde.json.single_value_json import from_json_value, to_json_value
from iceberg_ops.spec.fresh_ids import with_fresh_ids
from iceberg_ops.spec.types import (
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
    UNKNOWN,
    UUID,
    VARIANT,
    DecimalType,
    GeographyType,
    GeometryType,
    IcebergType,
    map_of,
)
from tests.fixture_paths import requires_fixtures
from tests.golden import golden_type, vectors
from tests.strategies import types, values

CASES = vectors("single_value_json")


def _type(notation: Any) -> IcebergType:
    if notation == "map<int,string>":
        return map_of(1, INT, 2, STRING)
    return golden_type(notation) if isinstance(notation, str) else type_from_json(notation)


@requires_fixtures
@pytest.mark.parametrize(("notation", "value"), CASES.get("round_trip", []) + CASES.get("spec_examples", []), ids=str)
def test_recorded_values_come_back_as_they_were(notation: Any, value: Any) -> None:
    """JSON-20 DEFAULT-10 TYPE-02 TYPE-03 TYPE-04 TYPE-05 TYPE-06 TYPE-07 TYPE-08 TYPE-09 TYPE-10 TYPE-11 TYPE-12 TYPE-13 TYPE-14
    TYPE-15 TYPE-16 TYPE-17 TYPE-18 TYPE-19 TYPE-20"""
    type_ = _type(notation)
    assert to_json_value(type_, from_json_value(type_, value)) == value


@requires_fixtures
@pytest.mark.parametrize(("notation", "value", "_reference"), CASES.get("invalid", []), ids=str)
def test_recorded_refusals_are_refused(notation: Any, value: Any, _reference: str) -> None:
    """JSON-21 TYPE-11 TYPE-13"""
    with pytest.raises(CorruptTableError, match=r"is not a value of type|must be"):
        from_json_value(_type(notation), value, "default")


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (BOOLEAN, 1),
        (INT, True),
        (INT, 2**31),
        (INT, 1.5),
        (INT, "1"),
        (LONG, 2**63),
        (FLOAT, "x"),
        (DOUBLE, True),
        (STRING, 1),
        (DATE, 17486),
        (DATE, "2017-02-30"),
        (TIME, "25:00:00"),
        (TIMESTAMP, "2017-11-16T22:31:08+00:00"),
        (TIMESTAMPTZ, "2017-11-16T22:31:08Z"),
        (TIMESTAMPTZ, "2017-11-16T22:31:08"),
        (UUID, "f79c3e09677c4bbda4793f349cb785e7"),
        (DecimalType(precision=9, scale=2), "14.2"),
        (DecimalType(precision=9, scale=2), "x"),
        (DecimalType(precision=3, scale=2), "14.20"),
        (DecimalType(precision=9, scale=2), "NaN"),
        (map_of(1, INT, 2, INT), [1]),
        (map_of(1, INT, 2, INT), {"keys": [1]}),
        (TIMESTAMP, "+999999-01-01T00:00:00"),
    ],
    ids=str,
)
def test_json_of_another_kind_is_refused(type_: IcebergType, value: Any) -> None:
    """JSON-20 JSON-21 JSON-22"""
    with pytest.raises(CorruptTableError):
        from_json_value(type_, value)


@given(types(), st.data())
def test_every_value_comes_back_through_json_text(type_: IcebergType, data: st.DataObject) -> None:
    """JSON-20"""
    counter = iter(range(1, 1000))
    type_ = with_fresh_ids(type_, lambda: next(counter))
    value = data.draw(values(type_))
    back = from_json_value(type_, msgspec.json.decode(msgspec.json.encode(to_json_value(type_, value))))
    assert repr(back) == repr(value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, -0.0, 0.1])
def test_numbers_that_json_lacks_are_named(value: float) -> None:
    text = json.dumps(to_json_value(DOUBLE, value), allow_nan=False)
    assert repr(from_json_value(DOUBLE, json.loads(text))) == repr(value)


def test_a_float_shows_its_shortest_text() -> None:
    assert to_json_value(FLOAT, from_json_value(FLOAT, 0.34234)) == 0.34234


def test_timestamps_end_in_their_offset_and_uuids_are_lower_case() -> None:
    """JSON-21"""
    assert to_json_value(TIMESTAMPTZ, 0) == "1970-01-01T00:00:00+00:00"
    assert to_json_value(UUID, uuid.UUID("F79C3E09-677C-4BBD-A479-3F349CB785E7")) == "f79c3e09-677c-4bbd-a479-3f349cb785e7"


@given(st.integers(0, 38), st.integers(-100, 100))
def test_decimal_text_reads_back_at_its_scale(scale: int, unscaled: int) -> None:
    """JSON-21 TYPE-07: small zeros and tiny numbers have all their digits, as Java writes them; DuckDB fails on 0E-8."""
    type_ = DecimalType(precision=38, scale=scale)
    number = Decimal(unscaled).scaleb(-scale)
    text = to_json_value(type_, number)
    assert re.fullmatch(r"-?\d+(\.\d+)?", text), text
    assert str(from_json_value(type_, text)) == str(number)
    assert from_json_value(type_, str(number)) == number, "what earlier versions wrote is still read"


@pytest.mark.parametrize(("number", "text"), [(Decimal("0E-8"), "0.00000000"), (Decimal("-1E-38"), f"-0.{'0' * 37}1")])
def test_a_decimal_has_no_exponent(number: Decimal, text: str) -> None:
    """JSON-21"""
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    assert to_json_value(DecimalType(precision=38, scale=-exponent), number) == text


def test_a_decimal_of_negative_scale_tells_it_by_its_exponent() -> None:
    """JSON-21"""
    assert to_json_value(DecimalType(precision=9, scale=-20), Decimal("2E+20")) == "2E+20"


@pytest.mark.parametrize("value", [1e39, -3.5e38])
def test_a_number_beyond_all_floats_is_no_float(value: float) -> None:
    """JSON-20: it would become infinite."""
    with pytest.raises(CorruptTableError, match="32-bit float"):
        from_json_value(FLOAT, value)


@pytest.mark.parametrize("type_", [UNKNOWN, VARIANT, GeometryType(), GeographyType()], ids=str)
def test_types_that_only_default_to_null_take_null_only(type_: IcebergType) -> None:
    """TYPE-01 TYPE-21 TYPE-22 TYPE-23 DEFAULT-07"""
    assert from_json_value(type_, None) is None
    assert to_json_value(type_, None) is None
    with pytest.raises(UnsupportedError):
        from_json_value(type_, "POINT (1 2)")


@pytest.mark.parametrize("type_", [UNKNOWN, VARIANT], ids=str)
def test_types_without_a_json_form_are_refused(type_: IcebergType) -> None:
    """TYPE-01 TYPE-21"""
    with pytest.raises(UnsupportedError):
        to_json_value(type_, b"\x00")


@pytest.mark.parametrize("type_", [GeometryType(), GeographyType()], ids=str)
def test_geometries_are_written_as_well_known_text(type_: IcebergType) -> None:
    """TYPE-22 TYPE-23"""
    assert to_json_value(type_, bytes.fromhex("0101000000" + "0000000000003e40" + "0000000000002440")) == "POINT (30 10)"
    with pytest.raises(CorruptTableError):
        to_json_value(type_, b"\x00")


def test_an_absent_sub_field_of_a_struct_is_null() -> None:
    """DEFAULT-08 TYPE-18"""
    struct = type_from_json({"type": "struct", "fields": [{"id": 4, "name": "a", "required": False, "type": "int"}]})
    assert from_json_value(struct, {}) == (None,)
