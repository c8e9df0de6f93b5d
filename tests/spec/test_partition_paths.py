"""Partition paths: recorded ones, Java's escaping, and real tables' folder names."""

from __future__ import annotations

import re
import uuid
from decimal import Decimal
from typing import Any
from urllib.parse import unquote_plus

import pytest
from hypothesis import given

from iceberg_ops.spec.partition_paths import escape, partition_path
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.transform_functions import apply
from iceberg_ops.spec.transforms import IDENTITY, VOID, Transform, transform_from_text
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
    UUID,
    DecimalType,
    IcebergType,
    NestedField,
)
from tests.fixture_paths import requires_fixtures
from tests.golden import golden_type, golden_value, vectors
from tests.strategies import texts

SUFFIX = {"identity": "", "truncate": "_trunc"}


def _path(parts: list[tuple[str, IcebergType, Transform, Any]]) -> str:
    columns = {i: NestedField(i, f"c{i}", type_) for i, (_, type_, _, _) in enumerate(parts)}
    fields = tuple(PartitionField((i,), 1000 + i, transform, name) for i, (name, _, transform, _) in enumerate(parts))
    return partition_path(PartitionSpec(0, fields), [value for *_, value in parts], columns)


def _parsed(term: str) -> tuple[Transform, str]:
    name, column = re.fullmatch(r"([^(]+)\((.*)\)", term).groups()  # type: ignore[union-attr]
    return transform_from_text(name), column


@requires_fixtures
@pytest.mark.parametrize("case", vectors("partition_paths").get("cases", []), ids=lambda c: ",".join(c["spec"]))
def test_paths_are_as_recorded(case: dict[str, Any]) -> None:
    parts = []
    for term in case["spec"]:
        transform, column = _parsed(term)
        type_ = golden_type(case["types"][column])
        name = column + SUFFIX.get(transform.name, f"_{transform.name}")
        if "row" in case:
            text = str(case["row"][column])
            value = apply(transform, type_, golden_value(type_, text))
        else:
            value = case["partition"][name]
        parts.append((name, type_, transform, value))
    expected = case.get("path") or case["path_template"].replace("{bucket10(1)}", str(parts[-1][-1]))
    assert _path(parts) == expected


def test_every_type_reads_as_trino_wrote_it() -> None:
    """The folder names of a recorded table, written through Iceberg's own library."""
    key = uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7")
    found = _path(
        [
            ("col_bool", BOOLEAN, IDENTITY, False),
            ("col_int", INT, IDENTITY, 1),
            ("col_long", LONG, IDENTITY, 2),
            ("col_float", FLOAT, IDENTITY, 2.25),
            ("col_double", DOUBLE, IDENTITY, 2.375),
            ("col_decimal", DecimalType(precision=9, scale=2), IDENTITY, Decimal("3.00")),
            ("col_date", DATE, IDENTITY, 20150),
            ("col_time", TIME, IDENTITY, 61_200_000_000),
            ("col_timestamp", TIMESTAMP, IDENTITY, 1_740_960_000_000_000),
            ("col_timestamptz", TIMESTAMPTZ, IDENTITY, 1_740_960_000_000_000),
            ("col_string", STRING, IDENTITY, "some-string"),
            ("col_uuid", UUID, IDENTITY, key),
            ("col_varbinary", BINARY, IDENTITY, b"some-varbinary"),
        ]
    )
    assert found == (
        "col_bool=false/col_int=1/col_long=2/col_float=2.25/col_double=2.375/col_decimal=3.00/col_date=2025-03-03/"
        "col_time=17%3A00/col_timestamp=2025-03-03T00%3A00%3A00/col_timestamptz=2025-03-03T00%3A00%3A00%2B00%3A00/"
        f"col_string=some-string/col_uuid={key}/col_varbinary=c29tZS12YXJiaW5hcnk%3D"
    )


def test_nulls_and_void_fields_read_null() -> None:
    assert _path([("a", INT, IDENTITY, None), ("b", INT, VOID, None)]) == "a=null/b=null"


def test_an_unpartitioned_spec_has_an_empty_path() -> None:
    assert partition_path(PartitionSpec(), (), {}) == ""


def test_a_dropped_source_column_still_gives_a_path() -> None:
    """PART-12"""
    spec = PartitionSpec(0, (PartitionField((9,), 1000, IDENTITY, "gone"),))
    assert partition_path(spec, ("x y",), {}) == "gone=x+y"


@pytest.mark.parametrize(("text", "expected"), [("a b~c*d", "a+b%7Ec*d"), ("ä/=", "%C3%A4%2F%3D"), ("-_.", "-_."), ("%", "%25")])
def test_text_is_escaped_as_java_url_encodes(text: str, expected: str) -> None:
    assert escape(text) == expected


@given(texts)
def test_escaped_text_is_one_folder_name_and_reads_back(text: str) -> None:
    found = escape(text)
    assert "/" not in found
    assert "=" not in found
    assert unquote_plus(found) == text


def test_recorded_folders_of_real_tables_match_their_partition_tuples() -> None:
    """A decimal of scale 11 and binary values, as Java wrote them into folder names."""
    tiny = DecimalType(precision=20, scale=11)
    assert _path([("p", tiny, IDENTITY, Decimal("0E-11")), ("q", tiny, IDENTITY, Decimal("1E-11"))]) == "p=0E-11/q=1E-11"
    assert _path([("b", BINARY, IDENTITY, b"\x01\x02\x03")]) == "b=AQID"
