"""SQL text of expressions reads back as what it was."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import (
    ALWAYS_TRUE,
    And,
    BoundPredicate,
    Expression,
    Not,
    eq,
    in_,
    is_null,
    leaves,
    or_,
    rewrite_not,
)
from iceberg_ops.expressions.sql_text import to_sql
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import STRING, NestedField
from tests.expressions.test_no_row_is_lost import ALL, SCHEMA, expressions
from tests.expressions.test_spark_answers import ANSWERS, REFUSED
from tests.strategies import texts

READABLE = [t for t, answer in ANSWERS.items() if isinstance(answer, list) and t not in REFUSED]


@pytest.mark.parametrize("text", READABLE)
def test_a_parsed_where_is_written_and_parsed_to_itself(text: str) -> None:
    parsed = parse_where(text)
    assert parse_where(to_sql(parsed)) == parsed


def shape(expression: Expression) -> list[Any]:
    """Leaves in order: how equal operators nest does not matter."""
    return list(leaves(rewrite_not(expression)))


@settings(max_examples=150, deadline=None)
@given(expressions(sorted(set(ALL) - {"ns", "bin", "fix"})))
def test_a_bound_expression_is_written_and_read_back(expression: Expression) -> None:
    bound = bind(SCHEMA, expression)
    assert shape(bind(SCHEMA, parse_where(to_sql(bound)))) == shape(bound)


@given(texts, st.lists(texts.filter(lambda t: t != "" and "." not in t), min_size=1, max_size=3))
def test_any_text_survives_quoting_as_value_and_as_name(value: str, parts: list[str]) -> None:
    name = ".".join(parts)
    parsed = parse_where(to_sql(eq(name, value)))
    assert [leaf.term.name for leaf in leaves(parsed)] == [name]  # type: ignore[attr-defined]
    schema = Schema.of(NestedField(1, "c", STRING))
    bound = bind(schema, parse_where(to_sql(eq("c", value))))
    assert isinstance(bound, BoundPredicate)
    assert bound.literals == (value,)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (ALWAYS_TRUE, "TRUE"),
        (And(eq("a", 1), or_(is_null("b.c"), eq("order by", "it's"))), "a = 1 AND (b.c IS NULL OR `order by` = 'it\\'s')"),
        (Not(And(eq("a", 1), eq("b", True))), "NOT (a = 1 AND b = TRUE)"),
        (in_("d", [1.5, float("nan")]), "d IN (1.5D, double('NaN'))"),
    ],
)
def test_text_is_plain_sql(expression: Expression, text: str) -> None:
    assert to_sql(expression) == text
