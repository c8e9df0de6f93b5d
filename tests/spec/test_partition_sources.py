"""The source column of a partition field of any spec keeps a type that the field can take: otherwise Iceberg Java does not load the
table. ``tests/interop/test_java_loads_evolved_tables.py`` tests the same tables with Iceberg Java."""

from __future__ import annotations

from dataclasses import replace

import pytest

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.metadata_builder import apply_updates, new_table_metadata
from iceberg_ops.spec.partition_sources import check_sources
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.sorting import UNSORTED
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import IDENTITY, VOID, Transform, transform_from_text
from iceberg_ops.spec.types import (
    DATE,
    DOUBLE,
    INT,
    LONG,
    TIMESTAMP,
    UNKNOWN,
    VARIANT,
    GeographyType,
    GeometryType,
    IcebergType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from iceberg_ops.spec.updates import AddSchema, SetCurrentSchema

SCHEMA = Schema.of(
    NestedField(1, "k", LONG), NestedField(2, "u", UNKNOWN), NestedField(3, "s", StructType((NestedField(4, "u", UNKNOWN),)))
)
NESTED = (StructType((NestedField(9, "a", INT),)), list_of(9, INT), map_of(9, INT, 10, INT))
OF_NO_PARTITION = (VARIANT, GeometryType(), GeographyType(), *NESTED)


def formerly_by(source: int, transform: Transform = IDENTITY, schema: Schema = SCHEMA) -> TableMetadata:
    """A v3 table that is not partitioned any more."""
    made = new_table_metadata(schema, UNPARTITIONED, UNSORTED, "/t", {"format-version": "3"}, now_ms=1)
    former = PartitionSpec(1, (PartitionField((source,), 1000, transform, "p"),))
    return replace(made, partition_specs=(*made.partition_specs, former), last_partition_id=1000)


@pytest.mark.parametrize("type_", OF_NO_PARTITION, ids=str)
@pytest.mark.parametrize(("source", "name"), [(2, "u"), (4, "s.u")])
def test_a_column_of_a_former_spec_becomes_nothing_that_its_field_cannot_take(source: int, name: str, type_: IcebergType) -> None:
    metadata = formerly_by(source)
    with pytest.raises(SchemaError, match=rf"column '{name}' cannot be of type .*: partition field 'p' \(identity\) of spec 1"):
        SchemaEvolution.of_table(metadata).update_type(name, type_).apply()
    other = SchemaEvolution(SCHEMA, 4, format_version=3).update_type(name, type_).apply()
    with pytest.raises(SchemaError, match="Iceberg Java could not load the table"):
        apply_updates(metadata, [AddSchema(other), SetCurrentSchema(-1)], now_ms=2)


@pytest.mark.parametrize("type_", [INT, DOUBLE, TIMESTAMP, DATE], ids=str)
def test_it_becomes_what_its_field_can_take(type_: IcebergType) -> None:
    metadata = formerly_by(2)
    made = apply_updates(metadata, SchemaEvolution.of_table(metadata).update_type("u", type_).updates(), now_ms=2)
    assert made.schema.field(2).type == type_


@pytest.mark.parametrize("transform", [VOID, transform_from_text("zorder")], ids=str)
def test_void_fields_and_unknown_transforms_stand_in_no_way(transform: Transform) -> None:
    metadata = formerly_by(2, transform)
    made = apply_updates(metadata, SchemaEvolution.of_table(metadata).update_type("u", VARIANT).updates(), now_ms=2)
    assert made.schema.field(2).type == VARIANT


def test_a_table_that_was_amiss_before_stays_changeable() -> None:
    amiss = formerly_by(2, schema=Schema.of(NestedField(1, "k", LONG), NestedField(2, "u", VARIANT)))
    with pytest.raises(SchemaError):
        check_sources(amiss.schema, amiss.partition_specs)
    made = apply_updates(amiss, SchemaEvolution.of_table(amiss).add_column("more", INT).updates(), now_ms=2)
    assert [f.name for f in made.schema.fields] == ["k", "u", "more"]
    dropped = apply_updates(amiss, SchemaEvolution.of_table(amiss).drop_column("u").updates(), now_ms=2)
    check_sources(dropped.schema, dropped.partition_specs)
