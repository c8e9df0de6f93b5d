"""Numbers that the format cannot hold are refused before they enter a table, from every caller: Java cannot read such a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema, UpdateSortOrder, UpdateSpec
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.data.arrow.arrow_schema import schema_of_arrow
from iceberg_ops.errors import BadInputError, IcebergOpsError, OptionError, SchemaError
from iceberg_ops.spec.nesting import MOST_LEVELS
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import Transform, bucket, transform_from_text, truncate
from iceberg_ops.spec.types import (
    INT,
    DecimalType,
    FixedType,
    IcebergType,
    ListType,
    NestedField,
    StructType,
    primitive_from_name,
)
from tests.actions.lake import Lake, make_lake, numbered
from tests.builders import make_catalog

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


def lake() -> Lake:
    found = make_lake(version=3)
    found.append(numbered(1, 3))
    return found


@pytest.mark.parametrize(
    ("key", "most"), [("min_snapshots_to_keep", INT_MAX), ("max_snapshot_age_ms", LONG_MAX), ("max_ref_age_ms", LONG_MAX)]
)
def test_a_ref_keeps_no_more_than_the_format_counts(key: str, most: int) -> None:
    table = lake()
    head = table.table.metadata.current_snapshot_id
    assert head is not None
    for number in (0, -1, most + 1, 2**200):
        with pytest.raises(BadInputError, match="must be above 0 and at most"):
            commit(table.catalog, table.table, SetRef(ref="b", snapshot_id=head, **{key: number}))  # type: ignore[arg-type]
    commit(table.catalog, table.table, SetRef(ref="b", snapshot_id=head, **{key: most}))  # type: ignore[arg-type]
    assert getattr(table.table.metadata.refs["b"], key) == most


def by(transform: Transform) -> list[Callable[[Lake], object]]:
    """The ways in which a transform enters a table."""
    spec = PartitionSpec(0, (PartitionField((1,), 1000, transform, "p"),))
    order = SortOrder(1, (SortField((1,), transform, SortDirection.ASC, NullOrder.NULLS_FIRST),))
    schema = Schema.of(NestedField(1, "id", INT))
    return [
        lambda at: make_catalog().create_table(("ns", "other"), schema, spec=spec),
        lambda at: make_catalog().create_table(("ns", "other"), schema, sort_order=order),
        lambda at: SpecEvolution.of_table(at.table.metadata).add_field("id", transform).apply(),
        lambda at: commit(at.catalog, at.table, UpdateSpec(spec=spec)),
        lambda at: commit(at.catalog, at.table, UpdateSortOrder(sort_order=order)),
    ]


@pytest.mark.parametrize("transform", [bucket(INT_MAX + 1), truncate(2**64), bucket(0), truncate(-1)], ids=str)
@pytest.mark.parametrize("way", range(5))
def test_a_width_beyond_an_int_is_refused(transform: Transform, way: int) -> None:
    with pytest.raises(SchemaError, match=r"must have a parameter above 0 and at most 2147483647"):
        by(transform)[way](lake())


@pytest.mark.parametrize("way", range(5))
def test_the_greatest_width_is_taken(way: int) -> None:
    by(bucket(INT_MAX))[way](lake())


@pytest.mark.parametrize("text", ["bucket[2147483648]", "truncate[" + "9" * 5000 + "]"])
def test_a_width_that_another_writer_wrote_is_an_unknown_transform(text: str) -> None:
    assert not transform_from_text(text).is_known
    assert str(transform_from_text(text)) == text


@pytest.mark.parametrize("text", ["fixed[2147483648]", "fixed[" + "9" * 5000 + "]", "decimal(" + "9" * 5000 + ", 2)"])
def test_a_type_beyond_the_format_is_no_type(text: str) -> None:
    with pytest.raises(SchemaError):
        primitive_from_name(text)


@pytest.mark.parametrize("type_", [FixedType(length=2**31), FixedType(length=0), DecimalType(precision=5, scale=6)], ids=str)
def test_a_column_of_a_type_beyond_the_format_is_refused(type_: IcebergType) -> None:
    with pytest.raises(SchemaError, match="must have a"):
        make_catalog().create_table(("ns", "other"), Schema.of(NestedField(1, "c", type_)))
    with pytest.raises(SchemaError, match="must have a"):
        SchemaEvolution.of_table(lake().table.metadata).add_column("c", type_).apply()


def deep(levels: int) -> IcebergType:
    found: IcebergType = INT
    for n in range(levels):
        found = StructType((NestedField(n + 10, "s", found),))
    return found


def lists(levels: int) -> IcebergType:
    found: IcebergType = INT
    for n in range(levels):
        found = ListType(NestedField(n + 10, "element", found))
    return found


@pytest.mark.parametrize("type_", [deep(64), deep(900), deep(20_000), lists(32), lists(20_000)], ids=range(5))
def test_a_column_that_is_nested_too_deeply_is_refused(type_: IcebergType) -> None:
    found = lake()
    for enters in (
        lambda: make_catalog().create_table(("ns", "other"), Schema.of(NestedField(1, "c", type_))),
        lambda: SchemaEvolution.of_table(found.table.metadata).add_column("c", type_),
        lambda: commit(found.catalog, found.table, UpdateSchema(schema=Schema.of(NestedField(1, "c", type_)))),
    ):
        with pytest.raises(SchemaError, match=f"column c: is nested .* levels deep: {MOST_LEVELS} at most"):
            enters()


def test_a_column_of_64_levels_is_written_and_read() -> None:
    catalog = make_catalog()
    catalog.create_namespace(("deep",))
    table = catalog.create_table(("deep", "t"), Schema.of(NestedField(1, "c", deep(MOST_LEVELS - 1))))
    assert catalog.load_table(("deep", "t")).metadata == table.metadata


@pytest.mark.parametrize("level", ["9223372036854775807", "2147483648", "-9223372036854775808"])
def test_a_compression_level_that_there_is_not_is_refused(level: str) -> None:
    found = make_lake(properties={"write.parquet.compression-level": level})
    with pytest.raises(OptionError, match=r"write\.parquet\.compression-level"):
        found.append(numbered(1, 3))


@pytest.mark.parametrize(
    "name", ["write.target-file-size-bytes", "write.parquet.row-group-size-bytes", "write.parquet.page-size-bytes"]
)
@pytest.mark.parametrize("size", [str(2**63), "9" * 5000])
def test_a_target_size_beyond_a_long_is_refused(name: str, size: str) -> None:
    found = make_lake(properties={name: size})
    with pytest.raises(OptionError, match=f"table property {name}"):
        found.append(numbered(1, 3))
    with pytest.raises(IcebergOpsError, match="target-file-size-bytes"):
        lake().run("rewrite_data_files", target_file_size_bytes=size)


def test_an_arrow_schema_that_is_nested_too_deeply_is_refused() -> None:
    found: Any = pa.int32()
    for _ in range(90):
        found = pa.struct([("s", found)])
    with pytest.raises(SchemaError, match="is nested"):
        make_catalog().create_table(("ns", "other"), schema_of_arrow(pa.schema([("c", found)])))
