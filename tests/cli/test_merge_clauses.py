"""``--when`` and ``--set``: clauses of MERGE and UPDATE as values of the job spec."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.cli.merge_clauses import of_columns, parse_assignments, parse_when
from iceberg_ops.config.job_spec import MergeClause
from iceberg_ops.errors import OptionError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, NestedField, StructType
from tests.cli.conftest import Cli

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
            assignments={"target.a": "greatest(a, 1.5BD)", "b c.d": "'x'"},
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


def a_schema(*of_target: str) -> Schema:
    """Columns ``x`` and ``y``, and a struct ``target`` of these fields."""
    inner = StructType(tuple(NestedField(10 + i, name, INT, False) for i, name in enumerate(of_target)))
    struct = [NestedField(3, "target", inner, False)] if of_target else []
    return Schema.of(NestedField(1, "x", INT, False), NestedField(2, "y", INT, False), *struct)


def test_target_before_a_column_is_the_table() -> None:
    given = {"target.x": "1", "TARGET.y": "2", "z": "3"}
    assert of_columns(given, a_schema()) == {"x": "1", "y": "2", "z": "3"}
    assert of_columns({"target.y": "1"}, a_schema("x")) == {"y": "1"}
    with pytest.raises(OptionError, match="column x is set twice"):
        of_columns({"x": "1", "target.x": "2"}, a_schema())


def test_a_field_of_a_column_called_target_is_that_field() -> None:
    """Where it could be the table's column, too, it is refused: an UPDATE set the field, and its WHERE read the column."""
    assert of_columns({"target.z": "1"}, a_schema("z")) == {"target.z": "1"}
    assert of_columns({"target.target.x": "1", "x": "2"}, a_schema("x")) == {"target.x": "1", "x": "2"}
    with pytest.raises(OptionError, match=r"target.x: is column x .* write x for the one, target.target.x for the other"):
        of_columns({"target.x": "1"}, a_schema("x"))


def test_an_update_of_a_struct_called_target_leaves_other_columns(cli: Cli, tmp_path: Path) -> None:
    assert cli("create", "lake.ns.t", "x int, y int, target struct<x:int>").code == 0
    inner = pa.array([{"x": 5}], pa.struct([("x", pa.int32())]))
    one = pa.array([1], pa.int32())
    pq.write_table(pa.table({"x": one, "y": one, "target": inner}), tmp_path / "a.parquet")
    assert cli("append", "lake.ns.t", "--from", str(tmp_path / "a.parquet"), "--lane", "local").code == 0
    update = ("update", "lake.ns.t", "--where", "true", "--lane", "local")
    assert "UNSUPPORTED: not supported without Spark: SET of 'target.x'" in cli(*update, "--set", "target.target.x = 77").err
    assert "BAD_OPTION: target.x: is column x of the table, and a field" in cli(*update, "--set", "target.x = 77").err
    assert cli(*update, "--set", "Target.y = 2").code == 0
    assert cli("scan", "lake.ns.t").rows == [{"x": 1, "y": 2, "target": {"x": 5}}]
