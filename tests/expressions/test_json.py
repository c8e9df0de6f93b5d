"""Expression JSON: Iceberg's vectors, and our own round trips."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.json import expression_from_json, expression_to_json
from iceberg_ops.expressions.predicates import ALWAYS_FALSE, ALWAYS_TRUE, MayMatch
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import FixedType, NestedField
from tests.expressions.test_no_row_is_lost import ALL, SCHEMA, expressions
from tests.fixture_paths import requires_fixtures
from tests.golden import vectors

VECTORS = vectors("expression_json") or []


def written(value: Any) -> Any:
    """A vector as we write it: short references and plain values."""
    if isinstance(value, list):
        return [written(v) for v in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "literal":
        return value["value"]
    if value.get("type") == "reference":
        return value["term"]
    return {k: written(v) for k, v in value.items()}


@requires_fixtures
@pytest.mark.parametrize("case", [c for c in VECTORS if c["ok"]], ids=lambda c: c["desc"])
def test_a_valid_document_is_read_and_written_back(case: dict[str, Any]) -> None:
    assert expression_to_json(expression_from_json(case["json"])) == written(case["json"])


@requires_fixtures
@pytest.mark.parametrize("case", [c for c in VECTORS if not c["ok"]], ids=lambda c: c["desc"])
def test_an_invalid_document_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(WhereError):
        expression_from_json(case["json"])


@pytest.mark.parametrize(
    "document",
    [
        None,
        5,
        "x",
        [],
        {},
        {"type": 3},
        {"type": "eq", "term": "a", "value": None},
        {"type": "in", "term": "a", "values": [[1]]},
        {"type": "in", "term": "a", "values": "ab"},
        {"type": "eq", "term": {"type": "transform", "term": "a"}, "value": 1},
        {"type": "eq", "term": "a", "value": {"type": "literal", "value": "x", "data-type": "int"}},
        {"type": "eq", "term": "a", "value": {"type": "literal", "value": 1, "data-type": "what"}},
    ],
)
def test_what_is_no_expression_is_refused_with_our_error(document: Any) -> None:
    with pytest.raises(WhereError):
        expression_from_json(document)


@settings(max_examples=150, deadline=None)
@given(expressions(sorted(ALL)))
def test_bind_write_read_bind_is_a_round_trip(expression: Any) -> None:
    bound = bind(SCHEMA, expression)
    shipped = json.loads(json.dumps(expression_to_json(bound)))
    assert bind(SCHEMA, expression_from_json(shipped)) == bound


@pytest.mark.parametrize(
    "text",
    [
        "i = 1L",
        "d > 1.50",
        "ts < TIMESTAMP '2020-01-01 00:00:00.5Z'",
        "ts < TIMESTAMP '1500-01-01 00:00:00.1234567'",
        "day = DATE '-0001-01-01'",
        "bin = X'00ff'",
        "d = double('NaN')",
        "f < float('-Infinity')",
        "upper(s) = 'A' OR i = 1",
        "s LIKE '%\\\\%_'",
        "system.bucket(16, i) IN (1, 2)",
        "l = 9223372036854775808",
    ],
)
def test_an_unbound_where_keeps_its_literal_types(text: str) -> None:
    parsed = parse_where(text)
    assert expression_from_json(json.loads(json.dumps(expression_to_json(parsed)))) == parsed


def test_constants_and_opaque_parts_travel() -> None:
    for expression in (ALWAYS_TRUE, ALWAYS_FALSE, MayMatch("a < b", ("a", "b"))):
        assert expression_from_json(expression_to_json(expression)) == expression


def test_binary_values_are_hex_in_json() -> None:
    """JSON-20, TYPE-16."""
    schema = Schema.of(NestedField(1, "x", FixedType(length=3)))
    bound = bind(schema, expression_from_json({"type": "eq", "term": "x", "value": "010203"}))
    assert expression_to_json(bound) == {"type": "eq", "term": "x", "value": "010203"}
    assert bound.literals == (b"\x01\x02\x03",)  # type: ignore[attr-defined]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["type", "term", "value", "values", "left", "right", "child", "data-type"]),
                inner | st.sampled_from(["eq", "in", "not", "and", "literal", "reference", "transform", "is-null"]),
                max_size=4,
            )
        ),
        max_leaves=8,
    )
)
def test_any_json_gives_an_expression_or_our_error(document: Any) -> None:
    with contextlib.suppress(WhereError):
        expression_from_json(document)
