"""Parts of UPDATE and MERGE text: which ones are recognised, and which are left to an engine."""

from __future__ import annotations

import pytest

from iceberg_ops.errors import WhereError
from iceberg_ops.expressions.predicates import Literal, is_exact
from iceberg_ops.expressions.renaming import unqualified
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.expressions.where_literals import NULL
from iceberg_ops.expressions.where_pieces import ColumnText, conjuncts, parse_value
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, LONG, STRING, NestedField, StructType


def test_thousands_of_conditions_are_cut_at_their_ands_and_what_is_nested_too_deep_is_refused() -> None:
    """A RecursionError ended the merge as INTERNAL."""
    assert len(conjuncts("a = b" + " AND c = 1" * 5_000)) == 5_001
    assert [found.text for found in conjuncts("(a = 1 AND (b = 2 AND c = 3)) AND d = 4")] == ["a = 1", "b = 2", "c = 3", "d = 4"]
    for refused in (conjuncts, parse_value):
        with pytest.raises(WhereError, match="nested too deep"):
            refused("(" * 5_000 + "1" + ")" * 5_000)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(1)", Literal(1, INT)),
        ("-2L", Literal(-2, LONG)),
        ("'it''s'", Literal("it's", STRING)),
        ("CAST(NULL AS INT)", NULL),
        ("source.`a b`", ColumnText(("source", "a b"))),
        ("A.b.c", ColumnText(("A", "b", "c"))),
        ("a + 1", None),
        ("a = 1", None),
        ("current_date()", None),
        ("(SELECT 1)", None),
        ("CAST(1 AS STRING)", None),
        ("CAST('ab' AS CHAR(1))", None),
        ("-0.0D", None),
        ("CAST('-0' AS DOUBLE)", None),
    ],
)
def test_values(text: str, value: object) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize("text", ["", "1,", "1 2", "'a"])
def test_what_is_no_value_does_not_parse(text: str) -> None:
    with pytest.raises(WhereError, match="cannot parse"):
        parse_value(text)


def test_conditions_are_cut_at_their_ands_and_nowhere_else() -> None:
    found = conjuncts("((t.a = s.b AND (t.c > 1 OR s.d < 2)) AND NOT (t.e = 1 AND s.f = 2)) AND true AND t.g BETWEEN 1 AND 2")
    assert [len(part.columns) for part in found] == [2, 2, 2, 0, 1]
    assert [part.pair is not None for part in found] == [True, False, False, False, False]
    assert [is_exact(part.where) for part in found] == [False, True, True, True, True]
    assert found[0].pair == (ColumnText(("t", "a")), ColumnText(("s", "b")))


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("Target.id = 1 AND target.st.a IN (1, 2)", "id = 1 AND st.a IN (1, 2)"),
        ("NOT (target.id IS NULL OR id > 3)", "NOT (id IS NULL OR id > 3)"),
        ("CAST(target.id AS DATE) > DATE '2020-01-01'", "CAST(id AS DATE) > DATE '2020-01-01'"),
        ("target.nope = 1", "target.nope = 1"),
    ],
)
def test_the_name_of_the_table_is_taken_off_its_columns(text: str, becomes: str) -> None:
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "st", StructType((NestedField(3, "a", INT),))))
    assert unqualified(parse_where(text), "target", schema) == parse_where(becomes)
