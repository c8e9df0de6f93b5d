"""Reads rows: a task's file, without deleted rows, filtered, in the read schema.

The order is the spec's (SCAN-16): physical rows get their positions; deletion vectors or position deletes, then equality deletes,
then the residual remove rows; the remaining rows are projected. Columns that only deletes or the residual need are read and
dropped. A file is streamed: one batch is in memory at a time, or a few if the next ones are read ahead.

``iceberg_ops.scan`` plans which files and deletes a scan has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.data.arrow.arrow_schema import arrow_schema
from iceberg_ops.data.arrow.arrow_values import bare_batch
from iceberg_ops.data.arrow.one_schema import with_schema
from iceberg_ops.data.arrow.read_ahead import prefetched
from iceberg_ops.data.arrow.stored_texts import with_checked_texts
from iceberg_ops.data.columns.file_columns import FileColumn
from iceberg_ops.data.columns.former_forms import forbid_former
from iceberg_ops.data.columns.metadata_values import check_can_be_scanned, lineage_fields, with_metadata_columns
from iceberg_ops.data.columns.missing_values import MissingValues, of_partition
from iceberg_ops.data.columns.projection import needed_leaves, project
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.columns.row_filter import matching
from iceberg_ops.data.deletes.delete_keys import descend, load_delete_keys, positions_with_keys
from iceberg_ops.data.deletes.position_deletes import deleted_positions, kept
from iceberg_ops.data.formats.any_format import BATCH_ROWS, OpenFile, open_file
from iceberg_ops.errors import CorruptTableError, FormerColumnsError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression, Predicate, field_ids, leaves
from iceberg_ops.io.far_files import inputs_ahead
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.types import IcebergType, NestedField
from iceberg_ops.table.table import Table

WHOLE_BYTES = 8 << 20
"""A file up to this size is requested as a whole (``tasks_ahead``) if all its columns are needed."""
_AHEAD_BYTES = 8 << 20
"""A scan reads the next batches of a task ahead if it has more bytes than this: for less, a thread costs more than it gains."""


@dataclass(slots=True)
class ReadCounts:
    """The counts of a task's rows: ``physical`` in the part read, ``deleted`` by deletes, ``filtered`` out by the residual. Row
    groups that the residual excludes by their statistics are not read, and not counted."""

    physical: int = 0
    deleted: int = 0
    filtered: int = 0
    deleted_by_equality: int = field(default=0)


def read_task(
    task: FileScanTask,
    context: ReadContext,
    io: FileIO,
    *,
    batch_rows: int = BATCH_ROWS,
    keep_dictionaries: bool = False,
    read_ahead: bool = False,
    counts: ReadCounts | None = None,
) -> Iterator[pa.RecordBatch]:
    """The task's live rows that match its residual, as ``context.projected``; empty batches are skipped.

    ``keep_dictionaries`` returns dictionary-encoded text columns as dictionaries (batches of one file may then differ in type).
    ``read_ahead``: a thread decodes the next batches at the same time. Raises CorruptTableError, UnsupportedError, WhereError.
    """
    counts = counts if counts is not None else ReadCounts()
    reading = _Reading(task, context, io, keep_dictionaries)
    opened = open_file(io, task.file_path, task.data_file.file_format, context.column_ids)
    decoded = opened.batches(reading.leaves(opened), task.start, task.length, batch_rows, reading.residual)
    batches = prefetched(decoded, depth=1) if read_ahead else decoded
    try:
        for position, batch, columns in batches:
            counts.physical += batch.num_rows
            out = reading.rows(position, batch, columns, counts)
            if out.num_rows:
                yield out
    finally:
        batches.close()
        opened.close()


def tasks_ahead(io: FileIO, tasks: Iterable[FileScanTask], *, whole: int = 0) -> AbstractContextManager[FileIO]:
    """Within this context the files of ``tasks`` and their deletes are read soon, in this order; of one up to ``whole`` bytes all
    columns."""
    files = (file for task in tasks for file in (*(delete.data_file for delete in task.deletes), task.data_file))
    return inputs_ahead(io, {file.file_path: file.file_size_in_bytes for file in files}, whole=whole)


class _Reading:
    """One task during reading: its deletes are loaded, its filter is bound."""

    def __init__(self, task: FileScanTask, context: ReadContext, io: FileIO, keep_dictionaries: bool) -> None:
        self.task, self.context, self.keep = task, context, keep_dictionaries
        self.residual = _bound(task.residual, context)
        self.positions = deleted_positions(io, task.deletes, task.file_path)
        self.missing = of_partition(partition_constants(task, context), (context.table_schema, *context.schemas))
        self.keys = load_delete_keys(io, task.deletes, context)
        self.with_keys = [positions_with_keys(task, keys, self._key_column, io) for keys in self.keys.many]
        self.paths: dict[int, NestedField] = {i: context.path_to(i) for i in sorted(self.keys.ids | field_ids(self.residual))}
        self.filter_paths = {i: _path_in_read_schema(context, i) for i in field_ids(self.residual)}
        self.lineage = lineage_fields(context.projected)

    def leaves(self, opened: OpenFile) -> set[int]:
        """Numbers of the file's leaves to read. Raises FormerColumnsError."""
        stored = self.context.stored_fields
        leaf_paths = [*stored, *self.paths.values()] if self.paths else stored
        forbid_former(self.task.file_path, self.task.data_file.file_format, opened.columns, leaf_paths, self.context)
        return needed_leaves(leaf_paths, opened.columns)

    def rows(self, position: int, batch: pa.RecordBatch, columns: Sequence[FileColumn], counts: ReadCounts) -> pa.RecordBatch:
        mask = self._kept(position, batch.num_rows, counts)
        positions: npt.NDArray[np.int64] | None = None
        if self.context.projected.fields != self.context.data_fields:
            positions = np.arange(position, position + batch.num_rows)
        before = batch.num_rows
        batch, positions = _filtered(batch, positions, mask)
        for keys in self.keys.few:
            if not batch.num_rows:
                break
            matched = keys.matches(lambda i: self._leaf(batch, columns, self.paths[i], i))  # noqa: B023 - it is called at once
            counts.deleted_by_equality += int(matched.sum())
            batch, positions = _filtered(batch, positions, ~matched if matched.any() else None)
        counts.deleted += before - batch.num_rows
        before = batch.num_rows
        if self.residual != ALWAYS_TRUE and batch.num_rows:
            arrays = {i: self._leaf(batch, columns, f, i) for i, f in self.filter_paths.items()}
            matched = np.asarray(matching(self.residual, arrays, batch.num_rows))
            batch, positions = _filtered(batch, positions, None if matched.all() else matched)
        counts.filtered += before - batch.num_rows
        return self._projected(batch, columns, positions)

    def _kept(self, position: int, rows: int, counts: ReadCounts) -> npt.NDArray[np.bool_] | None:
        """Rows that remain after the deletes whose positions are known before rows are read; None: all."""
        mask = kept(self.positions, position, rows)
        for positions in self.with_keys:
            mask_of_kept = kept(positions, position, rows)
            if mask_of_kept is not None:
                left = mask_of_kept if mask is None else mask & mask_of_kept
                counts.deleted_by_equality += (rows if mask is None else int(mask.sum())) - int(left.sum())
                mask = left
        return mask

    def _key_column(self, batch: pa.RecordBatch, columns: Sequence[FileColumn], field_id: int) -> pa.Array:
        return self._leaf(batch, columns, self.context.path_to(field_id), field_id)

    def _leaf(self, batch: pa.RecordBatch, columns: Sequence[FileColumn], path: NestedField, field_id: int) -> pa.Array:
        """The values of the field at the end of a path; a null struct on the path is a null value."""
        array = self._project(batch, columns, (path,), keep=True).column(0)
        return descend(array, path, field_id)

    def _project(
        self, batch: pa.RecordBatch, columns: Sequence[FileColumn], fields: tuple[NestedField, ...], *, keep: bool
    ) -> pa.RecordBatch:
        """Raises FormerColumnsError if former types of the table's columns can read the file and the current ones cannot."""
        try:
            return project(batch, columns, fields, self.missing, keep_dictionaries=keep)
        except CorruptTableError as e:
            if any(_reads(batch, columns, former, self.missing) for former in self.context.former_fields(fields)):
                raise FormerColumnsError.from_error(e) from None
            raise

    def _projected(
        self, batch: pa.RecordBatch, columns: Sequence[FileColumn], positions: npt.NDArray[np.int64] | None
    ) -> pa.RecordBatch:
        fields = self.context.data_fields
        data = self._project(batch, columns, fields, keep=self.keep)
        if positions is None:
            return data
        stored = project(batch, columns, self.lineage)
        return with_metadata_columns(data, stored, positions, self.task, self.context)


def _reads(batch: pa.RecordBatch, columns: Sequence[FileColumn], fields: Sequence[NestedField], missing: MissingValues) -> bool:
    try:
        project(batch, columns, fields, missing)
    except CorruptTableError:
        return False
    return True


def _filtered(
    batch: pa.RecordBatch, positions: npt.NDArray[np.int64] | None, mask: npt.NDArray[np.bool_] | None
) -> tuple[pa.RecordBatch, npt.NDArray[np.int64] | None]:
    if mask is None:
        return batch, positions
    positions = None if positions is None else positions[mask]
    if not batch.num_columns:
        return bare_batch(int(mask.sum())), positions
    # Column by column: filtering a whole batch first converts the mask to indices, which takes twice as long.
    keep = pa.array(mask)
    return pa.RecordBatch.from_arrays([column.filter(keep) for column in batch.columns], schema=batch.schema), positions


def _bound(residual: Expression, context: ReadContext) -> Expression:
    if any(isinstance(leaf, Predicate) for leaf in leaves(residual)):
        return bind(context.table_schema, residual)
    return residual


def _path_in_read_schema(context: ReadContext, field_id: int) -> NestedField:
    """A filter compares in the read schema's type; deletes compare in the widest one."""
    return ReadContext(table_schema=context.table_schema, projected=context.projected).path_to(field_id)


def partition_constants(task: FileScanTask, context: ReadContext) -> dict[int, tuple[IcebergType, Any]]:
    """Values of identity-partition source columns, at any depth, for columns missing in the file (SCHEMA-12); each with its
    type."""
    spec = context.specs.get(task.spec_id)
    if spec is None:
        return {}
    constants: dict[int, tuple[IcebergType, Any]] = {}
    for f, value in zip(spec.fields, task.data_file.partition, strict=False):
        if f.transform.is_identity:
            constants[f.source_id] = context.type_of_values(f.source_id), value
    return constants


def scan_batches(
    table: Table, scan: Scan | None = None, columns: Sequence[str] | None = None, *, check_texts: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of a scan, batch by batch; ``columns`` are top-level or metadata column names (None: all). With ``check_texts``,
    text that is not UTF-8 is a CorruptTableError that names the file.

    The scan is planned, and checked, before the first batch is requested. Raises UnsupportedError (a column that only a changelog
    has), SchemaError, WhereError, CorruptTableError.
    """
    tasks, context = _planned(table, scan, columns)
    for_texts = context.projected.fields if check_texts else ()
    return (
        with_checked_texts(b, for_texts, task.file_path)
        for task, io in _each_with(tasks, table.io)
        for b in read_task(task, context, io, read_ahead=task.data_bytes > _AHEAD_BYTES)
    )


def _each_with(tasks: Sequence[FileScanTask], io: FileIO) -> Iterator[tuple[FileScanTask, FileIO]]:
    with tasks_ahead(io, tasks) as near:
        yield from ((task, near) for task in tasks)


def scan_table(table: Table, scan: Scan | None = None, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows of a scan as one Arrow table. Raises the errors of ``scan_batches``."""
    tasks, context = _planned(table, scan, columns)
    schema = arrow_schema(context.projected)
    batches = [b for task, io in _each_with(tasks, table.io) for b in read_task(task, context, io)]
    return pa.Table.from_batches([with_schema(b, schema) for b in batches], schema)


def _planned(table: Table, scan: Scan | None, columns: Sequence[str] | None) -> tuple[Sequence[FileScanTask], ReadContext]:
    planned = plan(table, scan or Scan())
    context = ReadContext.for_table(table.metadata, schema=planned.schema, columns=columns)
    check_can_be_scanned(context.projected)
    return planned.tasks, context
