"""How planning handles a condition that names the table it changes."""

from __future__ import annotations

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.errors import OptionError, UnsupportedError, WhereError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, STRING, NestedField, StructType
from spark_jobs.jobs.conditions import pruning_filter
from tests.spark.conftest import Place

SCHEMA = Schema.of(
    NestedField(1, "city", STRING),
    NestedField(2, "k", INT),
    NestedField(3, "target", StructType((NestedField(4, "k", INT), NestedField(5, "own", INT)))),
)
CASES = {
    "target.city = 'Oslo'": "city = 'Oslo'",
    "TARGET.City LIKE 'O%' AND NOT (target.k IN (1, NULL) OR k IS NULL)": "City LIKE 'O%' AND NOT (k IN (1, NULL) OR k IS NULL)",
    "system.bucket(4, target.k) = 1": "system.bucket(4, k) = 1",
    "target.own > 1": "target.own > 1",
    "target.target.k = 1": "target.k = 1",
    "other.k = 1": "other.k = 1",
}


@pytest.mark.parametrize(("text", "plain"), CASES.items())
def test_the_table_may_be_called_target(text: str, plain: str) -> None:
    assert pruning_filter(text, SCHEMA) == parse_where(plain)


def test_columns_of_what_is_not_understood_are_found() -> None:
    assert pruning_filter("upper(target.city) = 'X'", SCHEMA).columns == ("city",)  # type: ignore[attr-defined]


@pytest.mark.spark
@pytest.mark.parametrize("where", ["target.k = 1", "target.k % 2 = 1"], ids=["understood", "Spark's alone"])
def test_delete_and_update_may_call_the_table_target(place: Place, where: str) -> None:
    place.create("t", Schema.of(NestedField(1, "city", STRING), NestedField(2, "k", INT)))
    place.run("append", "t", source=Source(format="sql", query="SELECT 'a' AS city, 1 AS k UNION ALL SELECT 'b', 2"))
    place.run("update", "t", where=where, change=RowChange(set={"city": "upper(target.city)"}))
    assert place.rows("t") == [{"city": "A", "k": 1}, {"city": "b", "k": 2}]
    place.run("delete", "t", where=where)
    assert place.rows("t") == [{"city": "b", "k": 2}]


@pytest.mark.spark
@pytest.mark.parametrize(
    "value",
    ["explode(array(1, 2))", "1 + row_number() OVER (ORDER BY k)", "sum(k)", "CAST(max(k) OVER () AS INT)", "posexplode(array(1))"],
)
@pytest.mark.parametrize("job", ["update", "merge"])
def test_a_value_that_is_not_of_one_row_alone_is_refused(place: Place, job: str, value: str) -> None:
    place.create("t", Schema.of(NestedField(1, "city", STRING), NestedField(2, "k", INT)))
    rows = Source(format="sql", query="SELECT 'a' AS city, 1 AS k UNION ALL SELECT 'b', 2")
    place.run("append", "t", source=rows)
    files, before = place.files_on_disk("t"), place.rows("t")
    clauses = [MergeClause(when="matched", action="update", assignments={"k": value.replace("k)", "target.k)")})]
    change = RowChange(set={"k": value}) if job == "update" else RowChange(on="target.city = source.city", clauses=clauses)
    with pytest.raises(WhereError, match=r"SET k .* not allowed here|SET k .*GENERATOR|SET k .*AGGREGATE|SET k .*GROUP"):
        place.run(job, "t", source=rows if job == "merge" else None, change=change)
    assert (place.rows("t"), place.files_on_disk("t")) == (before, files)


@pytest.mark.spark
def test_a_subquery_in_a_value_may_aggregate(place: Place) -> None:
    place.create("t", Schema.of(NestedField(1, "city", STRING), NestedField(2, "k", INT)))
    place.run("append", "t", source=Source(format="sql", query="SELECT 'a' AS city, 1 AS k UNION ALL SELECT 'b', 2"))
    place.run("update", "t", change=RowChange(set={"k": "(SELECT max(k) + CAST(count(*) AS INT) FROM target) + size(array(1, k))"}))
    assert [r["k"] for r in place.rows("t")] == [6, 6]


@pytest.mark.spark
@pytest.mark.parametrize(
    "text",
    [
        "CREATE VIEW v AS SELECT 1",
        "INSERT OVERWRITE DIRECTORY '{}' USING csv SELECT 1",
        "WITH a AS (SELECT 1) INSERT INTO x SELECT * FROM a",
        "FROM VALUES (1) INSERT OVERWRITE DIRECTORY '{0}' USING csv SELECT * INSERT OVERWRITE DIRECTORY '{0}2' USING csv SELECT *",
        "WITH a AS (SELECT 1) FROM a INSERT OVERWRITE DIRECTORY '{0}' USING csv SELECT * INSERT INTO x SELECT *",
        """EXECUTE IMMEDIATE "INSERT OVERWRITE DIRECTORY '{0}' USING csv SELECT 1" """,
        "EXECUTE IMMEDIATE 'SELECT 1'",
        "BEGIN SELECT 1; INSERT OVERWRITE DIRECTORY '{0}' USING csv SELECT 1; END",
    ],
)
def test_a_source_query_is_a_query(place: Place, text: str) -> None:
    place.create("t", Schema.of(NestedField(1, "city", STRING)))
    with pytest.raises(OptionError, match="source query is not a query, but"):
        place.run("append", "t", source=Source(format="sql", query=text.format(place.folder / "out")))
    assert not (place.folder / "out").exists()


@pytest.mark.spark
def test_a_relation_whose_name_is_computed_is_refused(place: Place) -> None:
    """It could be a file in the table's own folders, which nothing else would see."""
    place.create("t", Schema.of(NestedField(1, "city", STRING)))
    place.fill("t", pa.table({"city": ["a"]}))
    data = f"{place.table('t').location.removeprefix('file://')}/data"
    for query in (
        f"SELECT * FROM IDENTIFIER('parquet.`{data}`')",
        f"SELECT * FROM IDENTIFIER('parquet.' || '`{data}`')",
        f"WITH a AS (SELECT * FROM IDENTIFIER(concat('parquet.', '`{data}`'))) SELECT * FROM a",
        f"SELECT (SELECT max(city) FROM IDENTIFIER(concat('parquet.', '`{data}`'))) AS city",
    ):
        with pytest.raises((UnsupportedError, OptionError), match=r"IDENTIFIER|own"):
            place.run("append", "t", source=Source(format="sql", query=query))
    where = f"city = (SELECT max(city) FROM IDENTIFIER(concat('parquet.', '`{data}`')))"
    with pytest.raises(UnsupportedError, match="IDENTIFIER"):
        place.run("delete", "t", where=where)
    assert len(place.rows("t")) == 1


@pytest.mark.spark
def test_a_name_with_a_backtick_is_found_in_a_query(place: Place) -> None:
    place.create("a`b", Schema.of(NestedField(1, "city", STRING)))
    place.create("t", Schema.of(NestedField(1, "city", STRING)))
    place.fill("t", pa.table({"city": ["x"]}))
    place.run("append", "a`b", source=Source(format="sql", query="SELECT city FROM test.db.t"))
    place.run("append", "t", source=Source(format="sql", query="SELECT `a``b`.city FROM test.db.`a``b`"))
    assert len(place.rows("t")) == 2


@pytest.mark.spark
def test_views_whose_names_differ_only_in_case_are_refused(place: Place) -> None:
    place.create("t", Schema.of(NestedField(1, "city", STRING)))
    one = place.parquet(pa.table({"city": ["one"]}), "one.parquet").paths[0]
    views = {"orders": one, "Orders": place.parquet(pa.table({"city": ["two"]}), "two.parquet").paths[0]}
    with pytest.raises(OptionError, match="'orders' and 'Orders' are one name in Spark SQL"):
        place.run("append", "t", source=Source(format="sql", query="SELECT * FROM orders", views=views))
