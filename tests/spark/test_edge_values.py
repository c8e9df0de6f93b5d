"""Values at the ends of their types, through the jobs that compute with them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import truncate
from iceberg_ops.spec.types import INT, LONG, NestedField, StructType
from tests.spark.conftest import Place

SCHEMA = Schema.of(NestedField(1, "i", INT), NestedField(2, "g", LONG))
TENS = PartitionSpec(1, (PartitionField((1,), 1000, truncate(10), "i_tens"), PartitionField((2,), 1001, truncate(10), "g_tens")))
BY_TENS = SortOrder(1, (SortField((2,), truncate(10), SortDirection.ASC, NullOrder.NULLS_LAST),))


@pytest.mark.parametrize("mode", ["none", "hash", "range"])
def test_the_least_numbers_can_be_truncated(place: Place, mode: str) -> None:
    place.create("least", SCHEMA, TENS, BY_TENS, **{"write.distribution__mode": mode})
    rows = [{"i": i, "g": g} for i, g in ((-(2**31), -(2**63)), (-1, -1), (0, None), (2**31 - 1, 2**63 - 1))]
    place.append("least", pa.Table.from_pylist(rows, pa.schema({"i": pa.int32(), "g": pa.int64()})))
    assert sorted(place.rows("least"), key=lambda r: r["i"]) == rows


@pytest.mark.parametrize("tasks", [{}, {"write-tasks": "1"}], ids=["read by Arrow", "read by Spark"])
def test_a_struct_that_is_not_given_may_have_required_fields(place: Place, tasks: dict[str, str]) -> None:
    inner = StructType(
        (
            NestedField(4, "a", INT, required=True),
            NestedField(5, "b", StructType((NestedField(6, "c", LONG, required=True),)), True),
        )
    )
    place.create("struct", Schema.of(NestedField(1, "i", INT), NestedField(2, "s", inner)))
    place.append("struct", pa.table({"i": pa.array([1, 2], pa.int32())}), options=tasks)
    assert place.rows("struct") == [{"i": 1, "s": None}, {"i": 2, "s": None}]
