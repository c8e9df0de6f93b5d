"""Spark jobs can still write to a v1 table whose partition field is void because its column was dropped (PART-08, PART-12)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSpec
from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "kind", STRING), NestedField(3, "region", STRING))
BY_REGION = PartitionSpec(0, (PartitionField((3,), 1000, IDENTITY, "region"),))
CLAUSES = (MergeClause(when="matched", action="delete"), MergeClause(when="not-matched", action="insert"))
UPDATE = RowChange(mode="copy-on-write", set={"kind": "upper(kind)"})


def of_query(*ids: int) -> Source:
    return Source(format="sql", query=" UNION ALL ".join(f"SELECT {i}L AS id, 'k' AS kind" for i in ids))


WRITES: dict[str, tuple[Callable[[Place], Any], set[int]]] = {
    "append of files": (lambda p: p.append("t", pa.table({"id": [4], "kind": ["k"]})), {1, 2, 3, 4}),
    "append of a query": (lambda p: p.run("append", "t", source=of_query(4)), {1, 2, 3, 4}),
    "overwrite": (lambda p: p.run("overwrite", "t", where="id > 0", source=of_query(7)), {7}),
    "delete": (lambda p: p.run("delete", "t", where="id + 0 = 2", change=RowChange(mode="copy-on-write")), {1, 3}),
    "update": (lambda p: p.run("update", "t", where="id + 0 = 2", change=UPDATE), {1, 2, 3}),
    "merge": (lambda p: p.merge("t", of_query(3, 9), "target.id = source.id", CLAUSES, "copy-on-write"), {1, 2, 9}),
}


def test_every_job_goes_on_after_a_void_fields_column_was_dropped(place: Place) -> None:
    for number, (write, (do, wanted)) in enumerate(WRITES.items()):
        place.catalog.drop_table(("db", "t")) if number else None
        place.create("t", SCHEMA, BY_REGION, **{"format__version": "1"})
        place.fill("t", pa.table({"id": [1, 2, 3], "kind": ["a", "b", "c"], "region": ["eu", "eu", None]}))
        spec = SpecEvolution.of_table(place.table("t").metadata).remove_field("region").apply()
        commit(place.catalog, place.table("t"), UpdateSpec(spec=spec))
        schema = SchemaEvolution.of_table(place.table("t").metadata).drop_column("region").apply()
        commit(place.catalog, place.table("t"), UpdateSchema(schema=schema))
        do(place)
        assert {r["id"] for r in place.rows("t")} == wanted, write
