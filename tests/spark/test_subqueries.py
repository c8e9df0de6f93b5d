"""Subqueries in the conditions of DELETE and UPDATE: which tables they may name, which rows they see, and their conflicts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import udtf

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, MergeClause, RowChange, Source
from iceberg_ops.errors import DataError, NoSuchTableError, UnsupportedError, WhereError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.catalog.wrappers import Meddles
from tests.spark.conftest import Place, temporary_views

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "k", LONG), NestedField(3, "city", STRING))
ROWS = [(1, 1, "Oslo"), (2, None, "Rome"), (3, 3, "Oslo"), (4, 7, None), (5, 1, "Bonn"), (6, 3, "Rome")]
OTHER = [(1, 1, "Oslo"), (9, 3, "Rome"), (4, None, None)]


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    types = pa.schema({"id": pa.int64(), "k": pa.int64(), "city": pa.string()})
    return pa.Table.from_pylist([dict(zip(types.names, r, strict=True)) for r in rows], types)


@pytest.fixture
def filled(place: Place) -> Place:
    for name, rows in (("t", ROWS), ("other", OTHER)):
        place.create(name, SCHEMA)
        place.fill(name, arrow(rows))
    place.parquet(arrow(OTHER), "late.parquet")
    return place


def ids(place: Place) -> list[int]:
    return [r["id"] for r in place.rows("t")]


def test_a_statement_on_a_table_without_a_snapshot_may_have_a_subquery(place: Place) -> None:
    place.create("t", SCHEMA)
    for where in ("id IN (SELECT id FROM target)", "target.id = 1"):
        assert place.run("delete", "t", where=where).status == "nothing-to-do"
        assert place.run("update", "t", where=where, change=RowChange(set={"k": "1"})).status == "nothing-to-do"


WHERES = {
    "id IN (SELECT id FROM test.db.other)": {1, 4},
    "k IN (SELECT k FROM test.db.other)": {1, 3, 5, 6},
    "k NOT IN (SELECT k FROM test.db.other)": set(),
    "k NOT IN (SELECT k FROM test.db.other WHERE k IS NOT NULL)": {4},
    "id > 2 AND k IN (SELECT k FROM test.db.other)": {3, 5, 6},
    "id = 2 OR k IN (SELECT k FROM test.db.other WHERE id = 1)": {1, 2, 5},
    "EXISTS (SELECT 1 FROM test.db.other o WHERE o.k = target.k AND o.id <> target.id)": {3, 5, 6},
    "NOT EXISTS (SELECT 1 FROM test.db.other WHERE other.city = target.city)": {4, 5},
    "EXISTS (SELECT 1 FROM `test` . db.`other` WHERE other.id = target.id) -- by quoted names": {1, 4},
    "k > (SELECT avg(k) FROM target)": {4},
    "k > (SELECT avg(k) FROM test.db.t)": {4},
    "id > (SELECT min(o.id) FROM target AS o WHERE o.k = target.k)": {5, 6},
    "id IN (WITH late AS (SELECT * FROM test.db.other) SELECT a.id FROM late a JOIN test.db.t b ON a.id = b.id)": {1, 4},
    "(k, city) IN (SELECT k, city FROM test.db.other)": {1, 6},
    "id IN (SELECT id FROM parquet.`{folder}/late.parquet`)": {1, 4},
    "city IN ('test.db.other', (SELECT max(city) FROM test.db.other))": {2, 6},
}


@pytest.mark.parametrize("where", WHERES)
def test_a_delete_with_a_subquery_deletes_what_spark_says(filled: Place, mode: str, where: str) -> None:
    filled.run("delete", "t", where=where.format(folder=filled.folder), change=RowChange(mode=mode))  # type: ignore[arg-type]
    assert set(ids(filled)) == {r[0] for r in ROWS} - WHERES[where]
    assert temporary_views(filled.session) == []


def test_an_update_may_have_subqueries_in_where_and_set(filled: Place, mode: str) -> None:
    sets = {"k": "(SELECT max(k) FROM target) + id", "city": "(SELECT max(o.city) FROM test.db.other o WHERE o.id = target.id)"}
    where = "id IN (SELECT id FROM test.db.other UNION SELECT 2)"
    filled.run("update", "t", where=where, change=RowChange(mode=mode, set=sets))  # type: ignore[arg-type]
    expected = [*ROWS]
    expected[0], expected[1], expected[3] = (1, 8, "Oslo"), (2, 9, None), (4, 11, None)
    assert [tuple(r.values()) for r in filled.rows("t")] == expected


def test_a_source_query_may_name_tables_of_the_catalog(filled: Place) -> None:
    query = "SELECT other.id + 10 AS id, t.k, t.city FROM test.db.other, test.db.t WHERE other.id = t.id"
    filled.run("append", "t", source=Source(format="sql", query=query))
    assert ids(filled) == [1, 2, 3, 4, 5, 6, 11, 14]


def test_a_dot_in_a_name_is_none_between_names(session: SparkSession, tmp_path: Path) -> None:
    config = CatalogConfig(name="test", type="filesystem", properties={"warehouse": str(tmp_path / "warehouse")})
    place = Place(session, tmp_path, config, load_catalog(config))
    for namespace in (("db", "x"), ("db.x",)):
        place.catalog.create_namespace(namespace)
        place.catalog.create_table((*namespace, "t"), SCHEMA)
    place.fill("x.t", arrow(ROWS))
    queries = ("SELECT * FROM test.`db.x`.t", "SELECT b.* FROM test.db.x.t a JOIN test.`db.x`.t b")
    for query in queries:
        assert place.run("append", "x.t", source=Source(format="sql", query=query)).status == "nothing-to-do"


@pytest.mark.parametrize(
    ("where", "error", "says"),
    [
        ("id IN (SELECT id FROM test.db.missing)", NoSuchTableError, "missing"),
        ("id IN (SELECT id FROM nowhere.db.t)", WhereError, "nowhere"),
        ("id IN (SELECT nope FROM test.db.other)", WhereError, "nope"),
        ("id IN (SELECT id, k FROM test.db.other)", WhereError, "IN"),
        ("id IN (SELECT id FROM test.db.other WHERE rand() > 0.5)", WhereError, "not deterministic"),
        ("id = (SELECT id FROM test.db.other)", DataError, "SCALAR_SUBQUERY_TOO_MANY_ROWS"),
        ("id IN (SELECT id FROM test.db.other VERSION AS OF 1)", UnsupportedError, "format table"),
        ("id IN (SELECT id FROM parquet.`{folder}/no-such-file`)", DataError, "no such path"),
        ("id IN (SELECT id FROM parquet.`{location}/data`)", DataError, "inside the table's own folder"),
    ],
)
def test_a_wrong_subquery_is_one_line_and_changes_nothing(filled: Place, where: str, error: type, says: str) -> None:
    before = filled.files_on_disk("t")
    with pytest.raises(error, match=says) as caught:
        filled.run("delete", "t", where=where.format(folder=filled.folder, location=filled.table("t").location))
    assert "\n" not in str(caught.value)
    assert filled.files_on_disk("t") == before


MERGES: dict[str, dict[str, Any]] = {
    "ON": {"on": "target.id = source.id AND EXISTS (SELECT 1)"},
    "WHEN clause 1": {"condition": "target.id IN (SELECT 1)"},
}


@pytest.mark.parametrize("where", MERGES)
def test_a_subquery_in_a_merge_s_conditions_is_refused_as_spark_refuses_it(filled: Place, where: str) -> None:
    parts = {"on": "target.id = source.id"} | MERGES[where]
    on = parts.pop("on")
    clauses = [MergeClause(when="matched", action="update", assignments={"k": "1"}, **parts)]
    with pytest.raises(WhereError, match=f"a subquery in {where}"):
        filled.merge("t", filled.parquet(arrow(OTHER)), on, clauses, "merge-on-read")


def test_a_merge_s_assignments_may_have_subqueries(filled: Place, mode: str) -> None:
    clauses = [
        MergeClause(when="matched", action="update", assignments={"k": "(SELECT max(k) FROM target) + source.id"}),
        MergeClause(
            when="not-matched", action="insert", assignments={"id": "source.id", "k": "(SELECT min(id) FROM test.db.other)"}
        ),
    ]
    source = Source(format="sql", query="SELECT * FROM src", views={"src": f"{filled.folder}/late.parquet"})
    filled.merge("t", source, "target.id = source.id", clauses, mode)
    expected = [(1, 8, "Oslo"), *ROWS[1:3], (4, 11, None), *ROWS[4:], (9, 1, None)]
    assert [tuple(r.values()) for r in filled.rows("t")] == expected


def test_an_update_may_assign_what_differs_from_row_to_row(filled: Place) -> None:
    filled.run("update", "t", change=RowChange(set={"city": "uuid()"}))
    assert len({r["city"] for r in filled.rows("t")}) == len(ROWS)


MEANWHILE = {
    "reads the target": ("id > (SELECT min(o.id) FROM target o WHERE o.k = target.k) AND k = 1", 2, [1, 2, 3, 4, 6]),
    "reads another table": ("id IN (SELECT id FROM test.db.other) AND k = 1", 1, [0, 2, 3, 4, 5, 6]),
}


@pytest.mark.parametrize("name", MEANWHILE)
def test_rows_that_come_meanwhile_are_a_conflict_where_the_subquery_reads_the_table(filled: Place, mode: Any, name: str) -> None:
    where, evaluations, left = MEANWHILE[name]
    added = 0 if name == "reads another table" else -1
    others = [lambda: filled.append("t", arrow([(added, 2, None)]))]
    spec = JobSpec(job="delete", table="test.db.t", catalog=filled.config, where=where, change=RowChange(mode=mode))
    report = filled.run_on(Meddles(filled.catalog, *others), spec)
    assert report.metrics["evaluations-count"] == evaluations
    assert ids(filled) == sorted({*left, added})


NAMED = [
    "SELECT a AS id, b AS k, c AS city FROM test.db.other AS x(a, b, c)",
    "SELECT x.a AS id, x.b AS k, x.c AS city FROM `test`.db.other x(a, b, c)",
    "SELECT x.* FROM test.db.other TABLESAMPLE (10 ROWS) AS x(id, k, city)",
    "SELECT other.* FROM test.db.other TABLESAMPLE (10 ROWS)",
    "SELECT x.* FROM (test.db.other) AS x(id, k, city)",
    "SELECT x.* FROM test.db.other AS x",
    "TABLE /* all of it */ test.db.other",
    "FROM test.db.other |> WHERE other.id > 0",
    "SELECT o.* FROM test.db.other o JOIN (TABLE test.db.other) p USING (id)",
    "SELECT /*+ BROADCAST(other) */ other.* FROM test.db.t RIGHT JOIN test.db.other ON t.id = other.id",
]


@pytest.mark.parametrize("query", NAMED)
def test_a_table_of_the_catalog_may_stand_wherever_a_table_may(filled: Place, query: str) -> None:
    filled.create("out", SCHEMA)
    filled.run("append", "out", source=Source(format="sql", query=query))
    assert {r["id"]: (r["k"], r["city"]) for r in filled.rows("out")} == {r[0]: r[1:] for r in OTHER}


def test_a_table_of_the_catalog_may_be_the_argument_of_a_table_function(filled: Place) -> None:
    class Twice:
        def eval(self, row: Any) -> Iterator[tuple[int, int | None, str | None]]:
            yield row["id"] * 2, row["k"], row["city"]

    filled.session.udtf.register("twice", udtf(Twice, returnType="id bigint, k bigint, city string"))  # type: ignore[call-overload]
    filled.create("out", SCHEMA)
    for argument in ("TABLE(test.db.other)", "TABLE ( test.db.other ) PARTITION BY id"):
        filled.run("overwrite", "out", source=Source(format="sql", query=f"SELECT * FROM twice({argument})"))
        assert [r["id"] for r in filled.rows("out")] == [2, 8, 18]
    filled.session.sql("DROP TEMPORARY FUNCTION twice")


def test_an_alias_in_a_subquery_may_name_columns(filled: Place, mode: str) -> None:
    where = "id IN (SELECT a FROM test.db.other AS x(a, b, c))"
    filled.run("delete", "t", where=where, change=RowChange(mode=mode))  # type: ignore[arg-type]
    assert ids(filled) == [2, 3, 5, 6]


@pytest.mark.parametrize("name", ["twin", "test"])
def test_a_subquery_that_reads_the_changed_table_by_another_catalog_reads_it_all_the_same(
    session: SparkSession, tmp_path: Path, name: str
) -> None:
    one, twin = (
        CatalogConfig(name=n, type="filesystem", properties={"warehouse": str(tmp_path / "warehouse")}) for n in ("test", name)
    )
    place = Place(session, tmp_path, one, load_catalog(one))
    place.catalog.create_namespace(("db",))
    for table, rows in (("t", ROWS), ("other", OTHER)):
        place.create(table, SCHEMA)
        place.append(table, arrow(rows))
    sets = {"k": f"(SELECT max(k) FROM {name}.db.t)"}
    change = RowChange(on="target.id = source.id", clauses=[MergeClause(when="matched", action="update", assignments=sets)])
    source = Source(format="table", table=f"{name}.db.other", catalog=twin)
    others = [lambda: place.run("update", "t", where="id = 6", change=RowChange(set={"k": "1000"}))]
    spec = JobSpec(
        job="merge", table="test.db.t", catalog=one, source=source, change=change, options={"isolation-level": "snapshot"}
    )
    report = place.run_on(Meddles(place.catalog, *others), spec)
    assert report.metrics["evaluations-count"] == 2
    assert [r["k"] for r in place.rows("t") if r["id"] in (1, 4)] == [1000, 1000]


def test_an_overwrite_s_filter_takes_no_subquery(filled: Place) -> None:
    source = Source(format="sql", query="SELECT 1L AS id, 1L AS k, 'x' AS city")
    with pytest.raises(WhereError, match="a subquery"):
        filled.run("overwrite", "t", where="id IN (SELECT id FROM test.db.other)", source=source)
