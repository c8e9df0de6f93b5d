"""Rules of types, hashes and versions that no other test names: TYPE-36, TYPE-38, HASH-14, SCHEMA-05, PART-02,
PART-07, META-39."""

from __future__ import annotations

import pytest

from iceberg_ops.errors import SchemaError, UnsupportedError
from iceberg_ops.spec.metadata_builder import apply_updates
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transform_functions import apply, bucket_hash
from iceberg_ops.spec.transforms import IDENTITY, bucket
from iceberg_ops.spec.types import INT, LONG, STRING, UNKNOWN, VARIANT, NestedField
from iceberg_ops.spec.validity import check_schema
from tests.spec.test_metadata_builder import table


def test_a_variant_partitions_nothing_identifies_nothing_and_has_no_hash() -> None:
    """TYPE-38, HASH-14"""
    schema = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "v", VARIANT, True))
    with pytest.raises(SchemaError, match="must be a primitive"):
        SchemaEvolution(schema, 2, format_version=3).set_identifier_fields(["v"]).apply()
    for transform in (IDENTITY, bucket(4)):
        assert not transform.can_transform(VARIANT)
    with pytest.raises(UnsupportedError, match="a hash of type variant"):
        bucket_hash(VARIANT, b"")


def test_the_hash_of_an_unknown_column_is_null() -> None:
    """HASH-14"""
    assert apply(bucket(4), UNKNOWN, None) is None


def test_unknown_columns_are_optional_and_default_to_null() -> None:
    """TYPE-36"""
    check_schema(Schema.of(NestedField(1, "u", UNKNOWN)), 3)
    for field in (NestedField(1, "u", UNKNOWN, True), NestedField(1, "u", UNKNOWN, False, None, 1, 1)):
        with pytest.raises(SchemaError):
            check_schema(Schema.of(field), 3)


def test_a_dropped_column_comes_back_only_with_the_schema_it_was_in() -> None:
    """SCHEMA-05: under its name it is another column, with another id."""
    schema = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "name", STRING))
    without = SchemaEvolution(schema, 2).drop_column("name").apply()
    again = SchemaEvolution(without, 2).add_column("name", STRING).apply()
    assert [f.field_id for f in again.fields] == [1, 3]


def test_a_partition_field_is_source_id_transform_and_name() -> None:
    """PART-02, PART-07: a change makes a new spec and keeps the old one."""
    base = table(spec=PartitionSpec(0, (PartitionField((1,), 1000, bucket(4), "b"),)))
    updates = SpecEvolution.of_table(base).add_field("name", IDENTITY, "by_name").updates()
    found = apply_updates(base, updates, now_ms=1)
    field = found.spec.fields[1]
    assert (field.source_ids, field.field_id, str(field.transform), field.name) == ((2,), 1001, "identity", "by_name")
    assert (found.default_spec_id, [s.spec_id for s in found.partition_specs]) == (1, [0, 1])
    assert found.specs_by_id[0] == base.spec


def test_ids_need_not_be_dense_or_ordered() -> None:
    """META-39, TYPE-30"""
    schema = Schema.of(NestedField(900, "z", INT), NestedField(7, "a", INT), schema_id=44)
    check_schema(schema, 2)
    assert [f.field_id for f in schema.fields] == [900, 7]
    with pytest.raises(SchemaError):
        check_schema(Schema.of(NestedField(7, "z", INT), NestedField(7, "a", INT)), 2)
