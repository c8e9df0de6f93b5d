"""The rows of ``where_rows`` in tables of every layout: one file or many, Parquet or Avro, partitioned in many ways, with deletes.

A condition must give the same result wherever a row is stored: in any file format, with any statistics, in any partition, beside
any deleted rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.data.writing.delete_files import write_deletion_vectors, write_equality_deletes, write_position_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.expressions.predicates import Expression
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import DAY, HOUR, IDENTITY, MONTH, VOID, YEAR, bucket, truncate
from iceberg_ops.spec.types import V3_TYPE_NAMES, DecimalType
from iceberg_ops.table.table import Table
from tests.expressions.where_rows import SCHEMA, Row, batch_of

TRANSFORMS = (IDENTITY, IDENTITY, VOID, YEAR, MONTH, DAY, HOUR, bucket(3), bucket(7), truncate(1), truncate(4), truncate(1000))
DELETED = 7
"""One row in so many is deleted, where rows are."""


@dataclass(frozen=True)
class RowTable:
    """A table that holds those of the rows that are ``live`` (by id). ``columns``: not all types are in every version."""

    make: str
    table: Table
    columns: frozenset[str]
    live: frozenset[int]

    def ids(self, where: Expression) -> list[int]:
        """Of the rows that a scan gives, ascending: a row given twice is twice here."""
        return sorted(scan_table(self.table, Scan(where=where), columns=["id"]).column(0).to_pylist())


def random_spec(rng: random.Random, schema: Schema, *, decimals: bool = True) -> PartitionSpec:
    """One to three fields over any columns, nested ones among them; ``decimals`` may be truncated."""
    fields: list[PartitionField] = []
    names = [schema.name_of(i) for i, f in schema.fields_by_id.items() if f.type.is_primitive]
    for name in rng.sample(names, rng.choice([1, 1, 2, 3])):
        source = schema.find(name)
        assert source is not None
        fitting = [t for t in TRANSFORMS if t.can_transform(source.type)]
        if isinstance(source.type, DecimalType) and not decimals:
            fitting = [t for t in fitting if t.name != "truncate"]
        transform = rng.choice(fitting)
        fields.append(PartitionField((source.field_id,), 1000 + len(fields), transform, f"p{len(fields)}"))
    return PartitionSpec(1, tuple(fields))


class Maker:
    """Puts rows into tables of one catalog."""

    def __init__(self, catalog: Catalog, namespace: str, rows: Sequence[Row]) -> None:
        self.catalog, self.namespace, self.rows = catalog, namespace, list(rows)
        self._made = 0

    def make(
        self,
        make: str,
        *,
        version: int = 3,
        without: Sequence[str] = (),
        spec: Callable[[Schema], PartitionSpec] | None = None,
        files: int = 1,
        deletes: str = "",
        **properties: str,
    ) -> RowTable:
        """A table of that ``version``; ``deletes``: position, vector or equality, of every seventh row."""
        left_out = {f.name for f in SCHEMA.fields if version < 3 and getattr(f.type, "name", "") in V3_TYPE_NAMES} | set(without)
        schema = SCHEMA.select([f.name for f in SCHEMA.fields if f.name not in left_out])
        self._made += 1
        named = {key.replace("__", "-").replace("_", "."): value for key, value in properties.items()}
        table = self.catalog.create_table(
            (self.namespace, f"t{self._made}"),
            schema,
            spec=spec(schema) if spec else UNPARTITIONED,
            properties={"format-version": str(version), **named},
        )
        batch = batch_of(self.rows).select([f.name for f in schema.fields])
        for n in range(files):
            part = batch.take(pa.array(range(n, batch.num_rows, files)))
            table = commit(self.catalog, table, AppendFiles(added=tuple(_written(table, part, f"op-{n}")))).table
        live = {row[0] for row in self.rows}
        if deletes:
            gone = {i for i in live if i % DELETED == 3}
            table, live = self._deleted(table, gone, deletes), live - gone
        return RowTable(make, table, frozenset(f.name for f in schema.fields), frozenset(live))

    def _deleted(self, table: Table, gone: set[int], kind: str) -> Table:
        context, head = WriteContext.for_table(table.metadata), table.metadata.current_snapshot_id
        if kind == "equality":
            ids = pa.record_batch({"id": pa.array(sorted(gone), pa.int64())})
            id_field = next(f for f in table.schema.fields if f.name == "id")
            files = write_equality_deletes(table.io, context, [id_field.field_id], [ids], operation_id="eq")
        else:
            write = write_deletion_vectors if kind == "vector" else _position_deletes
            files = write(table.io, context, _positions(table, gone), operation_id="pos")
        return commit(self.catalog, table, RowDelta(added_deletes=tuple(files), starting_snapshot_id=head)).table


def _position_deletes(io: Any, context: WriteContext, positions: Any, *, operation_id: str) -> list[DataFile]:
    return write_position_deletes(io, context, positions, "file", operation_id=operation_id)


def _written(table: Table, batch: pa.RecordBatch, operation: str) -> list[DataFile]:
    writer = PartitionedWriter(WriteContext.for_table(table.metadata), table.io, operation_id=operation, fanout=True)
    for start in range(0, batch.num_rows, 8):  # a row group may end after each
        writer.write(batch.slice(start, 8))
    return writer.close()


def _positions(table: Table, gone: set[int]) -> dict[DataFile, list[int]]:
    rows = scan_table(table, Scan(), columns=["_file", "_pos", "id"])
    by_path: dict[str, list[int]] = {}
    for path, position, number in zip(*(c.to_pylist() for c in rows.columns), strict=True):
        if number in gone:
            by_path.setdefault(path, []).append(position)
    files = {task.file_path: task.data_file for task in plan(table, Scan()).tasks}
    return {files[path]: sorted(positions) for path, positions in by_path.items()}
