"""Row ids of rows that a statement changes in a v3 table: they are kept, while the last change becomes the new snapshot's (spec:
"Row Lineage"; like Iceberg Java's Spark runtime).

Between reading and writing a row carries ``ROW_ID_COLUMN``, the id that its file stores for it. Most files store none; then ids are
inherited: the file's first row id plus the row's position. Our reader fills those in; if Spark's own reader read the file, the
writer does, from the first row ids of the files. A new row has neither, and the commit numbers it.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.spec.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID
from spark_jobs.runners.reading import FILE_COLUMN, POSITION_COLUMN, ROW_ID_COLUMN


class RowIds:
    """``first`` is the first row id of data files by their ``FILE_COLUMN``; rows of other files keep the ids that they
    carry."""

    def __init__(self, first: Mapping[str, int]) -> None:
        self._files = pa.array(list(first), pa.string())
        self._first = pa.array(list(first.values()), pa.int64())

    def row_lineage(self, rows: pa.RecordBatch) -> list[pa.Array]:
        """``_row_id`` and ``_last_updated_sequence_number`` of rows that carry ``FILE_COLUMN``, ``POSITION_COLUMN`` and
        ``ROW_ID_COLUMN``. The second is always null: it is inherited from the commit."""
        first = self._first.take(pc.index_in(rows.column(FILE_COLUMN), value_set=self._files))
        inherited = pc.add(first, rows.column(POSITION_COLUMN))
        return [pc.coalesce(rows.column(ROW_ID_COLUMN), inherited), pa.nulls(rows.num_rows, pa.int64())]

    def added_to(self, written: pa.RecordBatch, rows: pa.RecordBatch) -> pa.RecordBatch:
        """``written``, the table's columns of ``rows``, with their lineage."""
        names = [*written.schema.names, ROW_ID.name, LAST_UPDATED_SEQUENCE_NUMBER.name]
        return pa.RecordBatch.from_arrays([*written.columns, *self.row_lineage(rows)], names=names)
