"""Properties that follow a schema change."""

from __future__ import annotations

from iceberg_ops.commit.operations.schema_followers import schema_followers
from iceberg_ops.spec.metadata_builder import apply_updates, new_table_metadata
from iceberg_ops.spec.partitioning import UNPARTITIONED
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.sorting import UNSORTED
from iceberg_ops.spec.types import INT, LONG, NestedField, StructType

SCHEMA = Schema.of(NestedField(1, "a", INT), NestedField(2, "b", INT), NestedField(3, "s", StructType((NestedField(4, "x", INT),))))
METRICS, BLOOM = "write.metadata.metrics.column.", "write.parquet.bloom-filter-enabled.column."


def test_column_properties_follow_renames_and_go_with_dropped_columns() -> None:
    """NAMEMAP-06"""
    properties = {METRICS + "a": "full", METRICS + "b": "none", BLOOM + "s.x": "true", METRICS + "gone": "full", "other": "1"}
    base = new_table_metadata(SCHEMA, UNPARTITIONED, UNSORTED, "x", properties, now_ms=1)
    evolution = SchemaEvolution.of_table(base).rename_column("a", "c").drop_column("b").rename_column("s", "t")
    updates = (*schema_followers(base, evolution.apply()), *evolution.updates())
    found = apply_updates(base, updates, now_ms=2)
    assert found.properties == {METRICS + "c": "full", BLOOM + "t.x": "true", METRICS + "gone": "full", "other": "1"}


def test_two_columns_that_swap_names_swap_their_properties() -> None:
    base = new_table_metadata(SCHEMA, UNPARTITIONED, UNSORTED, "x", {METRICS + "a": "full", METRICS + "b": "none"}, now_ms=1)
    schema = SchemaEvolution.of_table(base).rename_column("a", "b").rename_column("b", "a").apply()
    assert apply_updates(base, schema_followers(base, schema), now_ms=2).properties == {
        METRICS + "a": "none",
        METRICS + "b": "full",
    }


def test_nothing_follows_where_no_name_changes() -> None:
    base = new_table_metadata(SCHEMA, UNPARTITIONED, UNSORTED, "x", {METRICS + "a": "full"}, now_ms=1)
    assert schema_followers(base, SchemaEvolution.of_table(base).add_column("z", INT).update_type("b", LONG).apply()) == ()


def test_a_promoted_column_keeps_its_property() -> None:
    base = new_table_metadata(SCHEMA, UNPARTITIONED, UNSORTED, "x", {METRICS + "a": "full"}, now_ms=1)
    assert schema_followers(base, SchemaEvolution.of_table(base).update_type("a", LONG).apply()) == ()
