"""An update or a merge on lane local, from the rows that are read to the commit; what becomes of each row is the job's.

One evaluation on one snapshot: the files that may match are planned, their live rows handed out with their positions, new rows
written as they come, and all of it committed at once. A row that changes keeps its row id in a v3 table, and its last change
becomes the new snapshot's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.actions.changed_rows import ChangedRows, Matched, Mode, row_count
from iceberg_ops.actions.context import Run
from iceberg_ops.actions.row_commits import commit_rows, row_fields
from iceberg_ops.actions.staged_files import delete_staged
from iceberg_ops.actions.write_options import write_context
from iceberg_ops.config.properties import Property
from iceberg_ops.config.row_options import Isolation, WriteOptions
from iceberg_ops.data.copy_without import copy_context
from iceberg_ops.data.reader import read_task
from iceberg_ops.data.stored_texts import column_without_utf8
from iceberg_ops.data.writer import PartitionedWriter
from iceberg_ops.errors import DataError
from iceberg_ops.expressions.predicates import Expression
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import MAIN_BRANCH

Positions = npt.NDArray[np.int64]


class RowStatement:
    """One evaluation, within ``cleared_up``."""

    def __init__(self, run: Run, options: WriteOptions, where: Expression, mode: Property[str], isolation: Property[str]) -> None:
        """Plan the files that may match ``where``, which decides what is in conflict, too. Raises UnsupportedError for a format
        that is not written."""
        self._run = run
        properties, change = run.table.properties, run.job.change
        branch = None if run.job.branch == MAIN_BRANCH else run.job.branch
        with run.step("plan"):
            found = plan(run.table, Scan(ref=branch, where=where))
        self.tasks: list[FileScanTask] = found.tasks
        self._keeps_ids = run.table.metadata.format_version >= 3
        context = write_context(run.table, options)
        self._changed = ChangedRows(
            table=run.table,
            found=found,
            context=context,
            mode=cast("Mode", (change.mode if change else None) or mode.of(properties)),
            isolation=options.isolation or cast("Isolation", isolation.of(properties)),
            conflict_filter=where,
            operation_id=run.operation_id,
            granularity=options.delete_granularity,
            fields=row_fields(run),
        )
        self._changed.check_formats(writes_rows=True)
        new_rows = replace(context, row_lineage=self._keeps_ids)
        self._names = [f.name for f in new_rows.file_schema.fields]
        self._writer = PartitionedWriter(new_rows, run.table.io, operation_id=run.operation_id)

    @property
    def schema(self) -> Schema:
        return self._run.table.schema

    def rows_of(self, task: FileScanTask) -> Iterator[tuple[pa.RecordBatch, Positions]]:
        """The task's rows that match its residual: the table's columns (in v3 with their lineage after them), and the positions."""
        context = copy_context(self._run.table.metadata)
        for batch in read_task(task, context, self._run.table.io):
            last = batch.num_columns - 1
            yield batch.select(list(range(last))), np.asarray(batch.column(last), np.int64)

    def write(self, columns: Sequence[pa.Array], old: pa.RecordBatch | None, place: Callable[[int], str]) -> None:
        """Write rows of the table's columns; ``old`` are the rows they take the place of. Raises DataError that names a column and,
        by ``place``, the row that has no value in it though it must, or text that is no UTF-8."""
        for f, column in zip(self.schema.fields, columns, strict=True):
            if f.required and column.null_count:
                row = int(np.argmax(np.asarray(column.is_null())))
                raise DataError(f"column {f.name!r} is required, but {place(row)} would have no value")
            if (name := column_without_utf8(f, column)) is not None:
                row = next(i for i in range(len(column)) if column_without_utf8(f, column.slice(i, 1)))
                raise DataError(f"column {name!r}: {place(row)} would have text that is no UTF-8")
        arrays = list(columns)
        if self._keeps_ids:
            rows = len(arrays[0])
            ids = pa.nulls(rows, pa.int64()) if old is None else old.column(len(arrays))
            arrays += [ids, pa.nulls(rows, pa.int64())]
        self._writer.write(pa.RecordBatch.from_arrays(arrays, names=self._names))

    def commit(self, matched: Matched) -> None:
        """Commit what was written in the place of the rows ``matched``; nothing where there is neither."""
        run, metrics = self._run, self._run.outcome.metrics
        staged: list[DataFile] = list(self._writer.close())
        self._writer.handed_over()
        metrics |= {"deleted-records": row_count(matched), "added-records": sum(f.record_count for f in staged)}
        if not matched and not staged:
            return
        try:
            with run.step("write deletes" if self._changed.mode == "merge-on-read" else "rewrite files"):
                operation = self._changed.operation(matched, staged)
        except BaseException as e:
            delete_staged(run, [f.file_path for f in staged], after=e)
            raise
        if self._changed.mode == "merge-on-read":
            metrics["added-delete-files"] = sum(f.content is not FileContent.DATA for f in staged)
        else:
            metrics |= {"rewritten-data-files-count": len(matched), "added-data-files": len(staged)}
        commit_rows(run, operation, staged)

    @contextmanager
    def cleared_up(self) -> Iterator[None]:
        """Delete the new rows' files where the evaluation within fails before they are all there."""
        try:
            yield
        except BaseException:
            self._writer.abort()
            raise


def in_file(task: FileScanTask, positions: Positions) -> Callable[[int], str]:
    """Names the rows of a file that stand at ``positions``."""
    return lambda row: f"the row at position {positions[row]} of {task.file_path}"
