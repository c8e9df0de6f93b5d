"""Estimates the size of small files after they are written together, from a sample that is encoded and discarded.

Many small files hold many dictionaries and many footers, may be written with another codec, and shrink by a sixth or a third when
they are merged. A plan that only adds up their bytes expects too many output files, each below the target. Large files are already
well encoded: they count with their size. Rows that deletes remove count too. The sample of a sort is sorted, because the order
changes the encoded size.

The rule: an estimate is never above the input size, because a small sample overestimates, and never an error: the work that reads
the files reports unreadable ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import pyarrow as pa

from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.formats.encoding_hints import hints_for
from iceberg_ops.data.reading.reader import read_task, tasks_ahead
from iceberg_ops.data.writing.parquet_writer import encoded_size
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import FileFormat

_SMALL_BYTES = 8 << 20
"""The first rows of a larger file say little about it, and cost too much to read."""
_ROWS = 1 << 16
"""The total number of encoded rows: the estimated share is 1 to 3 % too high, for about 50 ms."""
_BYTES = 4 << 20
"""Arrow bytes of a file's rows that end its share early: fewer wide rows are sufficient."""
_MOST_FILES = 64

Reorder = Callable[[Sequence[FileScanTask], Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]
"""Puts canonical rows of those tasks into the order of the output."""


def merged_bytes(
    tasks: Sequence[FileScanTask], read: ReadContext, write: WriteContext, io: FileIO, reorder: Reorder | None = None
) -> int:
    """The size in bytes of Parquet files of ``write`` with the rows of ``tasks``: at most the size of the tasks' files."""
    size = sum(task.data_bytes for task in tasks)
    small = [task for task in tasks if task.data_bytes <= _SMALL_BYTES and task.record_count]
    if not small:
        return size
    try:
        if write.file_format is not FileFormat.PARQUET:
            return size
        share = _share(_spread(small), read, write, io, reorder)
    except (IcebergOpsError, pa.ArrowException, OSError):
        return size
    return size - round((1 - share) * sum(task.data_bytes for task in small))


def _spread(tasks: Sequence[FileScanTask]) -> list[FileScanTask]:
    """As many tasks as needed for the sample's rows, evenly spread, without deletes and filter."""
    rows = sum(task.record_count for task in tasks)
    count = max(1, min(round(len(tasks) * _ROWS / rows), len(tasks), _MOST_FILES))
    step = len(tasks) / count
    return [replace(tasks[int(step * (i + 0.5))], deletes=()) for i in range(count)]


def _share(tasks: Sequence[FileScanTask], read: ReadContext, write: WriteContext, io: FileIO, reorder: Reorder | None) -> float:
    """Bytes after divided by bytes before, for the first rows of each task; at most 1."""
    batches: list[pa.RecordBatch] = []
    before = 0.0
    quota = -(-_ROWS // len(tasks))
    with tasks_ahead(io, tasks) as near:
        for task in tasks:
            rows = size = 0
            for batch in read_task(task, read, near, batch_rows=quota, keep_dictionaries=True):
                batches.append(batch.slice(0, quota - rows))
                rows += batches[-1].num_rows
                size += batches[-1].nbytes
                if rows >= quota or size >= _BYTES:
                    break
            before += task.data_bytes * rows / task.record_count
    if not before:
        return 1.0
    written = batches if reorder is None else list(reorder(tasks, batches))
    return min(1.0, encoded_size(written, write, hints_for(io, tasks, write.file_schema)) / before)
