"""Comparisons that follow each other without AND, OR or parentheses: Spark reads them left to right or not at all, here they are
refused."""

from __future__ import annotations

import pytest

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.where import parse_where

REFUSED = [
    "flag = true >= false",
    "flag < true = false",
    "flag <> true >= false",
    "i = 5 = true",
    "i > 1 > false",
    "NOT i > 1 > false",
    "false < flag <= true",
    "i <> 5 != true",
    "i = 5 <=> flag",
    "flag BETWEEN false AND true = false",
    "i > 1 BETWEEN false AND false",
    "flag = true IN (false)",
    "flag = true IS NULL",
    "NOT flag = false IS NULL",
    "flag IS TRUE = false",
    "i IN (1) = false",
    "s LIKE 'a' = true",
    "i = 1 IS NOT DISTINCT FROM flag",
    "flag IS NOT DISTINCT FROM i = 5",
    "flag IS NOT TRUE IS NULL",
    "i NOT IN (1) IS NULL",
    "flag = NOT g",
    "i BETWEEN NOT flag AND 3",
    "g AND (flag = true = false)",
    "coalesce(flag = true = false, g)",
    "CASE WHEN i = 1 = flag THEN g ELSE flag END",
    "flag = CASE WHEN g THEN flag END = g",
    "g OR flag = true = false",
    "a.like = 1 = flag",
    "a[i = 1 = flag]",
]


@pytest.mark.parametrize("text", REFUSED)
def test_comparisons_that_meet_are_refused(text: str) -> None:
    with pytest.raises(WhereError, match="write parentheses"):
        parse_where(text)


@pytest.mark.parametrize("text", ["i IN (1, 5,)", "coalesce(i,) = 1"])
def test_a_comma_that_nothing_follows_is_refused(text: str) -> None:
    with pytest.raises(WhereError):
        parse_where(text)


@pytest.mark.parametrize(
    "text",
    [
        "(flag = true) >= false",
        "flag = (true >= false)",
        "NOT flag = false",
        "! flag = false",
        "NOT i BETWEEN 1 AND 3 AND g",
        "i BETWEEN 1 AND 3 AND j BETWEEN 4 AND 5 OR i = 7",
        "i NOT BETWEEN 1 AND 3 AND s NOT LIKE 'a%' AND i NOT IN (1, 2)",
        "i IS NOT NULL AND NOT i IS NULL AND i IS DISTINCT FROM 4",
        "isnull(i) = true",
        "like(s, 'a') = true",
        "startswith(s, 'a') = (i = 5)",
        "CASE WHEN i = 1 THEN s = 'a' WHEN i = 2 THEN g ELSE i > 5 END = true",
        "CAST(i AS STRING) = 'a' AND i > 1",
        "CAST(m AS MAP<STRING, ARRAY<INT>>) = n",
        "m::map<string, array<int>> = n",
        "filter(a, x -> x = 1) = b",
        "a[1] = 2",
        "i + 1 = j - 2",
        "i = -5",
        "i & 3 = 1",
        "`like` = 1 AND `in` = 2",
        "t.in = 1",
        "s LIKE 'a!%' ESCAPE '!' OR s RLIKE 'b'",
        "s LIKE ANY ('a', 'b') AND g",
    ],
)
def test_a_condition_with_one_comparison_between_connectives_is_read(text: str) -> None:
    parse_where(text)


def test_subqueries_are_left_to_the_engine() -> None:
    parse_where("i IN (SELECT a FROM t WHERE b = c = d)", subqueries=True)
    with pytest.raises(WhereError, match="write parentheses"):
        parse_where("i = 1 IN (SELECT a FROM t)", subqueries=True)
