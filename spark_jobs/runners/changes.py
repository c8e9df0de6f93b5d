"""Writing what a row operation changes: new rows into data files, changed positions into bitmaps, in one pass on the executors.

Each input row carries ``_change``, what is to become of it, beside its place (``_file``, ``_pos``) and the table's columns:

=========  ========================  ==================
_change    position is deleted       row is written
=========  ========================  ==================
KEEP       no (only checked)         no
DELETE     yes                       no
UPDATE     yes                       yes
INSERT     no                        yes
=========  ========================  ==================

A task answers with rows, not exceptions, so that the driver can raise the typed error and clean up what the other tasks staged.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark import TaskContext
from pyspark.sql import DataFrame

from iceberg_ops import errors
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.data.writer import PartitionedWriter
from iceberg_ops.io.load import load_file_io
from iceberg_ops.serde.content_file_json import data_file_from_dict, data_file_to_dict
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN
from spark_jobs.runners.spark_schema import from_spark

CHANGE_COLUMN = "_change"
KEEP, DELETE, UPDATE, INSERT = 0, 1, 2, 3

_ANSWER = "kind string, number int, payload binary, counted long"


@dataclass(slots=True)
class Changes:
    """What the executors wrote: ``files`` staged, positions to delete by task index, and how many rows stood for each kind.

    ``seen`` counts every placed row before positions are merged: where it exceeds the distinct positions, one target row was
    matched by several source rows.
    """

    files: list[DataFile] = field(default_factory=list)
    deleted: dict[int, BitMap64] = field(default_factory=dict)
    matched: dict[int, BitMap64] = field(default_factory=dict)
    seen: int = 0

    @property
    def rows_deleted(self) -> int:
        return sum(len(b) for b in self.deleted.values())

    @property
    def rows_written(self) -> int:
        return sum(f.record_count for f in self.files)

    @property
    def repeated(self) -> int:
        """Placed rows beyond the first for their position."""
        return self.seen - sum(len(b) for b in self.matched.values())


def write_changes(
    rows: DataFrame, context: WriteContext, io_properties: Mapping[str, str], operation_id: str, *, writes_rows: bool = True
) -> Changes:
    """Run ``rows`` and gather what was written; without ``writes_rows`` they need not have the table's columns.

    On a task's typed error every staged file of the answered tasks is deleted, and the error raised.
    """
    answers = rows.mapInArrow(_writer(context.to_json(), dict(io_properties), operation_id, writes_rows), _ANSWER).collect()
    changes = Changes()
    failure: tuple[str, str] | None = None
    for kind, number, payload, counted in answers:
        if kind == "file":
            changes.files.append(data_file_from_dict(json.loads(bytes(payload))))
        elif kind == "error":
            failure = failure or tuple(json.loads(bytes(payload)))
        else:
            into = changes.deleted if kind == "deleted" else changes.matched
            into[number] = into.get(number, BitMap64()) | BitMap64.deserialize(bytes(payload))
            changes.seen += counted
    if failure:
        load_file_io(io_properties).delete_many([f.file_path for f in changes.files])
        raise typed_error(*failure)
    return changes


def typed_error(code: str, message: str) -> errors.IcebergOpsError:
    """The exception of the tree that carries ``code``."""
    pending: list[type[errors.IcebergOpsError]] = [errors.IcebergOpsError]
    while pending:
        kind = pending.pop()
        if kind.code == code:
            return kind(message)
        pending.extend(kind.__subclasses__())
    return errors.IcebergOpsError(message)


def _writer(
    context_json: str, io_properties: dict[str, str], operation_id: str, writes_rows: bool
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pa.set_cpu_count(1)
        task = _TaskChanges(WriteContext.from_json(context_json), io_properties, operation_id, writes_rows)
        try:
            for batch in batches:
                task.add(batch)
            answers = task.finish()
        except errors.IcebergOpsError as e:
            task.abort()
            answers = [("error", 0, json.dumps([e.code, str(e)]).encode(), 0)]
        except BaseException:
            task.abort()
            raise
        yield _answer_batch(answers)

    return write


def _answer_batch(answers: list[tuple[str, int, bytes, int]]) -> pa.RecordBatch:
    kinds, numbers, payloads, counts = zip(*answers, strict=True) if answers else ((), (), (), ())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(kinds, pa.string()),
            pa.array(numbers, pa.int32()),
            pa.array(payloads, pa.binary()),
            pa.array(counts, pa.int64()),
        ],
        names=["kind", "number", "payload", "counted"],
    )


class _TaskChanges:
    """One task attempt's writer and bitmaps."""

    def __init__(self, context: WriteContext, io_properties: dict[str, str], operation_id: str, writes_rows: bool) -> None:
        self._writes_rows = writes_rows
        self._schema: Schema = context.schema
        attempt = TaskContext.get()
        # The attempt number is part of the name: a speculative twin never writes to the same path.
        task_id = f"{attempt.partitionId():05d}-{attempt.taskAttemptId()}" if attempt else "00000-0"
        self._writer = PartitionedWriter(context, load_file_io(io_properties), operation_id=operation_id, task_id=task_id)
        self._bitmaps: dict[tuple[str, int], BitMap64] = {}
        self._counts: dict[tuple[str, int], int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        change = batch.column(CHANGE_COLUMN)
        if FILE_COLUMN in batch.schema.names:
            placed = batch.filter(pc.not_equal(change, INSERT))
            self._place("matched", placed)
            self._place("deleted", placed.filter(pc.not_equal(placed.column(CHANGE_COLUMN), KEEP)), counted=False)
        if not self._writes_rows:
            return
        written = batch.filter(pc.greater_equal(change, UPDATE))
        if written.num_rows:
            self._writer.write(from_spark(written, self._schema))

    def _place(self, kind: str, rows: pa.RecordBatch, *, counted: bool = True) -> None:
        if not rows.num_rows:
            return
        files = rows.column(FILE_COLUMN)
        for number in pc.unique(files).to_pylist():
            positions = rows.column(POSITION_COLUMN).filter(pc.equal(files, number))
            bitmap = self._bitmaps.setdefault((kind, number), BitMap64())
            bitmap.update(positions.to_numpy(zero_copy_only=False))
            if counted:
                self._counts[kind, number] = self._counts.get((kind, number), 0) + len(positions)

    def finish(self) -> list[tuple[str, int, bytes, int]]:
        answers: list[tuple[str, int, bytes, int]] = [
            ("file", 0, json.dumps(data_file_to_dict(f)).encode(), f.record_count) for f in self._writer.close()
        ]
        for (kind, number), bitmap in self._bitmaps.items():
            answers.append((kind, number, bitmap.serialize(), self._counts.get((kind, number), 0)))
        return answers

    def abort(self) -> None:
        self._writer.abort()
