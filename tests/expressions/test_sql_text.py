"""The SQL text of an expression reads back as the same expression."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot.dialects.spark import Spark

from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import (
    ALWAYS_TRUE,
    And,
    BoundPredicate,
    Expression,
    Not,
    Or,
    eq,
    in_,
    is_null,
    leaves,
    or_,
    rewrite_not,
)
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import STRING, NestedField
from tests.expressions.sql_text import to_sql
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


def words_of_the_parser() -> set[str]:
    """Every word that its tokens, commands, types and functions are made of."""
    tables = (getattr(Spark.Parser, name) for name in dir(Spark.Parser))
    keys = [k for table in tables if isinstance(table, dict | set | frozenset) for k in table]
    texts = [*Spark.Tokenizer.KEYWORDS, *(getattr(k, "name", k) for k in keys)]
    return {word.lower() for text in texts if isinstance(text, str) for word in re.findall(r"[A-Za-z_]\w*", text)}


def test_a_column_may_have_any_word_of_sql_as_its_name() -> None:
    words = words_of_the_parser()
    assert len(words) > 1000
    for word in words:
        of_both = [eq(word, ""), And(eq("a", 1), is_null(f"b.{word}")), Or(in_(f"{word}.b", [1, 2]), Not(eq(word, 1)))]
        for expression in of_both:
            named = [leaf.term.name for leaf in leaves(expression)]  # type: ignore[attr-defined]
            read = [leaf.term.name for leaf in leaves(parse_where(to_sql(expression)))]  # type: ignore[attr-defined]
            assert read == named, to_sql(expression)


@pytest.mark.parametrize("text", ["show = 1", "a = 1 AND rename IS NULL", "call IN (1, 2)", "returning > 1", "optimize = 'x'"])
def test_words_of_commands_name_columns_unquoted(text: str) -> None:
    assert to_sql(parse_where(text)).replace("`", "") == text


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
