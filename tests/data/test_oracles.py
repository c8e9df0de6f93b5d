"""Tables written here are read by pyiceberg and DuckDB with equal rows: types, partitions, position and equality deletes (GEN-08,
PARQUET-01, DEL-POS-01, DEL-EQ-01)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import duckdb_extensions
import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from iceberg_ops.catalog.memory import MemoryCatalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.writing.delete_files import write_equality_deletes, write_position_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import bucket
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
    DecimalType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from iceberg_ops.table.table import Table
from tests.data.files import batch_of

pytestmark = pytest.mark.oracle

SCHEMA = Schema.of(
    NestedField(1, "id", LONG, True),
    NestedField(2, "flag", BOOLEAN),
    NestedField(3, "n", INT),
    NestedField(4, "f", FLOAT),
    NestedField(5, "d", DOUBLE),
    NestedField(6, "amount", DecimalType(precision=12, scale=2)),
    NestedField(7, "day", DATE),
    NestedField(8, "at", TIMESTAMP),
    NestedField(9, "instant", TIMESTAMPTZ),
    NestedField(10, "name", STRING),
    NestedField(11, "raw", BINARY),
    NestedField(12, "point", StructType((NestedField(13, "x", INT), NestedField(14, "label", STRING)))),
    NestedField(15, "tags", list_of(16, STRING)),
    NestedField(17, "scores", map_of(18, STRING, 19, LONG)),
)
NULLS: tuple[Any, ...] = (None,) * 13


def row(i: int) -> tuple[Any, ...]:
    if i % 7 == 0:
        return (i, *NULLS)
    point = (i, f"p{i}") if i % 3 else None
    return (
        i, i % 2 == 0, -i, i / 2, i / 3, Decimal(i).scaleb(-2) + Decimal("0.00"), i, i * 10**6, -i * 10**6, f"näme {i % 5}",
        bytes([i % 256]), point, [f"t{i}", None], [("a", i)],
    )  # fmt: skip


def make(folder: Path, spec: PartitionSpec) -> tuple[MemoryCatalog, Table, list[DataFile]]:
    catalog = MemoryCatalog("oracle", LocalFileIO())
    catalog.create_namespace(("ns",))
    properties = {"format-version": "2", "write.parquet.compression-codec": "zstd"}
    table = catalog.create_table(("ns", "t"), SCHEMA, spec=spec, location=str(folder), properties=properties)
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id="op")
    writer.write(batch_of(SCHEMA, [row(i) for i in range(200)]))
    files = writer.close()
    committed = commit(catalog, table, AppendFiles(added=tuple(files)))
    return catalog, committed.table, files


def with_deletes(catalog: MemoryCatalog, table: Table, deletes: list[DataFile]) -> Table:
    operation = RowDelta(added_deletes=tuple(deletes), starting_snapshot_id=table.metadata.current_snapshot_id)
    return commit(catalog, table, operation).table


def by_pyiceberg(table: Table) -> pa.Table:
    return StaticTable.from_metadata(table.metadata_location).scan().to_arrow()


def by_duckdb(table: Table) -> pa.Table:
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "iceberg"):
        duckdb_extensions.import_extension(name, con=connection)
    connection.execute("set timezone = 'UTC'")
    return connection.execute(f"select * from iceberg_scan('{table.metadata_location}')").to_arrow_table()


def rows(found: pa.Table) -> list[Any]:
    return sorted(found.to_pylist(), key=lambda r: r["id"])


@pytest.mark.parametrize(
    "spec",
    [UNPARTITIONED, PartitionSpec(0, (PartitionField((1,), 1000, bucket(3), "id_bucket"),))],
    ids=["unpartitioned", "bucket"],
)
@pytest.mark.parametrize("oracle", [by_pyiceberg, by_duckdb])
def test_an_append_reads_the_same_elsewhere(tmp_path: Path, spec: PartitionSpec, oracle: Any) -> None:
    _, table, _ = make(tmp_path / "t", spec)
    ours = rows(scan_table(table))
    assert len(ours) == 200
    assert repr(rows(oracle(table))) == repr(ours)


@pytest.mark.parametrize("oracle", [by_pyiceberg, by_duckdb])
@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_deletes_read_the_same_elsewhere(tmp_path: Path, oracle: Any, granularity: str) -> None:
    catalog, table, files = make(tmp_path / "t", UNPARTITIONED)
    context = WriteContext.for_table(table.metadata)
    deletes = write_position_deletes(table.io, context, {files[0]: range(0, 200, 9)}, granularity, operation_id="d")
    table = commit(
        catalog, table, RowDelta(added_deletes=tuple(deletes), starting_snapshot_id=table.metadata.current_snapshot_id)
    ).table
    ours = rows(scan_table(table))
    assert [r["id"] for r in ours] == [i for i in range(200) if i % 9]
    assert repr(rows(oracle(table))) == repr(ours)


def test_equality_deletes_read_the_same_in_duckdb(tmp_path: Path) -> None:
    catalog, table, _ = make(tmp_path / "t", UNPARTITIONED)
    context = WriteContext.for_table(table.metadata)
    keys = batch_of(SCHEMA, [row(i) for i in (3, 50, 199)])
    ids = [f.field_id for f in table.schema.fields if f.name in ("id", "name")]
    deletes = write_equality_deletes(table.io, context, ids, [keys], operation_id="e")
    table = commit(
        catalog, table, RowDelta(added_deletes=tuple(deletes), starting_snapshot_id=table.metadata.current_snapshot_id)
    ).table
    ours = rows(scan_table(table))
    assert [r["id"] for r in ours] == [i for i in range(200) if i not in (3, 50, 199)]
    assert repr(rows(by_duckdb(table))) == repr(ours)
