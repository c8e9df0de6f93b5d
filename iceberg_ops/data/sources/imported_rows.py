"""Checks the rows of another writer's Parquet file before the file becomes part of a table.

Readers rely on four rules. The rows are checked only for those columns for which the footer does not prove the rule:

* the source column of an identity partition field (at any depth of structs) holds the partition's value in every row. Planning
  uses the partition, reading the file's column if there is one (spec: "Column Projection"), so rows would be found by one
  value and shown with the other;
* a required column holds no null, at any depth: the table could not be rewritten, because no file can be written from such rows;
* dates and times of a coarser unit than the table's are in its range, because every scan of the file would fail;
* dates are in today's calendar. Spark before 3 and Hive stored those before 1582-10-15 in another one, and noted that in the
footer; readers of a table do not check this note and would show other days.

The rows are read as in a scan.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.arrow.arrow_values import array_of, values_of
from iceberg_ops.data.arrow.nested_nulls import map_entries
from iceberg_ops.data.columns.file_columns import FileColumn, child_arrow_fields, find_column
from iceberg_ops.data.columns.missing_values import ancestors
from iceberg_ops.data.columns.partition_values import distinct
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.deletes.delete_keys import descend
from iceberg_ops.data.formats.footer_statistics import holds_nulls_only
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.sources.source_fit import writer_of_old_calendar
from iceberg_ops.data.writing.conform import check_required
from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.io.changing_files import ChangingFilesIO
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.name_mapping import NameMapping
from iceberg_ops.spec.partition_keys import value_identity
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import VARIANT, IcebergType, ListType, MapType, NestedField, StructType, child_fields

_MOST = (1 << 63) - 1
_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_NANOS_OF_DAY = 86_400 * 10**9
_FIRST_GREGORIAN = -141_427
"""1582-10-15 in days."""
_INSTEAD = {
    "Spark": "Write these rows with append on lane spark instead",
    "Hive": "Let Hive write these rows as text, and append that instead",
}


@dataclass(frozen=True, slots=True)
class Footer:
    """A file's footer with its columns as the table resolves them, and its Arrow schema."""

    metadata: pq.FileMetaData
    columns: Sequence[FileColumn]
    arrow: pa.Schema

    def chunks(self, leaf: int) -> list[pq.ColumnChunkMetaData]:
        return [self.metadata.row_group(g).column(leaf) for g in range(self.metadata.num_row_groups)]

    def has_no_null(self, leaf: int) -> bool:
        """Whether the footer says so. Inside lists and maps its count differs from the rows'."""
        if self.metadata.schema.column(leaf).max_repetition_level:
            return False
        statistics = [k.statistics for k in self.chunks(leaf)]
        return all(s is not None and s.has_null_count and s.null_count == 0 for s in statistics)


def check_rows(io: FileIO, file: DataFile, footer: Footer, schema: Schema, spec: PartitionSpec, mapping: NameMapping) -> None:
    """Raise DataError, with the file and the column, for rows that a reader of the table could not rely on."""
    context = ReadContext(table_schema=schema, projected=schema, specs={spec.spec_id: spec}, name_mapping=mapping)
    try:
        _check_partition(io, file, footer, context)
        _check_calendar(io, file, footer, context)
        fields = [f for f in schema.fields if _is_doubtful(f, footer, schema, spec)]
        if fields:
            for batch in _read(io, file, context, fields):
                check_required(batch, Schema(StructType(tuple(fields))))
    except (CorruptTableError, DataError) as e:
        raise DataError(str(e) if file.file_path in str(e) else f"file {file.file_path}: {e}") from None


def _read(io: FileIO, file: DataFile, context: ReadContext, fields: Sequence[NestedField]) -> Iterator[pa.RecordBatch]:
    return read_task(FileScanTask(file, sequence_number=0), context.select(fields), ChangingFilesIO(io))


def _check_partition(io: FileIO, file: DataFile, footer: Footer, context: ReadContext) -> None:
    """A top-level column that the file lacks is read from the partition; inside a struct, the struct may be null."""
    schema, spec = context.table_schema, context.specs[file.spec_id]
    for field, value in zip(spec.fields, file.partition, strict=True):
        is_inside = not field.transform.is_void and schema.parents[field.source_id] is not None
        if not field.transform.is_identity or not (is_inside or find_column(footer.columns, field.source_id)):
            continue
        type_, path = schema.field(field.source_id).type, context.path_to(field.source_id)
        for batch in _read(io, file, context, [path]):
            held = descend(batch.column(0), path, field.source_id)
            if (wrong := _other_than(value, type_, held)) is not None:
                raise DataError(f"column {schema.name_of(field.source_id)!r} holds {wrong}, its folder says {_shown(type_, value)}")


def _check_calendar(io: FileIO, file: DataFile, footer: Footer, context: ReadContext) -> None:
    for f in context.table_schema.fields:
        column = find_column(footer.columns, f.field_id)
        writers = [] if column is None else [_writer_of_old_dates(n, type_, footer) for n, type_ in _leaves(column)]
        writer = next(filter(None, writers), None)
        if writer is not None and any(_is_before_gregorian(f.type, b.column(0)) for b in _read(io, file, context, [f])):
            raise DataError(
                f"column {f.name!r} holds dates before 1582-10-15, and {writer} wrote them in another calendar, which readers of "
                f"a table do not know: they would be other days. {_INSTEAD[writer]}"
            )


def _leaves(column: FileColumn) -> Iterator[tuple[int, pa.DataType]]:
    if not column.children:
        yield column.leaves[0], column.type
    for child in column.children:
        yield from _leaves(child)


def _writer_of_old_dates(leaf: int, stored: pa.DataType, footer: Footer) -> str | None:
    """The engine that stored a leaf in another calendar; None also if the footer shows that no value is so old that this
    matters."""
    writer = writer_of_old_calendar(footer.metadata, footer.metadata.schema.column(leaf))
    if writer is None or not (pa.types.is_timestamp(stored) or pa.types.is_date(stored)):
        return None
    first = _FIRST_GREGORIAN * (1 if pa.types.is_date(stored) else _NANOS_OF_DAY // _NANOS[stored.unit])
    is_open = any(not holds_nulls_only(k) and not _begins_at(k.statistics, first) for k in footer.chunks(leaf))
    return writer if is_open else None


def _begins_at(statistics: pq.Statistics | None, first: int) -> bool:
    low = statistics.min_raw if statistics is not None and statistics.has_min_max else None
    return isinstance(low, int) and low >= first


def _is_before_gregorian(type_: IcebergType, array: pa.Array) -> bool:
    if isinstance(type_, StructType):
        return any(_is_before_gregorian(f.type, part) for f, part in zip(type_.fields, array.flatten(), strict=True))
    if isinstance(type_, ListType):
        return _is_before_gregorian(type_.element.type, array.flatten())
    if isinstance(type_, MapType):
        parts = zip((type_.key, type_.value), map_entries(array).flatten(), strict=True)
        return any(_is_before_gregorian(f.type, part) for f, part in parts)
    if pa.types.is_date32(array.type):
        least, first = pc.min(array.view(pa.int32())).as_py(), _FIRST_GREGORIAN
    elif pa.types.is_timestamp(array.type):
        least, first = pc.min(array.view(pa.int64())).as_py(), _FIRST_GREGORIAN * (_NANOS_OF_DAY // _NANOS[array.type.unit])
    else:
        return False
    return least is not None and least < first


def _other_than(value: Any, type_: IcebergType, held: pa.Array) -> str | None:
    """A value in ``held`` that differs from ``value``, as text; NaN equals NaN."""
    values = values_of(type_, distinct(held).dictionary) + ([None] if held.null_count else [])
    return next((_shown(type_, v) for v in values if value_identity(v) != value_identity(value)), None)


def _shown(type_: IcebergType, value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, uuid.UUID) else str(array_of(type_, [value])[0])


def _is_doubtful(f: NestedField, footer: Footer, schema: Schema, spec: PartitionSpec) -> bool:
    column = find_column(footer.columns, f.field_id)
    if column is None:  # The partition may create a struct, in which a required field has no value.
        return any(f.field_id in ancestors(schema, i) for field in spec.fields for i in field.source_ids)
    return _needs_reading(f, column, footer.arrow.field(column.index), footer)


def _needs_reading(f: NestedField, column: FileColumn, stored: pa.Field, footer: Footer) -> bool:
    """Whether the rows must be read, because the footer does not exclude a forbidden null or a value out of range."""
    if f.required and stored.nullable and not any(map(footer.has_no_null, column.leaves)):
        return True
    if f.type.is_primitive:
        return f.type != VARIANT and not column.children and _may_leave_range(column.type, f.type, footer.chunks(column.leaves[0]))
    parts = {child.field_id: child for child in child_fields(f.type)}
    if any(child.required for i, child in parts.items() if i not in {c.field_id for c in column.children}):
        return True
    below = child_arrow_fields(column.type)
    return any(c.field_id in parts and _needs_reading(parts[c.field_id], c, below[c.index], footer) for c in column.children)


def _may_leave_range(stored: pa.DataType, target_type: IcebergType, chunks: Collection[pq.ColumnChunkMetaData]) -> bool:
    """Whether a date or time may be out of range for a finer unit: the footer shows one, or has no bounds."""
    if not (pa.types.is_timestamp(stored) or pa.types.is_date(stored)) or not pa.types.is_timestamp(
        target := arrow_type(target_type)
    ):
        return False
    nanos = _NANOS_OF_DAY if pa.types.is_date(stored) else _NANOS[stored.unit]
    most = _MOST // max(1, nanos // _NANOS[target.unit])
    return any(not holds_nulls_only(k) and not _is_within(k.statistics, most) for k in chunks)


def _is_within(statistics: pq.Statistics | None, most: int) -> bool:
    if statistics is None or not statistics.has_min_max:
        return False
    low, high = statistics.min_raw, statistics.max_raw
    return isinstance(low, int) and isinstance(high, int) and -most <= low <= high <= most
