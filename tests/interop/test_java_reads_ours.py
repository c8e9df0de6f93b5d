"""Tables written here are read by Iceberg Java with equal rows, at every snapshot."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import Any

import pytest

from iceberg_ops.commit.operations.metadata_updates import UpdateSpec, UpgradeFormatVersion
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import IDENTITY, transform_from_text
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    FixedType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from tests.interop.lake import Lake, texts

pytestmark = [pytest.mark.oracle, pytest.mark.java]

SCHEMA = Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "data", STRING), NestedField(3, "part", STRING))
POINT = StructType((NestedField(21, "x", INT), NestedField(22, "label", STRING)))
TYPES = Schema.of(
    NestedField(1, "id", LONG, True),
    NestedField(2, "flag", BOOLEAN),
    NestedField(3, "n", INT),
    NestedField(4, "f", FLOAT),
    NestedField(5, "d", DOUBLE),
    NestedField(6, "small", DecimalType(precision=9, scale=2)),
    NestedField(7, "mid", DecimalType(precision=18, scale=4)),
    NestedField(8, "big", DecimalType(precision=38, scale=10)),
    NestedField(9, "day", DATE),
    NestedField(10, "at", TIMESTAMP),
    NestedField(11, "instant", TIMESTAMPTZ),
    NestedField(12, "name", STRING),
    NestedField(13, "raw", BINARY),
    NestedField(14, "fix", FixedType(length=4)),
    NestedField(15, "u", UUID),
    NestedField(20, "point", POINT),
    NestedField(23, "points", list_of(24, StructType((NestedField(25, "x", INT), NestedField(26, "tags", list_of(27, STRING)))))),
    NestedField(28, "scores", map_of(29, STRING, 30, StructType((NestedField(31, "v", DOUBLE),)))),
)
NULLS: tuple[Any, ...] = (None,) * (len(TYPES.fields) - 1)


def everything(i: int) -> tuple[Any, ...]:
    if i % 7 == 3:
        return (i, *NULLS)
    doubles = (0.5, -0.0, math.nan, math.inf, -math.inf)
    return (
        i, i % 2 == 0, -i, doubles[i % 5], doubles[(i + 1) % 5], Decimal(i - 5).scaleb(-2), Decimal(i * 10**6 - 7).scaleb(-4),
        Decimal(-i * 10**20).scaleb(-10), i * 1000 - 9000, (i - 9) * 10**15 + i, (9 - i) * 10**15 - i, f"näme \U0001f600 {i}",
        bytes([0, i, 255]), bytes([i] * 4), uuid.UUID(int=i << 96 | i), (i, None) if i % 2 else None,
        [(i, [f"t{i}", None]), None, (None, [])], [("a", (i / 4,)), ("b", None)],
    )  # fmt: skip


def numbered(*ids: int) -> list[tuple[int, str, str]]:
    return [(i, f"row {i}", "abc"[i % 3]) for i in ids]


def by(text: str, column: int) -> PartitionSpec:
    return PartitionSpec(0, (PartitionField((column,), 1000, transform_from_text(text), "p"),))


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_type_nested_and_null(lake: Lake, version: int) -> None:
    lake.create(TYPES, version=version)
    lake.append([everything(i) for i in range(20)])
    lake.agree(20)


@pytest.mark.parametrize(
    ("transform", "column"),
    [
        ("identity", 6), ("identity", 9), ("identity", 12), ("bucket[4]", 1), ("bucket[4]", 8), ("bucket[4]", 12),
        ("bucket[4]", 15), ("bucket[4]", 13), ("truncate[3]", 12), ("truncate[10]", 7), ("truncate[10]", 3),
        ("year", 9), ("month", 11), ("day", 10),
        ("hour", 11), ("void", 3),
    ],
)  # fmt: skip
def test_every_transform_puts_rows_where_java_looks(lake: Lake, transform: str, column: int) -> None:
    lake.create(TYPES, by(transform, column))
    lake.append([everything(i) for i in range(20)])
    lake.agree(20)
    name, type_ = TYPES.fields_by_id[column].name, TYPES.fields_by_id[column].type
    if type_ == BINARY:
        return
    # Java prunes by partition: a row in the wrong one would not be found.
    literal = lake.java.rows(f"SELECT CAST({name} AS STRING) FROM {lake.sql_name} WHERE id = 8").column(0)[0].as_py()
    found = lake.java.rows(f"SELECT id FROM {lake.sql_name} WHERE {name} = CAST('{literal}' AS {_spark_type(column)})")
    assert found.column("id").to_pylist() == [8]


def _spark_type(column: int) -> str:
    type_ = TYPES.fields_by_id[column].type
    return {"long": "bigint", "timestamp": "timestamp_ntz", "timestamptz": "timestamp", "uuid": "string"}.get(
        str(type_), str(type_)
    )


@pytest.mark.parametrize("version", [1, 3])
def test_filters_find_the_same_rows_through_our_bounds(lake: Lake, version: int) -> None:
    lake.create(TYPES, version=version)
    for start in range(0, 20, 4):
        lake.append([everything(i) for i in range(start, start + 4)])
    for where in (
        "n BETWEEN -9 AND -7", "small >= 1.00", "mid < 2000000", "big <= -1200000000000.0", "day <= DATE '1950-01-01'",
        "at > TIMESTAMP_NTZ '1970-01-01 00:00:00'", "instant < TIMESTAMP '1970-01-01 00:00:00Z'", "name LIKE 'näme 😀 1%'",
        "raw = X'0005FF'", "u = '00000008-0000-0000-0000-000000000008'", "point IS NULL AND id > 10", "NOT flag", "name IS NULL",
        "id IN (4, 12) OR name = 'näme 😀 19'",
    ):  # fmt: skip
        theirs = lake.java.rows(f"SELECT id FROM {lake.sql_name} WHERE {where}")
        ours = lake.our_rows(Scan(where=parse_where(where)), ["id"])
        assert texts(theirs) == ours, where


def test_a_sort_order_is_kept_by_java_and_its_files_are_read(lake: Lake) -> None:
    key = SortField((2,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST)
    lake.create(SCHEMA, order=SortOrder(1, (key,)))
    lake.append(numbered(*range(10)))
    lake.run_java("INSERT INTO {T} VALUES (10, 'j', 'a'), (11, NULL, 'b')")
    lake.agree(12)
    assert lake.table.metadata.sort_order.fields == (key,)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_columns_added_dropped_renamed_widened_and_moved(lake: Lake, version: int) -> None:
    schema = Schema.of(
        NestedField(1, "id", INT, True), NestedField(2, "f", FLOAT), NestedField(3, "m", DecimalType(precision=6, scale=2)),
        NestedField(4, "gone", STRING), NestedField(5, "s", StructType((NestedField(6, "a", INT), NestedField(7, "b", STRING)))),
    )  # fmt: skip
    lake.create(schema, version=version)
    lake.append([(i, i / 2, Decimal(i).scaleb(-2), f"g{i}", (i, "b")) for i in range(5)])
    lake.evolve(
        lambda e: (
            e.update_type("id", LONG)
            .update_type("f", DOUBLE)
            .update_type("m", DecimalType(precision=20, scale=2))
            .update_type("s.a", LONG)
            .drop_column("gone")
            .rename_column("f", "g")
            .add_column("new", STRING)
            .add_column("c", INT, parent="s")
            .move_first("m")
        )
    )
    lake.append([(Decimal("12345678901234567.89"), 2**40, 1.1, (2**41, "b", 3), "n")])
    lake.evolve(lambda e: e.add_column("gone", INT).drop_column("s.b"))
    lake.append([(None, 7, None, (1, 2), None, 5)])
    lake.agree(7)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_partition_specs_one_after_the_other(lake: Lake, version: int) -> None:
    lake.create(SCHEMA, by("identity", 3), version=version)
    lake.append(numbered(*range(6)))
    for change in (
        lambda e: e.add_field("id", transform_from_text("bucket[3]")),
        lambda e: e.remove_field("p"),
        lambda e: e.add_field("data", transform_from_text("truncate[4]")).rename_field("id_bucket_3", "shard"),
    ):
        lake.commit(UpdateSpec(spec=change(SpecEvolution.of_table(lake.table.metadata)).apply()))
        start = 6 * len(lake.table.metadata.partition_specs)
        lake.append(numbered(*range(start, start + 6)))
    lake.agree(24)
    lake.run_java("INSERT INTO {T} VALUES (100, 'row 100', 'a')", "DELETE FROM {T} WHERE part = 'b'")
    lake.agree(17)


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_deletes(lake: Lake, granularity: str, partitioned: bool) -> None:
    lake.create(SCHEMA, by("identity", 3) if partitioned else PartitionSpec())
    lake.append(numbered(*range(30)))
    lake.append(numbered(*range(30, 60)))
    lake.delete_positions({0, 1, 31, 59}, granularity)
    lake.delete_positions({2, 58}, granularity)
    lake.agree(54)


def test_equality_deletes_of_values_and_nulls_global_and_in_partitions(lake: Lake) -> None:
    lake.create(SCHEMA)
    lake.append([*numbered(*range(10)), (10, None, "a")])
    lake.delete_equal(["id"], [(1,), (2,)])
    lake.delete_equal(["data", "part"], [(None, "a"), ("row 5", "c"), ("row 6", "b")])
    lake.append(numbered(1))
    lake.agree(11 - 4 + 1)
    lake.commit(UpdateSpec(spec=SpecEvolution.of_table(lake.table.metadata).add_field("part").apply()))
    lake.append(numbered(20, 21, 22))
    lake.delete_equal(["id"], [(20,), (21,)], partition=("c",))
    lake.agree(8 + 3 - 1)


def test_deletion_vectors_replace_each_other(lake: Lake) -> None:
    lake.create(SCHEMA, version=3)
    lake.append(numbered(*range(100)))
    lake.append(numbered(*range(100, 200)))
    lake.delete_positions({5, 6, 150})
    lake.delete_positions({7, 151})
    lake.agree(195)


def test_a_v1_table_grows_to_v3_with_position_deletes_under_vectors(lake: Lake) -> None:
    lake.create(SCHEMA, version=1)
    lake.append(numbered(*range(10)))
    lake.commit(UpgradeFormatVersion(format_version=2))
    lake.delete_positions({1, 2}, "partition")
    lake.append(numbered(*range(10, 20)))
    lake.commit(UpgradeFormatVersion(format_version=3))
    lake.append(numbered(*range(20, 30)))
    lake.delete_positions({3, 11, 21})
    lake.agree(25)
    lake.run_java("DELETE FROM {T} WHERE id = 12", "INSERT INTO {T} VALUES (40, 'x', 'y')")
    lake.agree(25)


def test_defaults_fill_old_rows(lake: Lake) -> None:
    lake.create(SCHEMA, version=3)
    lake.append(numbered(1, 2))
    lake.evolve(
        lambda e: (
            e.add_column("n", INT, default=7)
            .add_column("s", STRING, default="né", required=True)
            .add_column("amount", DecimalType(precision=9, scale=2), default=Decimal("1.50"))
            .add_column("day", DATE, default=19000)
            .add_column("at", TIMESTAMPTZ, default=10**15)
            .add_column("raw", BINARY, default=b"\x00\xff")
        )
    )
    lake.append([(3, "c", "c", 1, "s", None, None, None, None)])
    lake.agree(3)


def test_row_ids_and_their_sequence_numbers(lake: Lake) -> None:
    lake.create(SCHEMA, version=3)
    lake.append(numbered(*range(5)))
    lake.append(numbered(*range(5, 10)))
    lake.delete_positions({3})
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    before = lake.our_rows(columns=columns)
    assert lake.java_rows(columns=", ".join(columns)) == before
    lake.maintain("rewrite_data_files", rewrite_all="true")
    assert lake.our_rows(columns=columns) == before
    assert lake.java_rows(columns=", ".join(columns)) == before


@pytest.mark.parametrize("version", [2, 3])
def test_branches_tags_and_time_travel(lake: Lake, version: int) -> None:
    lake.create(SCHEMA, version=version)
    first = lake.append(numbered(1, 2))
    lake.commit(SetRef(ref="v1", snapshot_id=first, type="tag"))
    lake.append(numbered(3))
    lake.commit(SetRef(ref="dev", snapshot_id=first))
    lake.append(numbered(10, 11), branch="dev")
    lake.evolve(lambda e: e.add_column("later", INT).rename_column("data", "text"))
    lake.append([(4, "d", "a", 1)])
    lake.agree(4)
    for ref in ("v1", "dev", "main"):
        assert lake.java_rows(ref) == lake.our_rows(Scan(ref=ref)), ref
    lake.run_java("INSERT INTO {T}.branch_dev VALUES (12, 'j', 'a', 9)")
    assert lake.java_rows("dev") == lake.our_rows(Scan(ref="dev"))
    assert len(lake.our_rows(Scan(ref="dev"))) == 5


@pytest.mark.parametrize("version", [1, 2, 3])
def test_after_every_maintenance_action(lake: Lake, version: int) -> None:
    lake.create(SCHEMA, by("identity", 3), version=version)
    for i in range(6):
        lake.append(numbered(*range(10 * i, 10 * i + 10)))
    if version > 1:
        lake.delete_positions({4, 44}, "partition")
        expected = 58
    else:
        expected = 60
    before = lake.agree(expected)
    assert lake.maintain("rewrite_data_files", rewrite_all="true").status == "committed"
    assert lake.agree(expected) == before
    lake.append(numbered(100))
    lake.maintain("rewrite_manifests")
    lake.maintain("rewrite_position_delete_files")
    lake.agree(expected + 1)
    soon = str(lake.table.metadata.last_updated_ms + 1)
    assert lake.maintain("expire_snapshots", older_than=soon, retain_last="1").status == "committed"
    assert len(lake.table.metadata.snapshots) == 1
    lake.agree(expected + 1)
    lake.run_java("DELETE FROM {T} WHERE id = 50", "INSERT INTO {T} VALUES (200, 'j', 'a')")
    lake.agree(expected + 1)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_gzipped_metadata(lake: Lake, version: int) -> None:
    lake.create(SCHEMA, version=version, write_metadata_compression__codec="gzip")
    lake.append(numbered(*range(3)))
    assert lake.table.metadata_location.endswith(".gz.metadata.json")
    lake.agree(3)
    lake.run_java("INSERT INTO {T} VALUES (3, 'j', 'a')")
    lake.append(numbered(4))
    lake.agree(5)


def test_avro_data_files(lake: Lake) -> None:
    lake.create(TYPES, write_format_default="avro")
    lake.append([everything(i) for i in range(20)])
    lake.agree(20)
