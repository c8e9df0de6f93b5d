"""Metadata tables as rows."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from iceberg_ops.errors import BadInputError
from iceberg_ops.spec.manifests import ManifestContent
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot, SnapshotLogEntry, SnapshotRef
from iceberg_ops.spec.transforms import DAY, IDENTITY, bucket
from iceberg_ops.spec.types import DATE, DOUBLE, LONG, TIMESTAMP, DecimalType, NestedField, StructType
from iceberg_ops.table.inspection import TOPICS, inspect, partition_row
from iceberg_ops.table.manifests import ManifestWriter, write_manifest_list
from iceberg_ops.table.table import Table
from tests.builders import data_file, make_catalog, make_table


@pytest.fixture
def table() -> Table:
    """A table by region with two snapshots; only the second is on main's line."""
    made = make_table(make_catalog("inspection"), partitioned=True, properties={"b": "2", "a": "1"})
    writer = ManifestWriter(made.metadata, made.io, spec_id=0, content=ManifestContent.DATA, snapshot_id=2)
    writer.add(data_file("x", partition=("eu",), ids=(1, 9)))
    writer.add(data_file("y", partition=(None,)))
    written = write_manifest_list(made.metadata, made.io, writer.close(), snapshot_id=2, parent_snapshot_id=None, sequence_number=1)
    first = Snapshot(snapshot_id=1, timestamp_ms=0, manifest_list="gone", summary={"operation": "append"})
    second = Snapshot(
        snapshot_id=2, timestamp_ms=1_600_000_000_123, manifest_list=written.location, summary={"operation": "overwrite"}
    )
    metadata = replace(
        made.metadata,
        snapshots=(second, first),
        current_snapshot_id=2,
        snapshot_log=(SnapshotLogEntry(0, 1), SnapshotLogEntry(1_600_000_000_123, 2)),
        refs={"main": SnapshotRef(snapshot_id=2), "old": SnapshotRef(snapshot_id=1, type="tag", max_ref_age_ms=5)},
    )
    return replace(made, metadata=metadata)


def test_snapshots_come_oldest_first_with_iso_times(table: Table) -> None:
    rows = inspect(table, "snapshots")
    assert [(r["snapshot_id"], r["committed_at"], r["operation"]) for r in rows] == [
        (1, "1970-01-01T00:00:00.000+00:00", "append"),
        (2, "2020-09-13T12:26:40.123+00:00", "overwrite"),
    ]


def test_history_tells_what_is_an_ancestor(table: Table) -> None:
    assert [(r["snapshot_id"], r["is_current_ancestor"]) for r in inspect(table, "history")] == [(1, False), (2, True)]


def test_refs_properties_schema_and_metadata(table: Table) -> None:
    assert [(r["name"], r["type"], r["max_ref_age_ms"]) for r in inspect(table, "refs")] == [
        ("main", "branch", None),
        ("old", "tag", 5),
    ]
    assert {"key": "a", "value": "1"} in inspect(table, "properties")
    assert [(r["id"], r["name"], r["type"], r["required"]) for r in inspect(table, "schema")] == [
        (1, "id", "long", True), (2, "data", "string", False), (3, "region", "string", False),
    ]  # fmt: skip
    (row,) = inspect(table, "metadata")
    assert (row["format_version"], row["snapshots"], row["partition_spec"]) == (2, 2, ["identity(region) as region"])


def test_manifests_and_files_show_values_and_not_bytes(table: Table) -> None:
    (row,) = inspect(table, "manifests")
    assert row["partition_summaries"] == [
        {"field": "region", "contains_null": True, "contains_nan": False, "lower_bound": "eu", "upper_bound": "eu"}
    ]
    first, second = inspect(table, "files")
    assert (first["partition"], second["partition"]) == ({"region": "eu"}, {"region": None})
    assert (first["lower_bounds"], first["upper_bounds"]) == ({"id": 1}, {"id": 9})
    assert [r["partition"] for r in inspect(table, "partitions")] == [{"region": "eu"}, {"region": None}]


def test_nan_is_one_partition_and_the_two_zeros_are_two() -> None:
    catalog = make_catalog("inspection")
    schema = Schema.of(NestedField(1, "x", DOUBLE))
    made = catalog.create_table(("ns", "t"), schema, spec=PartitionSpec(0, (PartitionField((1,), 1000, IDENTITY, "x"),)))
    writer = ManifestWriter(made.metadata, made.io, spec_id=0, content=ManifestContent.DATA, snapshot_id=1)
    for i, value in enumerate((math.nan, 0.0, -0.0, -math.nan)):
        writer.add(data_file(str(i), partition=(value,)))
    written = write_manifest_list(made.metadata, made.io, writer.close(), snapshot_id=1, parent_snapshot_id=None, sequence_number=1)
    snapshot = Snapshot(snapshot_id=1, timestamp_ms=0, manifest_list=written.location)
    rows = inspect(replace(made, metadata=replace(made.metadata, snapshots=(snapshot,))), "partitions", snapshot)
    assert [(str(r["partition"]["x"]), r["data_files"]) for r in rows] == [("NaN", 2), ("-0.0", 1), ("0.0", 1)]


def test_an_older_snapshot_can_be_asked_for(table: Table) -> None:
    assert inspect(replace(table, metadata=replace(table.metadata, current_snapshot_id=None)), "files") == []
    assert len(inspect(table, "files", table.metadata.snapshot(2))) == 2


def test_time_transforms_read_as_in_partition_paths(table: Table) -> None:
    fields = (
        PartitionField((1,), 1000, DAY, "d"),
        PartitionField((2,), 1001, IDENTITY, "m"),
        PartitionField((3,), 1002, bucket(4), "b"),
        PartitionField((4,), 1003, IDENTITY, "on"),
        PartitionField((9,), 1004, IDENTITY, "dropped"),
    )
    schema = Schema(
        StructType(
            (
                NestedField(1, "ts", TIMESTAMP),
                NestedField(2, "amount", DecimalType(precision=9, scale=2)),
                NestedField(3, "id", LONG),
                NestedField(4, "date", DATE),
            )
        )
    )
    metadata = replace(table.metadata, schemas=(schema,), current_schema_id=0, partition_specs=(PartitionSpec(0, fields),))
    from decimal import Decimal

    row = partition_row(replace(table, metadata=metadata), 0, (17486, Decimal("1.50"), 3, 17486, None))
    assert row == {"d": "2017-11-16", "m": "1.50", "b": 3, "on": "2017-11-16", "dropped": None}


def test_an_unknown_topic_is_refused_listing_the_known(table: Table) -> None:
    with pytest.raises(BadInputError, match=f"unknown topic 'rows': must be one of {', '.join(TOPICS)}"):
        inspect(table, "rows")
