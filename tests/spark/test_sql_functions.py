"""SQL functions of the program (CREATE TEMPORARY FUNCTION ... RETURN ...), in conditions and values of statements."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.errors import WhereError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.jobs.repeatable import is_known
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

FUNCTIONS = {
    "plus1": "(x BIGINT) RETURNS BIGINT RETURN x + 1",
    "top": "() RETURNS BIGINT RETURN SELECT max(id) FROM VALUES (2L) AS v(id)",
    "known": "(x BIGINT) RETURNS BOOLEAN RETURN x IN (SELECT id FROM VALUES (2L) AS v(id))",
    "drawn": "(x BIGINT) RETURNS DOUBLE NOT DETERMINISTIC RETURN x + rand()",
}
WHERE = ["id = plus1(1)", "id = top()", "known(id)", "plus1(id) = 3 AND v = 'b'"]
ROWS = "SELECT * FROM VALUES (1L, 'a'), (2L, 'b'), (3L, 'c') AS r(id, v)"


@pytest.fixture
def table(place: Place, session: SparkSession) -> Iterator[Place]:
    place.create("t", Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING)))
    place.run("append", "t", source=Source(format="sql", query=ROWS))
    for name, rest in FUNCTIONS.items():
        session.sql(f"CREATE TEMPORARY FUNCTION {name}{rest}")
    yield place
    for name in FUNCTIONS:
        session.sql(f"DROP TEMPORARY FUNCTION {name}")


def values(place: Place) -> dict[int, str]:
    return {row["id"]: row["v"] for row in place.rows("t")}


@pytest.mark.parametrize("where", WHERE)
def test_a_condition_may_call_a_sql_function(table: Place, where: str, mode: str) -> None:
    set_ = {"v": "CAST(plus1(id) + top() AS STRING)"}
    table.run("update", "t", where=where.replace("'b'", "lower('B')"), change=RowChange(mode=mode, set=set_))  # type: ignore[arg-type]
    assert values(table) == {1: "a", 2: "5", 3: "c"}
    table.run("delete", "t", where=where.replace("'b'", "'5'"), change=RowChange(mode=mode))  # type: ignore[arg-type]
    assert values(table) == {1: "a", 3: "c"}


def test_a_merge_may_call_sql_functions(table: Place) -> None:
    clauses = [
        MergeClause(
            when="matched", action="update", condition="known(target.id)", assignments={"v": "CAST(plus1(source.id) AS STRING)"}
        ),
        MergeClause(when="not-matched", action="insert", assignments={"id": "plus1(source.id)", "v": "CAST(top() AS STRING)"}),
        MergeClause(when="not-matched-by-source", action="update", assignments={"v": "CAST(plus1(target.id) AS STRING)"}),
    ]
    source = Source(format="sql", query="SELECT * FROM VALUES (2L), (3L), (9L) AS s(id)")
    table.merge("t", source, "plus1(target.id) = plus1(source.id)", clauses, "merge-on-read")
    assert values(table) == {1: "2", 2: "3", 3: "c", 10: "2"}


@pytest.mark.parametrize(
    ("when", "assigned"),
    [("not-matched", {"id": "plus1(target.id)"}), ("not-matched-by-source", {"v": "CAST(plus1(source.id) AS STRING)"})],
)
def test_a_sql_function_of_the_side_without_a_row_is_refused(table: Place, when: str, assigned: dict[str, str]) -> None:
    clause = MergeClause(when=when, action="insert" if when == "not-matched" else "update", assignments=assigned)  # type: ignore[arg-type]
    with pytest.raises(WhereError, match="no row"):
        table.merge("t", Source(format="sql", query=ROWS), "target.id = source.id", [clause], "merge-on-read")


@pytest.mark.parametrize("own", [FILE_COLUMN, POSITION_COLUMN])
def test_a_sql_function_reads_no_column_that_jobs_add(table: Place, own: str) -> None:
    for value in (f"plus1(CAST({own} AS BIGINT))", f"CAST({own} AS BIGINT) + top()"):
        with pytest.raises(WhereError, match=rf"'{own}' is not a column"):
            table.run("update", "t", change=RowChange(set={"id": value}))
    clause = MergeClause(when="matched", action="delete")
    with pytest.raises(WhereError, match=rf"'{own}' is not a column"):
        table.merge("t", Source(format="sql", query=ROWS), f"plus1(CAST(target.{own} AS BIGINT)) = 1", [clause], "merge-on-read")


def test_a_sql_function_that_differs_each_time_is_refused_in_conditions(table: Place) -> None:
    with pytest.raises(WhereError, match="not deterministic"):
        table.run("delete", "t", where="drawn(id) > 2")
    assert len(values(table)) == 3


def test_a_condition_with_a_sql_function_is_not_known_to_compute_the_same(table: Place) -> None:
    rows = table.session.range(3)
    assert is_known(rows.filter("id = 1"))
    assert not is_known(rows.filter("id = plus1(0)"))
