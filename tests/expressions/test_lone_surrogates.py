"""Text with half of a surrogate pair, which no file can hold, is refused by name anywhere in a condition."""

from __future__ import annotations

import pytest

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import Expression, eq, in_, starts_with
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import BINARY, LONG, STRING, NestedField, StructType

SCHEMA = Schema.of(
    NestedField(1, "s", STRING), NestedField(2, "b", BINARY), NestedField(3, "n", LONG),
    NestedField(4, "t", StructType((NestedField(5, "s", STRING),))),
)  # fmt: skip
HALF = "a\ud800"
SQL = ("s = '{}'", "s <> '{}'", "s < '{}'", "s IN ('{}', 'a')", "s NOT IN ('x', '{}')", "s LIKE '{}%'", "s LIKE '%{}_'",
       "startswith(s, '{}')", "b = '{}'", "n = '{}'", "t.s = '{}'", "NOT (s = '{}' OR n = 1)")  # fmt: skip


@pytest.mark.parametrize("text", SQL)
def test_a_condition_in_sql_is_refused(text: str) -> None:
    with pytest.raises(WhereError):
        bind(SCHEMA, parse_where(text.format(HALF)))
    bind(SCHEMA, parse_where(text.format("1")))


@pytest.mark.parametrize("where", [eq("s", HALF), in_("s", ["x", HALF]), starts_with("s", HALF)])
def test_an_expression_is_refused(where: Expression) -> None:
    with pytest.raises(WhereError, match=r"column 's' cannot be compared .* half of a surrogate pair"):
        bind(SCHEMA, where)


def test_a_whole_pair_is_text() -> None:
    bind(SCHEMA, parse_where("s = '\U0001f600'"))
