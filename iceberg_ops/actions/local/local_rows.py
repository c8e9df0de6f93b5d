"""Rows of an update or a merge on lane local: old rows are read with their positions, and new rows are written as they are
made.

``local_update`` and ``local_merge`` decide the new values. A changed row keeps its row id in a v3 table, and its last change
becomes the new snapshot's. Copies of the unchanged rows, for copy-on-write, are written here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.actions.rows.changed_rows import CopyWork, Matched, as_array
from iceberg_ops.actions.rows.row_engine import RowChanges, Statement
from iceberg_ops.data.arrow.stored_texts import column_without_utf8
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.rewriting.copy_without import CopyCounts, check_counts, copy_context, copy_without, take_in
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import DataError
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.table.table import Table

Positions = npt.NDArray[np.int64]
_COPIES = "00001"
"""Task id of copies, so that their names differ from the files of new rows."""


class LocalRows:
    """The rows of one evaluation, for use within ``cleared_up``."""

    def __init__(self, statement: Statement) -> None:
        self._run = statement.run
        self.tasks: list[FileScanTask] = statement.tasks
        self._keeps_ids = statement.keeps_row_ids
        new_rows = statement.context_of_new_rows
        self._names = [f.name for f in new_rows.file_schema.fields]
        self._writer = PartitionedWriter(new_rows, self._run.table.io, operation_id=self._run.operation_id)

    @property
    def schema(self) -> Schema:
        return self._run.table.schema

    def matching_rows(self, task: FileScanTask) -> Iterator[tuple[pa.RecordBatch, Positions]]:
        """The task's rows that match its residual: the table's columns (in v3 followed by their lineage), and the positions."""
        context = copy_context(self._run.table.metadata)
        for batch in read_task(task, context, self._run.table.io):
            last = batch.num_columns - 1
            yield batch.select(list(range(last))), np.asarray(batch.column(last), np.int64)

    def write(self, columns: Sequence[pa.Array], old: pa.RecordBatch | None, place: Callable[[int], str]) -> None:
        """Write rows of the table's columns; ``old`` are the rows they replace. Raises DataError for a missing required value or
        text that is not UTF-8; the error names the column and, by ``place``, the row."""
        for f, column in zip(self.schema.fields, columns, strict=True):
            if f.required and column.null_count:
                row = int(np.argmax(np.asarray(column.is_null())))
                raise DataError(f"column {f.name!r} is required, but {place(row)} would have no value")
            if (name := column_without_utf8(f, column)) is not None:
                row = next(i for i in range(len(column)) if column_without_utf8(f, column.slice(i, 1)))
                raise DataError(f"column {name!r}: {place(row)} would have text that is not UTF-8")
        arrays = list(columns)
        if self._keeps_ids:
            rows = len(arrays[0])
            ids = pa.nulls(rows, pa.int64()) if old is None else old.column(len(arrays))
            arrays += [ids, pa.nulls(rows, pa.int64())]
        self._writer.write(pa.RecordBatch.from_arrays(arrays, names=self._names))

    def changes(self, matched: Matched, *, repeated: int = 0) -> RowChanges:
        """The files that replace the ``matched`` rows."""
        files = list(self._writer.close())
        self._writer.handed_over()
        return RowChanges(matched=matched, files=files, repeated=repeated)

    @contextmanager
    def cleared_up(self) -> Iterator[None]:
        """Delete the files of new rows if the evaluation within this context fails before they are all written."""
        try:
            yield
        except BaseException:
            self._writer.abort()
            raise


def in_file(task: FileScanTask, positions: Positions) -> Callable[[int], str]:
    """Names the rows of a file at ``positions``."""
    return lambda row: f"the row at position {positions[row]} of {task.file_path}"


def copied(table: Table, operation_id: str, work: CopyWork, context: WriteContext) -> list[DataFile]:
    """New files with the rows of ``work``. Raises VerificationError if row counts do not add up."""
    writer = PartitionedWriter(context, table.io, operation_id=operation_id, task_id=_COPIES)
    counts = CopyCounts()
    try:
        places = ((task, as_array(positions)) for task, positions in work.matched)
        read = copy_context(table.metadata)
        copy_without(places, read, table.io, writer, counts)
        take_in(work.taken_in, read, table.io, writer, counts)
        files = list(writer.close())
        check_counts(counts, asked=work.rows_that_go, written=sum(f.record_count for f in files))
    except BaseException:
        writer.abort()
        raise
    return files
