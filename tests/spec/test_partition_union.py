"""Partition fields of several specs as one struct: which fields are the same, and which only look the same (PART-03, PART-04,
STAT-05)."""

from __future__ import annotations

import pytest

from iceberg_ops.spec.partition_union import PartitionUnion, partition_union
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.transforms import IDENTITY, VOID, Transform, bucket
from iceberg_ops.spec.types import INT, LONG, STRING, UNKNOWN, NestedField

FIELDS = {i: NestedField(i, name, t) for i, name, t in ((1, "id", LONG), (2, "region", STRING), (3, "kind", STRING))}


def field(source: int, field_id: int, transform: Transform = IDENTITY, name: str = "p") -> PartitionField:
    return PartitionField((source,), field_id, transform, name)


def union(*specs: tuple[PartitionField, ...]) -> PartitionUnion:
    return partition_union([PartitionSpec(i, fields) for i, fields in enumerate(specs)], FIELDS)


def shown(found: PartitionUnion) -> list[tuple[int, str, str]]:
    return [(f.field_id, f.name, str(f.type)) for f in found.type.fields]


def test_a_field_that_several_specs_have_is_one_under_its_newest_name() -> None:
    found = union((field(2, 1000, name="old"),), (field(1, 1001, bucket(4), "b"), field(2, 1000, name="new")))
    assert shown(found) == [(1000, "new", "string"), (1001, "b", "int")]
    assert found.values(0, ("eu",)) == ("eu", None)
    assert found.values(1, (3, "us")) == ("us", 3)
    assert found.conflicts == ()


@pytest.mark.parametrize("void_first", [True, False])
def test_the_void_that_v1_leaves_of_a_field_is_the_field(void_first: bool) -> None:
    live, void = (field(2, 1000, name="region"),), (field(2, 1000, VOID, "region"),)
    found = union(*((void, live) if void_first else (live, void)))
    assert shown(found) == [(1000, "region", "string")]
    assert found.conflicts == ()


def test_the_type_is_known_as_long_as_one_schema_knows_the_source() -> None:
    found = partition_union([PartitionSpec(0, (field(9, 1000),)), PartitionSpec(1, (field(9, 1000, VOID),))], FIELDS)
    assert [f.type for f in found.type.fields] == [UNKNOWN]


def test_fields_of_v1_specs_without_ids_stay_apart() -> None:
    """PART-04: every such spec counts from 1000."""
    found = union((field(2, 1000, name="region"),), (field(1, 1000, bucket(4), "b"), field(2, 1001, name="region")))
    assert shown(found) == [(1000, "region_1000", "string"), (1001, "region", "string"), (1002, "b", "int")]
    assert found.values(0, ("eu",)) == ("eu", None, None)
    assert found.values(1, (3, "us")) == (None, "us", 3)
    assert [(a.name, b.name) for a, b in found.conflicts] == [("region", "b")]


@pytest.mark.parametrize(
    ("one", "other"),
    [(bucket(4), bucket(8)), (bucket(4), IDENTITY)],
)
def test_one_id_and_another_transform_is_another_field(one: Transform, other: Transform) -> None:
    found = union((field(1, 1000, one),), (field(1, 1000, other),))
    assert len(found.type.fields) == 2
    assert len(found.conflicts) == 1
    assert (found.values(0, (1,)), found.values(1, (2,))) == ((1, None), (None, 2))


def test_a_column_dropped_and_added_again_gives_two_fields_of_two_names() -> None:
    found = union((field(2, 1000, name="region"),), (), (field(3, 1001, name="region"),))
    assert shown(found) == [(1000, "region_1000", "string"), (1001, "region", "string")]


def test_names_that_differ_only_in_case_are_told_apart_by_id() -> None:
    found = union((field(2, 1000, name="Region"), field(1, 1002, bucket(2), "region_1000")), (field(3, 1001, name="region"),))
    names = [name for _, name, _ in shown(found)]
    assert names == ["Region_1000_1000", "region", "region_1000"]


def test_a_promoted_source_gives_the_wider_type() -> None:
    wide = {**FIELDS, 1: NestedField(1, "id", INT)}
    assert [f.type for f in partition_union([PartitionSpec(0, (field(1, 1000),))], wide).type.fields] == [INT]
