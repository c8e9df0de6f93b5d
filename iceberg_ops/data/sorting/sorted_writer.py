"""Writes rows that come in any order as files in the table's sort order.

The rows of one task are sorted by partition and, within it, by the sort order, and spill to disk above a memory limit. So a
partition's files are complete before the next one's begin, however many partitions there are.

The rule: every lane orders rows by the same keys (``sort_keys``), so an engine's own order never decides which order a
file records.
"""

from __future__ import annotations

from contextlib import closing

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.columns.sort_keys import KeyMaker, Keys, comparable, order_keys
from iceberg_ops.data.formats.parquet_options import EncodingHints
from iceberg_ops.data.sorting.external_sort import Sorter
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.data.writing.writer import PartitionedWriter, partition_columns
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.content_files import DataFile

SORT_MEMORY = 128 << 20
"""Arrow bytes that are sorted at once; larger input is spilled."""


class SortedWriter:
    """A ``PartitionedWriter`` whose files are in ``context.sort_order``. Nothing is written before ``close``."""

    def __init__(
        self, context: WriteContext, io: FileIO, *, operation_id: str, task_id: str = "00000", memory_limit: int = SORT_MEMORY
    ) -> None:
        self._context = context
        self._writer = PartitionedWriter(context, io, operation_id=operation_id, task_id=task_id, fanout=False)
        self._sorter = Sorter(_keys(context), memory_limit)

    @property
    def hints(self) -> EncodingHints | None:
        """The encodings of the files."""
        return self._writer.hints

    @hints.setter
    def hints(self, hints: EncodingHints | None) -> None:
        self._writer.hints = hints

    def write(self, batch: pa.RecordBatch) -> None:
        """Add rows. Raises DataError for rows that do not fit the table."""
        self._sorter.add(conform(batch, self._context.file_schema, keep_dictionaries=True))

    def close(self) -> list[DataFile]:
        """Write everything; returns the files."""
        with closing(self._sorter) as sorter:
            for batch in sorter.rows():
                self._writer.write_canonical(batch)
        return self._writer.close()

    def abort(self) -> None:
        """Stop: delete the written files."""
        self._sorter.close()
        self._writer.abort()


TableWriter = PartitionedWriter | SortedWriter


def table_writer(context: WriteContext, io: FileIO, *, operation_id: str, task_id: str = "00000") -> TableWriter:
    """The writer of a table's new rows: it sorts them if their files must record a sort order."""
    if context.sort_order is None:
        return PartitionedWriter(context, io, operation_id=operation_id, task_id=task_id)
    return SortedWriter(context, io, operation_id=operation_id, task_id=task_id)


def _keys(context: WriteContext) -> KeyMaker:
    assert context.sort_order is not None
    ordered = order_keys(context.file_schema, context.sort_order)

    def make(batch: pa.RecordBatch) -> Keys:
        keys: Keys = []
        for column in partition_columns(batch, context):
            keys.append((pc.cast(column.is_null(), pa.int8()), "descending"))
            keys.append((comparable(column), "ascending"))
        return keys + ordered(batch)

    return make
