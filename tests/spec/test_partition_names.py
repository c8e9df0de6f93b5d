"""A column with the name of a partition field that has another source: Iceberg Java does not load such a table.
``tests/interop/test_java_loads_evolved_tables.py`` tests each case with Iceberg Java."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.metadata_builder import apply_updates, new_table_metadata
from iceberg_ops.spec.partition_names import check_names, name_clashes
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.sorting import UNSORTED
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import IDENTITY, VOID, Transform, bucket
from iceberg_ops.spec.types import INT, LONG, STRING, NestedField, StructType, list_of, map_of
from iceberg_ops.spec.updates import AddSchema, SetCurrentSchema

SCHEMA = Schema.of(
    NestedField(1, "k", LONG),
    NestedField(2, "s", STRING),
    NestedField(3, "a", StructType((NestedField(4, "b", INT),))),
    NestedField(5, "l", list_of(6, StructType((NestedField(7, "b", INT),)))),
    NestedField(8, "m", map_of(9, STRING, 10, INT)),
)
GONE = 20
CASES: list[tuple[int, Transform, str, bool]] = [
    (1, bucket(4), "shard", False),
    (1, bucket(4), "s", True),
    (1, bucket(4), "S", False),
    (1, bucket(4), "a", True),
    (1, bucket(4), "a.b", True),
    (1, bucket(4), "l.element", True),
    (1, bucket(4), "l.b", True),
    (1, bucket(4), "l.element.b", True),
    (1, bucket(4), "m.key", True),
    (1, bucket(4), "b", False),
    (1, IDENTITY, "k", False),
    (1, IDENTITY, "s", True),
    (4, IDENTITY, "a.b", False),
    (1, bucket(4), "k", False),
    (1, VOID, "k", False),
    (1, VOID, "s", True),
    (GONE, VOID, "s", False),
]
"""Source column, transform and name of a partition field, and whether it clashes with a column."""


def metadata_of(version: int, schema: Schema = SCHEMA, *fields: PartitionField) -> TableMetadata:
    made = new_table_metadata(schema, UNPARTITIONED, UNSORTED, "/t", {"format-version": str(version)}, now_ms=1)
    specs = (*made.partition_specs, PartitionSpec(1, fields)) if fields else made.partition_specs
    return replace(made, schemas=(schema,), partition_specs=specs, last_partition_id=999 + len(fields))


@pytest.mark.parametrize(("source", "transform", "name", "clashes"), CASES, ids=str)
def test_a_name_clashes_where_it_finds_another_column_than_the_source(
    source: int, transform: Transform, name: str, clashes: bool
) -> None:
    spec = PartitionSpec(1, (PartitionField((source,), 1000, transform, name),))
    assert [c.name for c in name_clashes(SCHEMA, (UNPARTITIONED, spec))] == ([name] if clashes else [])
    if clashes:
        with pytest.raises(SchemaError, match=f"column '{name}': partition field '{name}' of spec 1 has this name"):
            check_names(SCHEMA, (spec,))
        check_names(SCHEMA, (spec,), name_clashes(SCHEMA, (spec,)))


SHARD = PartitionField((1,), 1000, bucket(4), "shard")
STEPS: dict[str, tuple[PartitionField, Callable[[SchemaEvolution], object]]] = {
    "add": (SHARD, lambda e: e.add_column("shard", INT)),
    "add inside a struct": (replace(SHARD, name="a.c"), lambda e: e.add_column("c", INT, parent="a")),
    "add a struct": (replace(SHARD, name="x.y"), lambda e: e.add_column("x", StructType((NestedField(0, "y", INT),)))),
    "rename": (SHARD, lambda e: e.rename_column("s", "shard")),
    "rename a struct": (replace(SHARD, name="x.b"), lambda e: e.rename_column("a", "x")),
    "swap": (PartitionField((1,), 1000, IDENTITY, "k"), lambda e: e.rename_column("k", "s").rename_column("s", "k")),
    "take in": (SHARD, lambda e: e.union_by_name(Schema.of(NestedField(1, "shard", INT)))),
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("version", [1, 2, 3])
def test_no_column_gets_the_name_of_a_partition_field_of_any_spec(version: int, step: str) -> None:
    field, change = STEPS[step]
    metadata = metadata_of(version, SCHEMA, field)
    evolution = SchemaEvolution.of_table(metadata)
    change(evolution)
    with pytest.raises(SchemaError, match="of spec 1 has this name and another source column"):
        evolution.apply()
    unchecked = SchemaEvolution(SCHEMA, metadata.last_column_id, format_version=version)
    change(unchecked)
    updates = (AddSchema(unchecked.apply()), SetCurrentSchema(-1))
    with pytest.raises(SchemaError, match="of spec 1 has this name and another source column"):
        apply_updates(metadata, updates, now_ms=2)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_partition_column_that_is_renamed_leaves_its_name_to_the_field(version: int) -> None:
    metadata = metadata_of(version, SCHEMA, PartitionField((2,), 1000, IDENTITY, "s"))
    renamed = apply_updates(metadata, SchemaEvolution.of_table(metadata).rename_column("s", "t").updates(), now_ms=2)
    with pytest.raises(SchemaError, match="column 's': partition field 's' of spec 1"):
        SchemaEvolution.of_table(renamed).add_column("s", STRING).apply()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_column_that_takes_the_place_of_a_dropped_one_may_have_its_name(version: int) -> None:
    """Iceberg Java 1.11 loads it; the partition field of the former spec keeps the dropped column as its source."""
    metadata = metadata_of(version, SCHEMA, PartitionField((2,), 1000, IDENTITY, "s"))
    evolution = SchemaEvolution.of_table(metadata).drop_column("s").add_column("s", STRING)
    assert apply_updates(metadata, evolution.updates(), now_ms=2).schema.field(11).name == "s"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_table_with_such_a_column_can_be_mended_and_changed(version: int) -> None:
    metadata = metadata_of(version, SCHEMA, replace(SHARD, name="s"))
    assert apply_updates(metadata, SchemaEvolution.of_table(metadata).add_column("z", INT).updates(), now_ms=2).schema.find("z")
    mended = apply_updates(metadata, SchemaEvolution.of_table(metadata).rename_column("s", "t").updates(), now_ms=2)
    assert name_clashes(mended.schema, mended.partition_specs) == ()


def test_an_older_schema_with_such_a_column_is_not_made_current_again() -> None:
    metadata = metadata_of(2)
    without = apply_updates(metadata, SchemaEvolution.of_table(metadata).drop_column("s").updates(), now_ms=2)
    spec = SpecEvolution.of_table(without).add_field("k", bucket(4), "s")
    partitioned = apply_updates(without, spec.updates(), now_ms=3)
    with pytest.raises(SchemaError, match="column 's': partition field 's' of spec 1"):
        apply_updates(partitioned, [SetCurrentSchema(0)], now_ms=4)


def test_a_void_field_takes_no_name_of_another_column() -> None:
    """v1 keeps a removed field as void: its name stays taken."""
    metadata = metadata_of(1)
    spec = PartitionSpec(1, (PartitionField((1,), 1000, VOID, "s"),))
    evolution = SpecEvolution(spec, metadata.schema, 1000, format_version=1)
    with pytest.raises(SchemaError, match="only its own identity or void partition may share it"):
        evolution.apply()
