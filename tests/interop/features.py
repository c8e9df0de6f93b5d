"""Tables of this package, one for each feature of the format: ``FEATURES[name](lake)`` creates it, with rows that would differ if a
reader ignored the feature. ``test_matrix`` has the result of each reader."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties, UpdateSpec, UpgradeFormatVersion
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.data.arrow.variant_values import Variant
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import IDENTITY, bucket, truncate
from iceberg_ops.spec.types import (
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ_NS,
    UNKNOWN,
    VARIANT,
    DecimalType,
    GeographyType,
    GeometryType,
    IcebergType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from tests.interop.lake import Lake
from tests.interop.test_java_reads_ours import SCHEMA, TYPES, by, everything, numbered

POINT = bytes.fromhex("0101000000000000000000f03f0000000000000040")
MICROS = 3_723_000_004
NANOS = 1_577_836_800_000_000_001
EMPTY = b"\x01\x00\x00"
VALUES: Mapping[str, tuple[IcebergType, Any]] = {
    "time": (TIME, MICROS),
    "timestamp_ns": (TIMESTAMP_NS, NANOS),
    "timestamptz_ns": (TIMESTAMPTZ_NS, NANOS),
    "unknown": (UNKNOWN, None),
    "variant": (VARIANT, Variant(EMPTY, b"\x0c\x05")),
    "geometry": (GeometryType(), POINT),
    "geography": (GeographyType(), POINT),
}


def values(type_: IcebergType, value: Any, **properties: str) -> Callable[[Lake], None]:
    def make(lake: Lake) -> None:
        lake.create(Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "v", type_)), version=3, **properties)
        lake.append([(1, value), (2, None)])

    return make


def types(version: int, **properties: str) -> Callable[[Lake], None]:
    def make(lake: Lake) -> None:
        lake.create(TYPES, version=version, **properties)
        lake.append([everything(i) for i in range(20)])

    return make


def evolved(lake: Lake) -> None:
    """Columns renamed, dropped and added again, widened, moved, nested ones too."""
    schema = Schema.of(
        NestedField(1, "id", INT, True), NestedField(2, "f", FLOAT), NestedField(3, "m", DecimalType(precision=6, scale=2)),
        NestedField(4, "gone", STRING), NestedField(5, "s", StructType((NestedField(6, "a", INT), NestedField(7, "b", STRING)))),
        NestedField(8, "l", list_of(9, StructType((NestedField(10, "x", INT), NestedField(11, "y", INT))))),
        NestedField(12, "k", map_of(13, STRING, 14, INT)),
    )  # fmt: skip
    lake.create(schema)
    lake.append([(i, i / 2, Decimal(i).scaleb(-2), f"g{i}", (i, "b"), [(i, 1)], [("k", i)]) for i in range(5)])
    lake.evolve(
        lambda e: (
            e.update_type("id", LONG)
            .update_type("f", DOUBLE)
            .update_type("m", DecimalType(precision=20, scale=2))
            .update_type("s.a", LONG)
            .update_type("k.value", LONG)
            .drop_column("gone")
            .rename_column("f", "g")
            .rename_column("l.element.x", "z")
            .add_column("c", INT, parent="s")
            .move_first("m")
        )
    )
    lake.append([(Decimal("12345678901234567.89"), 2**40, 1.1, (2**41, "b", 3), [(4, 5)], [("k", 2**42)])])
    lake.evolve(lambda e: e.add_column("gone", INT).drop_column("s.b"))


def defaults(lake: Lake) -> None:
    lake.create(SCHEMA, version=3)
    lake.append(numbered(1, 2))
    lake.evolve(lambda e: e.add_column("n", INT, default=7).add_column("day", DATE, default=19000))
    lake.append([(3, "c", "c", None, None)])


def respecced(lake: Lake) -> None:
    lake.create(SCHEMA, by("identity", 3))
    lake.append(numbered(*range(6)))
    for change in (lambda e: e.add_field("id", bucket(3)), lambda e: e.remove_field("p").add_field("data", truncate(4))):
        lake.commit(UpdateSpec(spec=change(SpecEvolution.of_table(lake.table.metadata)).apply()))
        start = 6 * len(lake.table.metadata.partition_specs)
        lake.append(numbered(*range(start, start + 6)))


def position_deletes(granularity: str = "file", **properties: str) -> Callable[[Lake], None]:
    def make(lake: Lake) -> None:
        lake.create(SCHEMA, by("identity", 3), **properties)
        lake.append(numbered(*range(30)))
        lake.append(numbered(*range(30, 60)))
        lake.delete_positions({0, 1, 31, 59}, granularity)
        lake.delete_positions({2, 58}, granularity)

    return make


def equality_deletes(**properties: str) -> Callable[[Lake], None]:
    def make(lake: Lake) -> None:
        lake.create(SCHEMA, **properties)
        lake.append([*numbered(*range(10)), (10, None, "a")])
        lake.delete_equal(["id"], [(1,), (2,)])
        lake.delete_equal(["data", "part"], [(None, "a"), ("row 5", "c"), ("row 6", "b")])
        lake.append(numbered(1))

    return make


def renamed_equality_deletes(lake: Lake) -> None:
    equality_deletes()(lake)
    lake.evolve(lambda e: e.rename_column("data", "text"))
    lake.evolve(lambda e: e.add_column("data", INT))


def vectors(lake: Lake) -> None:
    lake.create(SCHEMA, version=3)
    lake.append(numbered(*range(100)))
    lake.append(numbered(*range(100, 200)))
    lake.delete_positions({5, 6, 150})
    lake.delete_positions({7, 151})


def upgraded(lake: Lake) -> None:
    """From v1 to v3, with vectors over position deletes."""
    lake.create(SCHEMA, version=1)
    lake.append(numbered(*range(10)))
    lake.commit(UpgradeFormatVersion(format_version=2))
    lake.delete_positions({1, 2}, "partition")
    lake.commit(UpgradeFormatVersion(format_version=3))
    lake.append(numbered(*range(20, 30)))
    lake.delete_positions({3, 21})


def compacted(lake: Lake) -> None:
    vectors(lake)
    lake.maintain("rewrite_data_files", rewrite_all="true")
    lake.maintain("rewrite_manifests")


def referred(lake: Lake) -> None:
    lake.create(SCHEMA)
    first = lake.append(numbered(1, 2))
    lake.commit(SetRef(ref="v1", snapshot_id=first, type="tag"))
    lake.commit(SetRef(ref="dev", snapshot_id=first))
    lake.append(numbered(10, 11), branch="dev")
    lake.append(numbered(3))


def ordered(lake: Lake) -> None:
    key = SortField((2,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST)
    lake.create(SCHEMA, order=SortOrder(1, (key,)))
    lake.append(numbered(*range(10)))


def mapped(lake: Lake) -> None:
    """A file without field ids under other names than the columns have, and the mapping that tells them."""
    lake.create(Schema.of(NestedField(1, "id", LONG), NestedField(2, "who", STRING), NestedField(3, "at", TIMESTAMP)))
    at = dt.datetime(2020, 1, 2, 3, 4, 5, 6)
    rows = pa.table({"name": ["a", None], "nr": pa.array([1, 2], pa.int64()), "at": pa.array([at, None], pa.timestamp("us"))})
    path = f"{lake.table.location.removeprefix('file:')}/data-without-ids.parquet"
    pq.write_table(rows, path)
    size = Path(path).stat().st_size
    lake.commit(
        AppendFiles(added=(DataFile(file_path=path, file_format=FileFormat.PARQUET, record_count=2, file_size_in_bytes=size),))
    )
    names = '[{"field-id": 1, "names": ["id", "nr"]}, {"field-id": 2, "names": ["who", "name"]}, {"field-id": 3, "names": ["at"]}]'
    lake.commit(UpdateProperties(updates={"schema.name-mapping.default": names}))


FEATURES: Mapping[str, Callable[[Lake], None]] = {
    "types, v1": types(1),
    "types, v2": types(2),
    "types, v3": types(3),
    **{f"values of {name}": values(type_, value) for name, (type_, value) in VALUES.items()},
    **{f"values of {name}, Avro": values(*VALUES[name], write_format_default="avro") for name in VALUES},
    "Avro data files": types(2, write_format_default="avro"),
    "columns evolved": evolved,
    "defaults": defaults,
    "partition specs evolved": respecced,
    "sort orders": ordered,
    "position deletes": position_deletes(),
    "position deletes by partition": position_deletes("partition"),
    "position deletes, Avro": position_deletes(write_delete_format_default="avro"),
    "equality deletes": equality_deletes(),
    "equality deletes, Avro": equality_deletes(write_delete_format_default="avro"),
    "equality deletes and renamed columns": renamed_equality_deletes,
    "deletion vectors": vectors,
    "v1 upgraded to v3": upgraded,
    "row lineage": compacted,
    "branches and tags": referred,
    "name mapping": mapped,
    "gzipped metadata": types(2, write_metadata_compression__codec="gzip"),
}
