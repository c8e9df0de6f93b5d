"""Files of a test table: written by this package's writers, read back through tasks, without catalog or manifests."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from iceberg_ops.data.arrow.arrow_schema import arrow_schema
from iceberg_ops.data.arrow.arrow_values import array_of, values_of
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, SortOrder

_STORES = itertools.count()


def new_io() -> MemoryFileIO:
    """Separate storage."""
    return MemoryFileIO(f"data-tests-{next(_STORES)}")


def batch_of(schema: Schema, rows: Iterable[Sequence[Any]]) -> pa.RecordBatch:
    """Rows of canonical values as a canonical batch."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema.fields)
    arrays = [array_of(f.type, list(values)) for f, values in zip(schema.fields, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(schema))


def rows_of(schema: Schema, batches: Iterable[pa.RecordBatch]) -> list[tuple[Any, ...]]:
    """Batches as rows of canonical values."""
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        found += zip(*(values_of(f.type, c) for f, c in zip(schema.fields, batch.columns, strict=True)), strict=True)
    return found


def write_context(
    schema: Schema,
    *,
    spec: PartitionSpec = UNPARTITIONED,
    properties: Mapping[str, str] | None = None,
    version: int = 3,
    sort_order: SortOrder = UNSORTED,
    row_lineage: bool = False,
) -> WriteContext:
    return WriteContext(
        schema=schema,
        spec=spec,
        properties=properties or {},
        table_location="memory://wh/t",
        format_version=version,
        default_sort_order=sort_order,
        row_lineage=row_lineage,
    )


def write(
    context: WriteContext, io: MemoryFileIO, rows: Iterable[Sequence[Any]], *, operation_id: str = "op", **options: Any
) -> list[DataFile]:
    """Rows of canonical values as data files."""
    writer = PartitionedWriter(context, io, operation_id=operation_id, **options)
    writer.write(batch_of(context.file_schema, list(rows)))
    return writer.close()


def read(
    files: Iterable[DataFile],
    schema: Schema,
    io: MemoryFileIO,
    *,
    spec: PartitionSpec = UNPARTITIONED,
    schemas: Sequence[Schema] = (),
    deletes: Sequence[DeleteFile] = (),
    where: Expression = ALWAYS_TRUE,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> list[tuple[Any, ...]]:
    """Rows of data files under a schema."""
    context = ReadContext(table_schema=schema, projected=schema, schemas=tuple(schemas) or (schema,), specs={spec.spec_id: spec})
    context = context if columns is None else context.select(columns)
    found: list[tuple[Any, ...]] = []
    for file in files:
        task = FileScanTask(file, options.get("sequence_number", 1), deletes=tuple(deletes), residual=where)
        found += rows_of(context.projected, read_task(task, context, io, batch_rows=options.get("batch_rows", 1000)))
    return found
