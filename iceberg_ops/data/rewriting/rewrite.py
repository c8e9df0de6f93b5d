"""Rewrites one file group: ``rewrite_group`` converts a ``GroupWork`` to a ``GroupResult`` (``data.group_work``) anywhere: in this
process, in a worker process, in a Spark executor.

Nothing is committed or planned here: iceberg_ops.planning decides which files make a group, and iceberg_ops.actions checks and
commits the result.

The rule is the certificate. Live rows read (after deletes) and rows written are counted separately, and so are the nulls of every
leaf, struct, list, map and variant; for a sort, also the rows whose order was verified when they were written. The caller
commits only if all agree.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from iceberg_ops.data.arrow.nested_nulls import NestedNulls
from iceberg_ops.data.arrow.read_ahead import prefetched
from iceberg_ops.data.arrow.small_batches import MOST_BYTES, together
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.columns.sort_keys import KeyMaker, order_keys
from iceberg_ops.data.formats.encoding_hints import hints_for
from iceberg_ops.data.reading.reader import WHOLE_BYTES, ReadCounts, read_task, tasks_ahead
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.sorting.external_sort import sort_batches
from iceberg_ops.data.sorting.key_sample import KeySample, key_sample
from iceberg_ops.data.sorting.zorder import zorder_cuts, zorder_keys
from iceberg_ops.data.writing.conform import check_stored
from iceberg_ops.data.writing.file_names import FileNames
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter, RollingWriter
from iceberg_ops.errors import SchemaError, VerificationError
from iceberg_ops.io.far_files import for_samples
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.scan.tasks import FileScanTask, task_from_json
from iceberg_ops.serde.json.content_file_json import data_file_to_dict, partition_from_json
from iceberg_ops.serde.json.sort_json import sort_order_from_dict
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema, no_column
from iceberg_ops.spec.types import NestedField, StructType

_AHEAD_BYTES = 8 << 20
"""For input below this many bytes, the thread that writes also reads."""
_WAITING_BYTES = 1 << 27
"""Arrow bytes that may wait for the writer: about a row group, so that the next one is read while one is encoded."""
_PARTS = 32
"""A batch joined from small files takes at most this part of the memory limit."""
READ_ROWS = 1 << 18
"""Rows of a batch between reader and writer: large enough to hide the cost per batch, small enough for wide rows."""


def rewrite_group(work: GroupWork, io: FileIO | None = None) -> GroupResult:
    """Rewrite a group; ``io`` None: built from ``work.io_properties``.

    Raises CorruptTableError for unreadable input, VerificationError if rows read and written differ; then the written files are
    deleted again.
    """
    begun = time.monotonic()
    io = io or load_file_io(work.io_properties)
    read = ReadContext.from_json(work.read)
    tasks = [task_from_json(task) for task in work.tasks]
    tally = Tally(read.projected, bytes_in=sum(task.data_bytes for task in tasks))
    spilled: list[int] = []
    make = keys_of_work(work, read.projected, io)
    with tasks_ahead(io, tasks, whole=WHOLE_BYTES) as near:
        rows = ordered(work, make, tally.counted(read_live_rows(tasks, work, read, near, tally.read)), spilled=spilled)
        if tally.bytes_in > _AHEAD_BYTES:
            rows = prefetched(rows, _WAITING_BYTES, lambda batch: int(batch.nbytes))
        writer = open_writer(work, io, tasks, make, for_samples(near))
        try:
            for batch in rows:
                writer.write_canonical(batch)
            added = writer.close()
            tally.in_order, tally.nested_out = writer.rows_in_order, writer.nested_nulls
            return verified(work, tally, added, round((time.monotonic() - begun) * 1000), spilled)
        except BaseException:
            rows.close()
            writer.abort()
            raise


def verified(
    work: GroupWork, tally: Tally, added: Sequence[DataFile], duration_ms: int, spilled: Sequence[int] = ()
) -> GroupResult:
    """The result. Raises VerificationError if the counts of read and written rows differ, or if a sort wrote rows whose order was
    not verified; the caller then deletes the files."""
    result = _result(work, tally, added, duration_ms, spilled)
    if not result.is_balanced or (work.is_sorted and result.rows_in_order != result.rows_out):
        raise VerificationError(
            f"group {work.group_id}: {result.rows_in} rows read, {result.rows_out} written, {result.rows_in_order} in order, "
            f"nulls read {dict(result.null_counts_in)}, nulls written {dict(result.null_counts_out)}: its files are deleted"
        )
    return result


def read_live_rows(
    tasks: Sequence[FileScanTask], work: GroupWork, read: ReadContext, io: FileIO, counts: ReadCounts
) -> Generator[pa.RecordBatch]:
    """The live rows of the work's tasks, in order; those of small files joined, as far as the work's memory limit allows. Raises
    CorruptTableError, also for a null in a required column."""

    def rows(task: FileScanTask) -> Iterator[pa.RecordBatch]:
        for batch in read_task(task, read, io, batch_rows=READ_ROWS, keep_dictionaries=True, counts=counts):
            yield check_stored(batch, read.projected, task.file_path)

    yield from together(chain.from_iterable(map(rows, tasks)), min(MOST_BYTES, work.memory_limit_bytes // _PARTS))


def open_writer(
    work: GroupWork, io: FileIO, tasks: Sequence[FileScanTask], order: KeyMaker | None, source: FileIO
) -> RollingWriter | PartitionedWriter:
    """The writer of the work's output; its encodings are derived from the files of ``tasks`` (read by ``source``), its rows must be
    in ``order``."""
    write = WriteContext.from_json(work.write)
    hints = hints_for(source, tasks, write.file_schema)
    if work.partition is None:
        return PartitionedWriter(
            write,
            io,
            operation_id=work.operation_id,
            task_id=work.task_id,
            target_size=work.target_file_size,
            hints=hints,
            order=order,
        )
    return RollingWriter(
        write,
        io,
        partition=partition_from_json(work.partition),
        names=FileNames(work.task_id, work.operation_id),
        target_size=work.target_file_size,
        hints=hints,
        order=order,
    )


def keys_of_work(work: GroupWork, schema: Schema, io: FileIO) -> KeyMaker | None:
    """Makes the keys of canonical batches of ``schema``; None: rows keep the order of the tasks."""
    if not work.is_sorted:
        return None
    return key_maker(work, schema, sample_keys(work, io) if work.zorder_columns else None)


def ordered(
    work: GroupWork, make: KeyMaker | None, batches: Iterable[pa.RecordBatch], *, spilled: list[int] | None = None
) -> Generator[pa.RecordBatch]:
    """Batches of the schema that ``make`` is for (additional columns are kept) in the order of the work; see
    ``sort_batches``."""
    if make is None:
        yield from batches
        return
    yield from sort_batches(batches, make, work.memory_limit_bytes, spilled=spilled)


def sample_keys(work: GroupWork, io: FileIO) -> KeySample:
    """The sample of the columns by which rows are ordered; always equal for the same ``GroupWork``."""
    read = ReadContext.from_json(work.read)
    return key_sample([task_from_json(task) for task in work.tasks], read, key_ids(work, read.projected), io)


def key_maker(work: GroupWork, schema: Schema, sample: KeySample | None) -> KeyMaker:
    """Makes the keys of canonical batches of ``schema``; z-order needs the sample. Raises SchemaError."""
    if work.sort_order is not None:
        return order_keys(schema, sort_order_from_dict(work.sort_order))
    assert sample is not None
    cuts = zorder_cuts(sample.schema, key_ids(work, sample.schema), sample.rows)
    return zorder_keys(schema, key_ids(work, schema), cuts, work.curve)


def key_ids(work: GroupWork, schema: Schema) -> list[int]:
    """Field ids of the columns by which the rows are ordered. Raises SchemaError."""
    if work.sort_order is not None:
        return [f.source_id for f in sort_order_from_dict(work.sort_order).fields]
    return [_field_id(schema, name) for name in work.zorder_columns]


def _field_id(schema: Schema, name: str) -> int:
    field = schema.find(name, case_sensitive=False)
    if field is None:
        raise SchemaError(f"sort order: {no_column(schema, name)}")
    return field.field_id


class Tally:
    """Rows and nulls that were read, counted before any processing; and how many rows were written in order."""

    def __init__(self, schema: Schema, *, bytes_in: int = 0, rows: int = 0, nulls: Mapping[int, int] | None = None) -> None:
        self.bytes_in = bytes_in
        self.schema = schema
        self.rows = rows
        self.in_order = 0
        """Written rows whose order was verified."""
        self.read = ReadCounts()
        self.nulls: dict[int, int] = dict(nulls or {})
        """Nulls of leaf columns."""
        self.nested = NestedNulls()
        self.nested_out: Mapping[int, int] = {}
        """Like ``nested``, for the rows that were written."""

    def counted(self, rows: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        """The same rows, counted as they pass."""
        for batch in rows:
            self.rows += batch.num_rows
            for f, array in zip(self.schema.fields, batch.columns, strict=True):
                self._count(f, array)
            self.nested.add(self.schema.fields, batch.columns)
            yield batch

    def _count(self, f: NestedField, array: pa.Array) -> None:
        if isinstance(f.type, StructType):
            for child, part in zip(f.type.fields, array.flatten(), strict=True):
                self._count(child, part)
        elif not f.type.is_nested:
            self.nulls[f.field_id] = self.nulls.get(f.field_id, 0) + array.null_count


def _result(work: GroupWork, tally: Tally, added: Sequence[DataFile], duration_ms: int, spilled: Sequence[int]) -> GroupResult:
    recorded = [f.null_value_counts for f in added]
    nulls: dict[int, int] = {}
    for field_id in tally.nulls:
        counts = [None if counts_of_file is None else counts_of_file.get(field_id) for counts_of_file in recorded]
        if None not in counts:
            nulls[field_id] = sum(n for n in counts if n is not None)
    return GroupResult(
        group_id=work.group_id,
        added=tuple(data_file_to_dict(f) for f in added),
        rows_in=tally.rows,
        rows_out=sum(f.record_count for f in added),
        deleted_rows_applied=tally.read.deleted,
        rows_in_order=tally.in_order,
        null_counts_in={**tally.nulls, **tally.nested.counts},
        null_counts_out={**nulls, **{i: tally.nested_out.get(i, 0) for i in tally.nested.counts}},
        bytes_in=tally.bytes_in,
        bytes_out=sum(f.file_size_in_bytes for f in added),
        duration_ms=duration_ms,
        spilled_runs=tuple(spilled),
    )
