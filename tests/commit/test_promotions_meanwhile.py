"""A promotion that was computed before another commit added a partition field of its column: it is refused if it would change that
field's values, whichever of the two swaps first."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec
from iceberg_ops.commit.operations.transaction import Transaction
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import DAY, IDENTITY, Transform, bucket, truncate
from iceberg_ops.spec.types import DATE, INT, LONG, TIMESTAMP, TIMESTAMP_NS, IcebergType, NestedField, StructType
from iceberg_ops.table.table import Table
from tests.builders import IDENTIFIER, make_catalog
from tests.catalog.wrappers import Meddles

MOVED = [
    (3, DATE, TIMESTAMP, bucket(4)),
    (3, DATE, TIMESTAMP, IDENTITY),
    (3, DATE, TIMESTAMP_NS, IDENTITY),
    (2, INT, LONG, truncate(10)),
    (1, INT, LONG, truncate(10)),
]
KEPT = [(3, DATE, TIMESTAMP, DAY), (2, INT, LONG, truncate(16)), (2, INT, LONG, bucket(4)), (2, INT, LONG, IDENTITY)]


def table_of(version: int, type_: IcebergType) -> tuple[Any, Table]:
    catalog = make_catalog()
    inner = StructType((NestedField(3, "k", type_),))
    schema = Schema.of(NestedField(1, "k", type_), NestedField(2, "s", inner))
    return catalog, catalog.create_table(IDENTIFIER, schema, properties={"format-version": str(version)})


def promotion(table: Table, column: str, new: IcebergType) -> UpdateSchema:
    return UpdateSchema(schema=SchemaEvolution.of_table(table.metadata).update_type(column, new).apply())


def partitioned_by(table: Table, column: str, transform: Transform) -> UpdateSpec:
    return UpdateSpec(spec=SpecEvolution.of_table(table.metadata).add_field(column, transform).apply())


@pytest.mark.parametrize("column", ["k", "s.k"])
@pytest.mark.parametrize(("version", "old", "new", "transform"), MOVED, ids=str)
@pytest.mark.parametrize("when", ["before it", "at its swap"])
def test_a_promotion_that_would_move_values_of_a_new_partition_field_is_refused(
    when: str, version: int, old: IcebergType, new: IcebergType, transform: Transform, column: str
) -> None:
    catalog, table = table_of(version, old)
    asked, other = promotion(table, column, new), partitioned_by(table, column, transform)
    if when == "before it":
        commit(catalog, table, other)
    through = Meddles(catalog, *([lambda: commit(catalog, table, other)] if when == "at its swap" else []))
    with pytest.raises(ValidationError, match=f"column 'k' cannot be changed from {old} to {new}"):
        commit(through, table, asked, sleep=lambda _: None)
    assert catalog.load_table(IDENTIFIER).schema == table.schema


@pytest.mark.parametrize(("version", "old", "new", "transform"), KEPT, ids=str)
def test_one_that_keeps_them_is_committed(version: int, old: IcebergType, new: IcebergType, transform: Transform) -> None:
    catalog, table = table_of(version, old)
    other = partitioned_by(table, "k", transform)
    commit(Meddles(catalog, lambda: commit(catalog, table, other)), table, promotion(table, "k", new), sleep=lambda _: None)
    assert catalog.load_table(IDENTIFIER).schema.fields[0].type == new


def test_a_promotion_and_a_partition_field_after_it_are_one_transaction() -> None:
    catalog, table = table_of(2, INT)
    both = Transaction(operations=(promotion(table, "k", LONG), partitioned_by(table, "k", truncate(10))))
    now = commit(catalog, table, both).table
    assert (now.schema.fields[0].type, [f.transform for f in now.spec.fields]) == (LONG, [truncate(10)])
