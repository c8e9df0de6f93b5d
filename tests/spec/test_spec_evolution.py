"""Partition and sort evolution in v1 and later tables."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iceberg_ops.errors import SchemaError, UnsupportedError
from iceberg_ops.spec.metadata_builder import apply_updates, new_table_metadata
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sort_evolution import SortOrderBuilder
from iceberg_ops.spec.sorting import UNSORTED, NullOrder, SortDirection, SortField
from iceberg_ops.spec.spec_evolution import SpecEvolution, default_field_name
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.transforms import DAY, HOUR, IDENTITY, MONTH, VOID, YEAR, Transform, bucket, truncate
from iceberg_ops.spec.types import LONG, STRING, TIMESTAMP, UNKNOWN, NestedField, StructType, list_of

SCHEMA = Schema.of(
    NestedField(1, "id", LONG, True),
    NestedField(2, "category", STRING),
    NestedField(3, "ts", TIMESTAMP),
    NestedField(4, "s", StructType((NestedField(6, "k", LONG),))),
    NestedField(5, "l", list_of(7, LONG)),
)


def table(version: int = 2, *fields: PartitionField) -> TableMetadata:
    spec = PartitionSpec(0, fields)
    return new_table_metadata(SCHEMA, spec, UNSORTED, "s3://b/t", {}, now_ms=1, format_version=version)


def evolved(base: TableMetadata, change: Callable[[SpecEvolution], SpecEvolution]) -> TableMetadata:
    return apply_updates(base, change(SpecEvolution.of_table(base)).updates(), now_ms=2)


def shown(metadata: TableMetadata) -> list[tuple[int, str, str]]:
    return [(f.field_id, f.name, str(f.transform)) for f in metadata.spec.fields]


CATEGORY = PartitionField((2,), 1000, IDENTITY, "category")


def test_a_field_removed_from_a_v1_spec_becomes_void() -> None:
    """PART-08, operation remove_field_v1_void"""
    base = table(1, CATEGORY, PartitionField((1,), 1001, bucket(8), "id_bucket"))
    found = evolved(base, lambda s: s.remove_field("category"))
    assert shown(found) == [(1000, "category", "void"), (1001, "id_bucket", "bucket[8]")]
    assert str(found.spec.partition_type(found.all_fields_by_id).fields[0].type) == "string"


def test_a_v1_field_added_again_takes_its_name_back_from_the_void_one() -> None:
    """PART-08 PART-03"""
    void = evolved(table(1, CATEGORY), lambda s: s.remove_field("category"))
    found = evolved(void, lambda s: s.add_field("category"))
    assert shown(found) == [(1000, "category_1000", "void"), (1001, "category", "identity")]
    only_void = PartitionSpec(0, (PartitionField((2,), 1000, VOID, "category"),))
    assert only_void.is_unpartitioned
    assert UNPARTITIONED.is_unpartitioned
    assert not found.spec.is_unpartitioned


def test_an_equal_field_of_an_earlier_spec_gives_its_id_and_name_back() -> None:
    """PART-03, operation field_id_recycling"""
    base = table(2, CATEGORY, PartitionField((1,), 1001, bucket(8), "id_shard"))
    without = evolved(base, lambda s: s.remove_field("id_shard"))
    assert shown(without) == [(1000, "category", "identity")]
    found = evolved(without, lambda s: s.add_field("id", bucket(8)))
    assert shown(found) == [(1000, "category", "identity"), (1001, "id_shard", "bucket[8]")]
    assert (found.default_spec_id, found.last_partition_id) == (0, 1001)
    renamed = evolved(without, lambda s: s.add_field("id", bucket(8), "other"))
    assert shown(renamed)[1] == (1002, "other", "bucket[8]")


def test_removing_and_adding_the_same_field_finds_the_old_spec() -> None:
    """PART-06, operation delete_then_readd"""
    base = table(2, CATEGORY)
    assert evolved(base, lambda s: s.remove_field("category").add_field("category")) is base
    renamed = evolved(base, lambda s: s.remove_field("category").add_field("category", name="cat"))
    assert shown(renamed) == [(1000, "cat", "identity")]


@pytest.mark.parametrize(
    ("transform", "name"),
    [
        (IDENTITY, "ts"), (bucket(16), "ts_bucket_16"), (truncate(8), "ts_trunc_8"), (YEAR, "ts_year"), (MONTH, "ts_month"),
        (DAY, "ts_day"), (HOUR, "ts_hour"), (VOID, "ts_null"),
    ],
    ids=str,
)  # fmt: skip
def test_fields_added_without_a_name_are_named_as_java_does(transform: Transform, name: str) -> None:
    assert default_field_name("ts", transform) == name


def test_nested_columns_of_structs_can_partition_a_table() -> None:
    """PART-05"""
    assert shown(evolved(table(), lambda s: s.add_field("s.k", bucket(4)))) == [(1000, "s.k_bucket_4", "bucket[4]")]


def test_a_field_can_be_removed_by_its_transform() -> None:
    assert shown(evolved(table(2, CATEGORY), lambda s: s.remove_transform("category"))) == []


REFUSED: dict[str, tuple[Callable[[SpecEvolution], object], str]] = {
    "add what is there": (lambda s: s.add_field("category"), "'category' is the same"),
    "add twice": (lambda s: s.add_field("id", bucket(4)).add_field("id", bucket(4), "x"), "already added"),
    "add under a taken name": (lambda s: s.add_field("id", bucket(4), "category"), "the name is taken"),
    "add two of one name": (lambda s: s.add_field("id", bucket(4), "x").add_field("id", bucket(8), "x"), "adds one of that name"),
    "add two times of one column": (lambda s: s.add_field("ts", DAY).add_field("ts", HOUR), "redundant"),
    "add of nothing": (lambda s: s.add_field("nothing"), "no column named"),
    "add a column's name": (lambda s: s.add_field("ts", DAY, "id").apply(), "a column has this name"),
    "add a hash of a struct": (lambda s: s.add_field("s", bucket(4)).apply(), "must be a primitive"),
    "add of a list's element": (lambda s: s.add_field("l.element").apply(), "inside a list or map"),
    "add a wrong type": (lambda s: s.add_field("id", DAY).apply(), "cannot take 'id' of type long"),
    "remove nothing": (lambda s: s.remove_field("nothing"), "the fields are category"),
    "remove no such transform": (lambda s: s.remove_transform("id"), "has none like it"),
    "remove an added one": (lambda s: s.add_field("ts", DAY, "d").remove_field("d"), "adds it"),
    "remove a renamed one": (lambda s: s.rename_field("category", "x").remove_field("category"), "renames it"),
    "rename nothing": (lambda s: s.rename_field("nothing", "x"), "no partition field named"),
    "rename an added one": (lambda s: s.add_field("ts", DAY, "d").rename_field("d", "x"), "adds it"),
    "rename a removed one": (lambda s: s.remove_field("category").rename_field("category", "x"), "removes it"),
    "rename to a taken name": (
        lambda s: s.add_field("ts", DAY, "d").rename_field("category", "d"), "adds one of that name",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_a_forbidden_step_is_refused(name: str) -> None:
    """PART-05 PART-06"""
    step, reason = REFUSED[name]
    with pytest.raises(SchemaError, match=reason):
        step(SpecEvolution.of_table(table(2, CATEGORY)))


def test_an_unknown_transform_is_never_added() -> None:
    """GEN-09 PART-09"""
    with pytest.raises(UnsupportedError, match="zorder"):
        SpecEvolution.of_table(table()).add_field("id", Transform("zorder"), "z").apply()


def test_types_of_partition_tuples_outlive_their_columns() -> None:
    """PART-12 PART-13 PART-16 XFORM-06"""
    spec = PartitionSpec(0, (PartitionField((3,), 1000, DAY, "d"), PartitionField((9,), 1007, truncate(4), "gone")))
    fields = spec.partition_type(SCHEMA.fields_by_id).fields
    assert [(f.field_id, f.name, str(f.type), f.required) for f in fields] == [
        (1000, "d", "date", False), (1007, "gone", str(UNKNOWN), False),
    ]  # fmt: skip


def test_sort_keys_are_built_in_order_with_javas_null_orders() -> None:
    """SORT-01 SORT-02"""
    order = SortOrderBuilder.of_table(table()).asc("category").desc("ts", DAY).asc("s.k", bucket(4), NullOrder.NULLS_LAST).apply()
    assert order.fields == (
        SortField((2,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),
        SortField((3,), DAY, SortDirection.DESC, NullOrder.NULLS_LAST),
        SortField((6,), bucket(4), SortDirection.ASC, NullOrder.NULLS_LAST),
    )
    assert SortOrderBuilder(SCHEMA).apply() == UNSORTED
    assert SortOrderBuilder(SCHEMA, case_sensitive=False).asc("CATEGORY").apply().fields[0].source_id == 2


@pytest.mark.parametrize(
    ("column", "transform", "error"),
    [
        ("nothing", IDENTITY, SchemaError),
        ("s", IDENTITY, SchemaError),
        ("id", DAY, SchemaError),
        ("id", Transform("z"), UnsupportedError),
    ],
)
def test_a_bad_sort_key_is_refused(column: str, transform: Transform, error: type[Exception]) -> None:
    """SORT-01 SORT-07"""
    with pytest.raises(error):
        SortOrderBuilder(SCHEMA).asc(column, transform).apply()


def test_a_new_order_keeps_the_old_ones() -> None:
    """SORT-04"""
    base = table()
    one = apply_updates(base, SortOrderBuilder.of_table(base).asc("id").updates(), now_ms=1)
    two = apply_updates(one, SortOrderBuilder.of_table(one).desc("id").updates(), now_ms=1)
    assert ([o.order_id for o in two.sort_orders], two.default_sort_order_id) == ([0, 1, 2], 2)
