"""Writes the changes of a row operation: new rows to data files, changed positions to bitmaps, in one pass on the executors.

Each input row carries ``CHANGE_COLUMN``, its change, besides its place (``FILE_COLUMN``, ``POSITION_COLUMN``) and the
table's columns:

=========  ========================  ==================
change     position is deleted       row is written
=========  ========================  ==================
KEEP       no (only checked)         no
DELETE     yes                       no
UPDATE     yes                       yes
INSERT     no                        yes
=========  ========================  ==================

A row that does not fit the table (``BAD_COLUMN``) has none of these changes: see ``bad_rows``. With ``equality``, every row that is
written or deleted is also a key of an equality delete: see ``upsert_keys``. A task answers with rows, not exceptions, so that the
driver can raise the typed error and delete the files that the other tasks staged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from iceberg_ops import errors
from iceberg_ops.config.report import SkippedFile
from iceberg_ops.data.formats.parquet_options import EncodingHints
from iceberg_ops.data.sorting.sorted_writer import table_writer
from iceberg_ops.data.writing.upsert_keys import KeyPlan, UpsertKeys
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.machine_limits import typed_limits
from iceberg_ops.serde.json.content_file_json import data_file_from_dict, data_file_to_dict
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema
from spark_jobs.runners.bad_rows import BAD_COLUMN, BadChangeError, BadRows
from spark_jobs.runners.column_names import OWN
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN
from spark_jobs.runners.row_ids import RowIds
from spark_jobs.runners.spark_schema import from_spark
from spark_jobs.runners.staged_leftovers import without_leftovers
from spark_jobs.runners.task_process import begin_task

log = logging.getLogger(__name__)

CHANGE_COLUMN = f"{OWN}change"
KEEP, DELETE, UPDATE, INSERT = 0, 1, 2, 3

_ANSWER = "kind string, place string, payload binary, counted long"
Answer = tuple[str, str, bytes, int]
"""Kind, place, payload and count: a row of ``_ANSWER``."""


@dataclass(slots=True)
class Changes:
    """The results of the executors: staged ``files``, positions to delete by ``FILE_COLUMN``, and the number of rows of each kind.

    ``seen`` counts every placed row before positions are merged: if it exceeds the number of distinct positions, several source
    rows matched one target row.
    """

    files: list[DataFile] = field(default_factory=list)
    deleted: dict[str, BitMap64] = field(default_factory=dict)
    matched: dict[str, BitMap64] = field(default_factory=dict)
    seen: int = 0
    equality_deletes: list[DataFile] = field(default_factory=list)
    quarantined: list[SkippedFile] = field(default_factory=list)
    """Quarantine files, each with its number of rows and the problem of the first."""
    rows_quarantined: int = 0

    @property
    def staged(self) -> list[str]:
        """Every file that must be deleted if there is no commit."""
        return [*(f.file_path for f in (*self.files, *self.equality_deletes)), *(q.file_path for q in self.quarantined)]

    @property
    def rows_written(self) -> int:
        return sum(f.record_count for f in self.files)

    @property
    def repeated(self) -> int:
        """Placed rows beyond the first for their position."""
        return self.seen - sum(len(b) for b in self.matched.values())


def write_changes(
    rows: DataFrame,
    context: WriteContext,
    io_properties: Mapping[str, str],
    operation_id: str,
    *,
    writes_rows: bool = True,
    quarantine: str | None = None,
    equality: KeyPlan | None = None,
    first_row_ids: Mapping[str, int] | None = None,
    path_of: Callable[[str], str] = str,
    is_repeatable: Callable[[], bool],
    check: Callable[[], None] = lambda: None,
) -> Changes:
    """Run ``rows`` and collect the results; without ``writes_rows`` they need not have the table's columns.

    A ``context`` that writes row lineage keeps row ids (see ``row_ids``): rows then carry ``ROW_ID_COLUMN``; ``first_row_ids`` are
    the files' by ``FILE_COLUMN``; ``path_of`` gives the path of the file of a ``FILE_COLUMN``, for errors; ``is_repeatable``
    returns whether every evaluation of ``rows`` gives the same rows; ``check`` is called when all are written, and if writing
    failed; it raises if the result must not be kept.

    After any error, a task's typed one or Spark's, every staged file is deleted and the error raised. Files of discarded attempts
    (retries, speculation) are deleted in any case. Rows of two evaluations are never mixed (``without_leftovers``).
    """
    task = Task(context.to_json(), dict(io_properties), operation_id, writes_rows, quarantine, equality, first_row_ids)
    # By number: PySpark would treat a dot in a name as a field of a struct.
    numbered = rows.toDF(*[str(i) for i in range(len(rows.columns))])
    answers = numbered.mapInArrow(_writer(task, rows.columns), _ANSWER)
    return gathered_changes(rows.sparkSession, task, answers.collect, path_of, is_repeatable, check)


def gathered_changes(
    session: SparkSession,
    task: Task,
    run: Callable[[], Sequence[Answer]],
    path_of: Callable[[str], str] = str,
    is_repeatable: Callable[[], bool] = lambda: True,
    check: Callable[[], None] = lambda: None,
) -> Changes:
    """The answers of the tasks that ``run`` starts, with the guarantees of ``write_changes`` about errors and files."""
    io, operation_id, quarantine = load_file_io(task.io_properties), task.operation_id, task.quarantine
    data_location = WriteContext.from_json(task.context).data_location
    places = [data_location] + ([f"{quarantine}/{operation_id}"] if quarantine else [])

    def gather() -> Changes:
        with retryable_if_changed(check):
            changes, failure = _gathered(run(), path_of)
            if failure:
                raise errors.error_of_code(*failure)
        check()
        return changes

    return without_leftovers(session, io, places, operation_id, gather, lambda changes: changes.staged, is_repeatable=is_repeatable)


@contextmanager
def retryable_if_changed(check: Callable[[], None]) -> Iterator[None]:
    """The error of the block, unless ``check`` raises RetryableError: a file that changed while it was read may be gone, truncated,
    or contain rows that do not fit; the next run reads it in its new state."""
    try:
        yield
    except Exception as e:
        try:
            check()
        except errors.RetryableError as changed:
            raise changed from e
        except Exception as unknown:  # noqa: BLE001 - the error of the block is the one to see
            log.warning("it is not known whether the source was changed: %s", unknown)
        raise


def _gathered(answers: Sequence[Answer], path_of: Callable[[str], str]) -> tuple[Changes, tuple[str, str] | None]:
    changes = Changes()
    failure: tuple[str, str] | None = None
    for kind, place, payload, counted in answers:
        if kind == "file":
            changes.files.append(data_file_from_dict(json.loads(bytes(payload))))
        elif kind == "equality":
            changes.equality_deletes.append(data_file_from_dict(json.loads(bytes(payload))))
        elif kind == "quarantined":
            location, first = json.loads(bytes(payload))
            changes.quarantined.append(SkippedFile(file_path=location, reason=f"{counted} rows, the first: {first}"))
            changes.rows_quarantined += counted
        elif kind == "error":
            code, message = json.loads(bytes(payload))
            failure = failure or (code, f"{path_of(place)}, {message}" if place else message)
        else:
            into = changes.deleted if kind == "deleted" else changes.matched
            into[place] = into.get(place, BitMap64()) | BitMap64.deserialize(bytes(payload))
            changes.seen += counted
    return changes, failure


@dataclass(frozen=True, slots=True)
class Task:
    """The input of an executor: values only."""

    context: dict[str, Any]
    io_properties: dict[str, str]
    operation_id: str
    writes_rows: bool = True
    quarantine: str | None = None
    equality: KeyPlan | None = None
    first_row_ids: Mapping[str, int] | None = None


def _writer(task: Task, names: list[str]) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    def write(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        def add_all(changes: TaskChanges) -> None:
            for batch in batches:
                changes.add(batch.rename_columns(names))

        yield _answer_batch(task_answers(task, add_all))

    return write


def task_answers(task: Task, add_all: Callable[[TaskChanges], None]) -> list[Answer]:
    """The answer of a task attempt after ``add_all`` has passed it its rows. A typed error is an answer too; after any error the
    attempt's files are deleted."""
    begin_task()
    changes = TaskChanges(task)
    try:
        with typed_limits():
            add_all(changes)
            return changes.finish()
    except errors.IcebergOpsError as e:
        changes.abort()
        place = e.place if isinstance(e, BadChangeError) else ""
        return [("error", place, json.dumps([e.code, str(e)]).encode(), 0)]
    except BaseException:
        changes.abort()
        raise


def _answer_batch(answers: list[Answer]) -> pa.RecordBatch:
    kinds, places, payloads, counts = zip(*answers, strict=True) if answers else ((), (), (), ())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(kinds, pa.string()),
            pa.array(places, pa.string()),
            pa.array(payloads, pa.binary()),
            pa.array(counts, pa.int64()),
        ],
        names=["kind", "place", "payload", "counted"],
    )


def task_number() -> str:
    """The beginning of file names: the number of the task in its stage."""
    task = TaskContext.get()
    return f"{task.partitionId() if task else 0:05d}"


class TaskChanges:
    """One task attempt's writer and bitmaps."""

    def __init__(self, task: Task) -> None:
        context = WriteContext.from_json(task.context)
        self._writes_rows = task.writes_rows
        self._schema: Schema = context.schema
        task_id = task_number()
        io = load_file_io(task.io_properties)
        self._writer = table_writer(context, io, operation_id=task.operation_id, task_id=task_id)
        self._bad = BadRows(task.quarantine, io, task.operation_id, task_id)
        self._keys = UpsertKeys(task.equality, context, io, task.operation_id, task_id) if task.equality else None
        self._row_ids = RowIds(task.first_row_ids or {}) if context.row_lineage else None
        self._bitmaps: dict[tuple[str, str], BitMap64] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def add(self, batch: pa.RecordBatch) -> None:
        if BAD_COLUMN in batch.schema.names:
            batch = self._bad.remove_bad(batch)
        change = batch.column(CHANGE_COLUMN)
        if FILE_COLUMN in batch.schema.names:
            placed = batch.filter(pc.not_equal(change, INSERT))
            self._place("matched", placed)
            self._place("deleted", placed.filter(pc.not_equal(placed.column(CHANGE_COLUMN), KEEP)), counted=False)
        if not self._writes_rows:
            return
        if self._keys is not None and batch.num_rows:
            self._keys.add(from_spark(batch, self._schema))
        written = batch.filter(pc.greater_equal(change, UPDATE))
        if written.num_rows:
            columns = from_spark(written, self._schema)
            self._writer.write(columns if self._row_ids is None else self._row_ids.added_to(columns, written))

    def insert(self, batch: pa.RecordBatch) -> None:
        """Rows to write, in any columns and types that the writer accepts."""
        self._writer.write(batch)

    def encode_as(self, hints: EncodingHints | None) -> None:
        """The encodings of files that are started from now on."""
        self._writer.hints = hints

    def _place(self, kind: str, rows: pa.RecordBatch, *, counted: bool = True) -> None:
        if not rows.num_rows:
            return
        files = rows.column(FILE_COLUMN)
        for place in pc.unique(files).to_pylist():
            positions = rows.column(POSITION_COLUMN).filter(pc.equal(files, place))
            bitmap = self._bitmaps.setdefault((kind, place), BitMap64())
            bitmap.update(positions.to_numpy(zero_copy_only=False))
            if counted:
                self._counts[kind, place] = self._counts.get((kind, place), 0) + len(positions)

    def finish(self) -> list[Answer]:
        answers: list[Answer] = [
            ("file", "", json.dumps(data_file_to_dict(f)).encode(), f.record_count) for f in self._writer.close()
        ]
        for (kind, place), bitmap in self._bitmaps.items():
            answers.append((kind, place, bitmap.serialize(), self._counts.get((kind, place), 0)))
        if self._keys is not None:
            for f in self._keys.close():
                answers.append(("equality", "", json.dumps(data_file_to_dict(f)).encode(), f.record_count))
        if self._bad.count:
            self._bad.close()
            answers.append(("quarantined", "", json.dumps([self._bad.location, self._bad.first]).encode(), self._bad.count))
        return answers

    def abort(self) -> None:
        self._writer.abort()
        self._bad.abort()
        if self._keys is not None:
            self._keys.abort()
