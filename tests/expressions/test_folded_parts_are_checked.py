"""A missing column and a literal that cannot be compared are refused even if a constant decides the condition. Spark 4.1 (ANSI)
refuses each of these on a view (i INT, t STRING, d DOUBLE)."""

from __future__ import annotations

import pytest

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import ALWAYS_FALSE, ALWAYS_TRUE, BoundComputed, Expression, leaves
from iceberg_ops.expressions.row_evaluator import row_filter
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DOUBLE, INT, STRING, NestedField
from tests.actions.lake import make_lake, numbered
from tests.expressions.sql_text import to_sql

SCHEMA = Schema.of(NestedField(1, "i", INT), NestedField(2, "t", STRING), NestedField(3, "d", DOUBLE))
REFUSED_BY_SPARK = [
    "i NOT IN (1, 'x', NULL)",
    "i IN (1, 'x', NULL)",
    "i NOT IN ('x', NULL)",
    "(i = 'x') IS NULL",
    "(i IN (2, 'x')) IS NULL",
    "isnull(i = 'x')",
    "(i < 'x') <=> NULL",
    "i = NULL AND i = 'x'",
    "i BETWEEN NULL AND 'x'",
    "i NOT BETWEEN NULL AND 'x'",
    "1 = 0 AND i = 'x'",
    "1 = 1 OR i = 'x'",
    "NULL AND i = 'x'",
    "NOT (1 = 0 AND (i = 1 OR i = 'x'))",
    "d NOT IN ('x', NULL)",
    "i NOT IN (1, TRUE, NULL)",
    "i NOT IN (DATE '2020-01-01', NULL)",
    "1 = 0 AND i NOT IN (DATE '2020-01-01')",
    "(i = DATE '2020-01-01') IS NULL",
    "isnan('x')",
    "nosuch = NULL",
    "nosuch NOT IN (1, NULL)",
    "nosuch IN (NULL)",
    "nosuch LIKE NULL",
    "1 = 0 AND nosuch = 1",
    "1 = 1 OR upper(nosuch) = 'X'",
]


@pytest.mark.parametrize("text", REFUSED_BY_SPARK)
def test_what_spark_refuses_is_refused(text: str) -> None:
    with pytest.raises(WhereError):
        bind(SCHEMA, parse_where(text))
    with pytest.raises(WhereError):
        bind(SCHEMA, parse_where(to_sql(parse_where(text))))


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("i NOT IN (1, 2, NULL)", ALWAYS_FALSE),
        ("i = NULL", ALWAYS_FALSE),
        ("(i = NULL) IS NULL", ALWAYS_TRUE),
        ("1 = 0 AND i = 3", ALWAYS_FALSE),
        ("1 = 1 OR i = 3", ALWAYS_TRUE),
        ("1 = 1 OR (t LIKE 'a%' AND i IN (1, 2))", ALWAYS_TRUE),
        ("i BETWEEN NULL AND 5", ALWAYS_FALSE),
        ("isnan('5')", ALWAYS_FALSE),
        ("isnan('NaN')", ALWAYS_TRUE),
        ("i = 1 AND i <> 1", ALWAYS_FALSE),
        ("(i IS NULL OR t = 'a') OR i IS NOT NULL", ALWAYS_TRUE),
        ("(i = 5) IS NULL", bind(SCHEMA, parse_where("i IS NULL"))),
        ("(1 = 0 AND i = 3) OR d > 1", bind(SCHEMA, parse_where("d > 1"))),
    ],
)
def test_what_is_sound_keeps_its_meaning(text: str, meaning: Expression) -> None:
    assert bind(SCHEMA, parse_where(text)) == meaning


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("true OR year(t) = 2020", ALWAYS_TRUE),
        ("1 = 0 AND CAST(t AS DATE) = DATE '2020-01-01'", ALWAYS_FALSE),
        ("i = 1 AND NOT (CAST(t AS DATE) IN (NULL, DATE '2020-01-01'))", ALWAYS_FALSE),
        ("i = 1 AND (true OR CAST(t AS DATE) > DATE '2020-01-01')", bind(SCHEMA, parse_where("i = 1"))),
        ("i = 1 OR (false AND year(t) IN (2020, 2021))", bind(SCHEMA, parse_where("i = 1"))),
    ],
)
def test_what_is_only_checked_is_not_computed(text: str, meaning: Expression) -> None:
    """A text that is not a valid date ended the scan, although nothing depends on it."""
    found = bind(SCHEMA, parse_where(text))
    assert [kept for kept in leaves(found) if isinstance(kept, BoundComputed)] == []
    row = (1, "no date", 2.0)
    assert row_filter(found)(row) is row_filter(meaning)(row)


def test_a_delete_by_a_malformed_condition_is_refused_and_not_done_for_nothing() -> None:
    lake = make_lake()
    lake.append(numbered(1, 5))
    for where in ("id NOT IN (1, 'x', NULL)", "1 = 0 AND nosuch = 3"):
        with pytest.raises(WhereError):
            lake.run("delete", where=where)
    assert lake.run("delete", where="id NOT IN (1, NULL)").status == "nothing-to-do"
    assert len(lake.rows()) == 5
