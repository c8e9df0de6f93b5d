"""A sample of the columns by which rows are ordered, spread over all files of a ``GroupWork``.

It determines where to cut the rows into even ranges, and where z-order cuts the values of its columns. The same ``GroupWork``
always gives the same sample: row groups are chosen by their number, rows by their position. Deletes are not applied (some
additional rows do no harm).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.sorting.external_sort import in_one
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import FileFormat
from iceberg_ops.spec.schema import Schema

_CHUNKS = 32
"""The number of row groups that are read."""
_ROWS = 1 << 17
_BYTES = 64 << 20
"""Arrow bytes of a sample: if keys are wide, fewer rows are kept."""


@dataclass(frozen=True)
class KeySample:
    """``rows`` are canonical rows of ``schema``: the top-level columns that contain the keys."""

    schema: Schema
    rows: pa.Table

    def to_bytes(self) -> bytes:
        """The rows as an Arrow file; the work determines the schema."""
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, self.rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(self.rows)
        return bytes(sink.getvalue())

    @classmethod
    def from_bytes(cls, schema: Schema, data: bytes) -> KeySample:
        """The inverse of ``to_bytes``."""
        return cls(schema, pa.ipc.open_file(pa.BufferReader(data)).read_all())


def key_columns(read: ReadContext, field_ids: Sequence[int]) -> ReadContext:
    """Reads only the top-level columns that hold those fields, in the order of the table's reading."""
    tops = set()
    for field_id in field_ids:
        while (parent := read.projected.parents.get(field_id)) is not None:
            field_id = parent
        tops.add(field_id)
    return read.select([f.name for f in read.projected.fields if f.field_id in tops])


def key_sample(tasks: Sequence[FileScanTask], read: ReadContext, field_ids: Sequence[int], io: FileIO) -> KeySample:
    """Sample the columns of those fields. Raises CorruptTableError for a file that cannot be read."""
    context = key_columns(read, field_ids)
    chunks = [replace(task, deletes=(), start=start, length=length) for task in tasks for start, length in _row_groups(task)]
    chosen = [chunks[i] for i in np.unique(np.linspace(0, len(chunks) - 1, _CHUNKS).astype(np.int64))] if chunks else []
    shares = max(len(chosen), 1)
    samples = [rows for chunk in chosen if (rows := _evenly(read_task(chunk, context, io), -(-_ROWS // shares), _BYTES // shares))]
    empty = pa.Table.from_batches([], pa.schema([]))
    return KeySample(
        context.projected, pa.Table.from_batches([in_one([b for rows in samples for b in rows])]) if samples else empty
    )


def _row_groups(task: FileScanTask) -> list[tuple[int, int | None]]:
    """(start, length) of the task's parts: its row groups, as far as the manifest records them."""
    offsets = task.data_file.split_offsets
    whole = task.start == 0 and (task.length is None or task.length >= task.data_file.file_size_in_bytes)
    if not offsets or not whole or task.data_file.file_format is not FileFormat.PARQUET:
        return [(task.start, task.length)]
    ends: list[Any] = [*offsets[1:], None]
    starts = [0, *offsets[1:]]
    return [(start, None if end is None else end - start) for start, end in zip(starts, ends, strict=True)]


def _evenly(batches: Iterable[pa.RecordBatch], rows: int, bytes_: int) -> list[pa.RecordBatch]:
    """Rows at even distances, between half of ``rows`` and ``rows`` of them (all if there are fewer), or fewer if rows are wide."""
    picked: list[pa.RecordBatch] = []
    count = size = offset = 0
    step = 1
    for batch in batches:
        picked.append(batch.take(pa.array(np.arange(offset, batch.num_rows, step))))
        offset = (offset - batch.num_rows) % step
        count, size = count + picked[-1].num_rows, size + picked[-1].nbytes
        while count > rows or (size > bytes_ and count > 1):
            thin = in_one(picked)
            # The first of every two stays, so that the distances stay even for the rows that follow.
            offset += step if count % 2 else 0
            step *= 2
            picked = [thin.take(pa.array(np.arange(0, count, 2)))]
            count, size = picked[0].num_rows, picked[0].nbytes
    return [b for b in picked if b.num_rows]
