"""What planning makes of a condition that names the table it changes."""

from __future__ import annotations

import pytest

from iceberg_ops.config.job_spec import RowChange, Source
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
