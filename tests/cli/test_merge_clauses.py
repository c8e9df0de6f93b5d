"""``--when`` and ``--set``: clauses of MERGE and UPDATE as values of the job spec."""

from __future__ import annotations

import pytest

from iceberg_ops.cli.merge_clauses import parse_assignments, parse_when
from iceberg_ops.config.job_spec import MergeClause
from iceberg_ops.errors import OptionError

CLAUSES = {
    "MATCHED THEN DELETE": MergeClause(when="matched", action="delete"),
    "when matched and source.op = 'D, THEN' then delete": MergeClause(
        when="matched", action="delete", condition="source.op = 'D, THEN'"
    ),
    "MATCHED THEN UPDATE SET *": MergeClause(when="matched", action="update"),
    "MATCHED AND CASE WHEN a > 1 THEN true ELSE false END THEN UPDATE SET target.a = greatest(a, 1.5BD), `b c`.d = 'x'": (
        MergeClause(
            when="matched",
            action="update",
            condition="CASE WHEN a > 1 THEN true ELSE false END",
            assignments={"a": "greatest(a, 1.5BD)", "b c.d": "'x'"},
        )
    ),
    "NOT MATCHED THEN INSERT *": MergeClause(when="not-matched", action="insert"),
    "NOT MATCHED BY TARGET AND source.id > 0 THEN INSERT (id, b) VALUES (source.id * 2, concat('(', source.b))": MergeClause(
        when="not-matched",
        action="insert",
        condition="source.id > 0",
        assignments={"id": "source.id * 2", "b": "concat('(', source.b)"},
    ),
    "NOT MATCHED BY SOURCE AND target.at < current_date() - 7 THEN UPDATE SET kind = 'old'": MergeClause(
        when="not-matched-by-source",
        action="update",
        condition="target.at < current_date() - 7",
        assignments={"kind": "'old'"},
    ),
}


@pytest.mark.parametrize("text", CLAUSES)
def test_a_clause_is_read_as_spark_writes_it(text: str) -> None:
    assert parse_when(text) == CLAUSES[text]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("UPDATE SET *", "expected MATCHED or NOT MATCHED at 'UPDATE"),
        ("MATCHED UPDATE SET *", "expected THEN at 'UPDATE"),
        ("MATCHED THEN REPLACE", "expected UPDATE SET, DELETE or INSERT at 'REPLACE'"),
        ("MATCHED THEN UPDATE SET a", "expected = at the end"),
        ("MATCHED THEN UPDATE SET a = 1, a = 2", "column a is set twice"),
        ("MATCHED THEN DELETE now", "expected nothing more at 'now'"),
        ("NOT MATCHED THEN INSERT (a, b) VALUES (1)", "2 columns and 1 values"),
        ("MATCHED AND THEN DELETE", "expected a value"),
    ],
)
def test_what_can_not_be_read_is_shown_with_its_place(text: str, says: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_when(text)
    assert says in str(raised.value)


def test_assignments_are_columns_with_expressions() -> None:
    assert parse_assignments(("price = price * 1.1BD", "kind='a=b'")) == {"price": "price * 1.1BD", "kind": "'a=b'"}
    with pytest.raises(OptionError, match="set twice"):
        parse_assignments(("a = 1", "a = 2"))
    with pytest.raises(OptionError, match="expected ="):
        parse_assignments(("a",))
