"""How the metadata builder handles schemas, partition specs and sort orders: ids assigned, reused and refused."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from iceberg_ops.errors import SchemaError, UnsupportedError
from iceberg_ops.spec import updates as u
from iceberg_ops.spec.metadata_builder import apply_updates
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import DAY, HOUR, IDENTITY, VOID, Transform, bucket, truncate
from iceberg_ops.spec.types import DOUBLE, INT, TIMESTAMP_NS, NestedField, list_of
from tests.spec.test_metadata_builder import SCHEMA, history, table


def test_an_equal_schema_is_found_again() -> None:
    """SCHEMA-01"""
    wide = Schema.of(*SCHEMA.fields, NestedField(4, "x", INT))
    found = apply_updates(table(), [u.AddSchema(wide), u.SetCurrentSchema(u.LAST_ADDED)], now_ms=1)
    assert (found.current_schema_id, found.last_column_id) == (1, 4)
    back = apply_updates(found, [u.AddSchema(replace(SCHEMA, schema_id=77)), u.SetCurrentSchema(u.LAST_ADDED)], now_ms=1)
    assert (back.current_schema_id, len(back.schemas), back.last_column_id) == (0, 2, 4)


def test_the_last_column_id_never_falls() -> None:
    """META-38 SCHEMA-03"""
    narrow = Schema.of(SCHEMA.fields[0])
    assert apply_updates(table(), [u.AddSchema(narrow), u.SetCurrentSchema(-1)], now_ms=1).last_column_id == 3


def test_an_initial_default_never_changes() -> None:
    """DEFAULT-04"""
    base = table(3)
    for default in (0, 5):
        changed = Schema.of(replace(SCHEMA.fields[0], initial_default=default), *SCHEMA.fields[1:])
        with pytest.raises(SchemaError, match="initial-default cannot change"):
            apply_updates(base, [u.AddSchema(changed)], now_ms=1)
    write_default = Schema.of(replace(SCHEMA.fields[0], write_default=5), *SCHEMA.fields[1:])
    assert len(apply_updates(base, [u.AddSchema(write_default)], now_ms=1).schemas) == 2


def test_a_nan_default_that_is_there_freezes_nothing_and_a_new_one_is_refused() -> None:
    """DEFAULT-04 DEFAULT-10"""
    odd = NestedField(4, "x", DOUBLE, initial_default=math.nan, write_default=math.nan)
    base = replace(table(3), schemas=(Schema.of(*SCHEMA.fields, odd),), last_column_id=4)
    again = Schema.of(*SCHEMA.fields, replace(odd, initial_default=float("nan"), doc="odd"))
    assert len(apply_updates(base, [u.AddSchema(again)], now_ms=1).schemas) == 2
    with pytest.raises(SchemaError, match="initial-default nan has no form in JSON"):
        apply_updates(table(3), [u.AddSchema(Schema.of(*SCHEMA.fields, odd))], now_ms=1)


@pytest.mark.parametrize("version", [1, 2])
def test_a_v3_schema_is_refused_in_older_tables(version: int) -> None:
    """TYPE-41"""
    with pytest.raises(SchemaError, match="not supported until v3"):
        apply_updates(table(version), [u.AddSchema(Schema.of(NestedField(9, "n", TIMESTAMP_NS)))], now_ms=1)


def test_a_column_of_the_default_spec_can_not_be_dropped_but_an_old_specs_can() -> None:
    """PART-12 PART-05 SORT-07"""
    base = table(spec=PartitionSpec(0, (PartitionField((3,), 1000, DAY, "d"),)))
    drop = [u.AddSchema(Schema.of(*SCHEMA.fields[:2])), u.SetCurrentSchema(u.LAST_ADDED)]
    with pytest.raises(SchemaError, match="partition field 'd': its source column 3"):
        apply_updates(base, drop, now_ms=1)
    moved_on = apply_updates(base, [u.AddPartitionSpec(UNPARTITIONED), u.SetDefaultSpec(u.LAST_ADDED)], now_ms=1)
    found = apply_updates(moved_on, drop, now_ms=1)
    assert str(found.specs_by_id[0].partition_type(found.all_fields_by_id).fields[0].type) == "date"


def test_an_equivalent_spec_is_found_again_and_a_renamed_one_is_not() -> None:
    """PART-06 PART-07"""
    base = table(spec=PartitionSpec(0, (PartitionField((1,), 1000, bucket(4), "b"),)))
    same = PartitionSpec(9, (PartitionField((1,), 1007, bucket(4), "b"),))
    assert apply_updates(base, [u.AddPartitionSpec(same)], now_ms=1) is base
    renamed = PartitionSpec(9, (PartitionField((1,), 1000, bucket(4), "c"),))
    assert [s.spec_id for s in apply_updates(base, [u.AddPartitionSpec(renamed)], now_ms=1).partition_specs] == [0, 1]


def test_fields_without_an_id_get_an_equal_fields_or_the_next() -> None:
    """PART-03"""
    base = table(spec=PartitionSpec(0, (PartitionField((1,), 1000, bucket(4), "b"),)))
    spec = PartitionSpec(0, (PartitionField((3,), 0, DAY, "d"), PartitionField((1,), 0, bucket(4), "b2")))
    found = apply_updates(base, [u.AddPartitionSpec(spec), u.SetDefaultSpec(u.LAST_ADDED)], now_ms=1)
    assert [f.field_id for f in found.spec.fields] == [1001, 1000]
    assert found.last_partition_id == 1001


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ([(1, Transform("zorder"), "z")], UnsupportedError),
        ([(1, bucket(0), "z")], SchemaError),
        ([(99, IDENTITY, "z")], SchemaError),
        ([(3, HOUR, "z")], SchemaError),
        ([(3, truncate(4), "z")], SchemaError),
        ([(1, IDENTITY, "z"), (1, bucket(4), "z")], SchemaError),
        ([(1, IDENTITY, "")], SchemaError),
        ([(1, bucket(4), "name")], SchemaError),
        ([(1, IDENTITY, "name")], SchemaError),
        ([(5, IDENTITY, "z")], SchemaError),
        ([(4, IDENTITY, "z")], SchemaError),
    ],
)
def test_a_bad_spec_is_refused(fields: list[tuple[int, Transform, str]], error: type[Exception]) -> None:
    """GEN-09 PART-05 XFORM-07 XFORM-03"""
    wide = Schema.of(*SCHEMA.fields, NestedField(4, "l", list_of(5, INT)))
    base = apply_updates(table(), [u.AddSchema(wide), u.SetCurrentSchema(u.LAST_ADDED)], now_ms=1)
    spec = PartitionSpec(0, tuple(PartitionField((s,), 1000 + i, t, n) for i, (s, t, n) in enumerate(fields)))
    with pytest.raises(error):
        apply_updates(base, [u.AddPartitionSpec(spec)], now_ms=1)


def test_an_identity_or_void_field_may_share_its_columns_name_and_no_other() -> None:
    fields = (PartitionField((1,), 1000, IDENTITY, "id"), PartitionField((2,), 1001, VOID, "name"))
    assert apply_updates(table(), [u.AddPartitionSpec(PartitionSpec(0, fields))], now_ms=1).last_partition_id == 1001
    others = (fields[0], PartitionField((3,), 1001, VOID, "name"))
    with pytest.raises(SchemaError, match="only its own identity or void partition may share it"):
        apply_updates(table(), [u.AddPartitionSpec(PartitionSpec(0, others))], now_ms=1)


def test_sort_orders_are_numbered_from_one_and_found_again() -> None:
    """SORT-02 SORT-04"""
    order = SortOrder(0, (SortField((1,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST),))
    found = apply_updates(table(), [u.AddSortOrder(order), u.SetDefaultSortOrder(u.LAST_ADDED)], now_ms=1)
    assert found.default_sort_order_id == 1
    back = apply_updates(found, [u.AddSortOrder(UNSORTED), u.SetDefaultSortOrder(u.LAST_ADDED)], now_ms=1)
    assert (back.default_sort_order_id, len(back.sort_orders)) == (0, 2)
    again = apply_updates(back, [u.AddSortOrder(order), u.SetDefaultSortOrder(u.LAST_ADDED)], now_ms=1)
    assert (again.default_sort_order_id, len(again.sort_orders)) == (1, 2)


def test_a_snapshot_is_read_with_the_schema_it_recorded() -> None:
    """SCHEMA-14 SNAP-08"""
    base = history(1)
    wide = Schema.of(*SCHEMA.fields, NestedField(4, "x", INT))
    found = apply_updates(base, [u.AddSchema(wide), u.SetCurrentSchema(u.LAST_ADDED)], now_ms=1)
    snapshot = found.snapshots[0]
    assert (found.schema_of(snapshot).schema_id, found.schema.schema_id) == (0, 1)
    for unknown in (None, 77):
        assert found.schema_of(replace(snapshot, schema_id=unknown)) == found.schema


def test_ancestors_end_where_history_was_expired() -> None:
    """REFS-09 SNAP-02"""
    found = apply_updates(history(4), [u.RemoveSnapshots((2,))], now_ms=1)
    assert [s.snapshot_id for s in found.ancestors(found.current_snapshot_id)] == [4, 3]
    assert found.branch_head("main") == found.current_snapshot
    assert found.branch_head("nothing") is None


def test_a_table_that_was_amiss_before_still_takes_other_changes() -> None:
    """PART-12: reading more than one would write; a maintenance commit is not the time to refuse the table."""
    base = replace(table(), partition_specs=(PartitionSpec(0, (PartitionField((99,), 1000, IDENTITY, "gone"),)),))
    assert apply_updates(base, [u.SetProperties({"a": "b"})], now_ms=1).properties == {"a": "b"}
    with pytest.raises(SchemaError, match="source column 99"):
        apply_updates(base, [u.AddSchema(Schema.of(*SCHEMA.fields[:2])), u.SetCurrentSchema(u.LAST_ADDED)], now_ms=1)
