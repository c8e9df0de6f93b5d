"""NaN and infinities that a statement assigns to a decimal column are stored as NULL, as Spark SQL does."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DOUBLE, LONG, DecimalType, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "amount", DOUBLE), NestedField(3, "price", DecimalType(9, 2)))
AMOUNTS = [float("nan"), float("inf"), -float("inf"), None, 1.5]


@pytest.mark.parametrize("job", ["update", "merge"])
def test_what_is_no_number_is_no_price(place: Place, job: str) -> None:
    place.create("t", SCHEMA)
    place.fill("t", pa.table({"id": range(5), "amount": pa.array(AMOUNTS, pa.float64())}))
    if job == "update":
        place.run("update", "t", change=RowChange(mode="merge-on-read", set={"price": "amount"}))
    else:
        clause = MergeClause(when="not-matched-by-source", action="update", assignments={"price": "target.amount"})
        place.merge("t", place.parquet(pa.table({"id": [9]})), "target.id = source.id", [clause], "copy-on-write")
    prices = {row["id"]: row["price"] for row in place.rows("t")}
    said = place.session.sql("SELECT CAST(double('NaN') AS DECIMAL(9, 2)), CAST(double('-Infinity') AS DECIMAL(9, 2))").first()
    assert said is not None
    assert (prices[0], prices[2]) == tuple(said)
    assert prices == {0: None, 1: None, 2: None, 3: None, 4: Decimal("1.50")}
