"""ORC files as Arrow batches, a stripe at a time.

A part of a file is the stripes whose first byte lies in it, so that parts that cover a file read every row once. ORC stores
nanoseconds; they are floored to the read schema's unit (ORC-02).
"""

from __future__ import annotations

from collections.abc import Generator

import pyarrow as pa
from pyarrow import orc

from iceberg_ops.data.arrow_sources import arrow_source
from iceberg_ops.data.arrow_values import bare_batch
from iceberg_ops.data.batch_sizes import BATCH_BYTES, cut
from iceberg_ops.data.file_columns import ColumnIds, FileColumn, pruned
from iceberg_ops.data.orc_stripes import Stripe, stripes_of
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.file_io import FileIO


class OrcDataFile:
    """One open ORC file (see ``formats.OpenFile``)."""

    def __init__(self, io: FileIO, location: str, ids: ColumnIds) -> None:
        self.location = location
        self._source = arrow_source(io, location)
        try:
            self._file = orc.ORCFile(self._source)
            self.columns: tuple[FileColumn, ...] = ids.columns(self._file.schema)
        except BaseException:
            self._source.close()
            raise

    def close(self) -> None:
        self._source.close()

    def batches(
        self, leaves: set[int], start: int, length: int | None, batch_rows: int, where: Expression = ALWAYS_TRUE
    ) -> Generator[tuple[int, pa.RecordBatch, tuple[FileColumn, ...]]]:
        names = [c.name for c in self.columns if leaves.intersection(c.leaves)]
        try:
            for stripe in self._stripes(start, length):
                batch = self._file.read_stripe(stripe.number, columns=names) if names else bare_batch(stripe.rows)
                columns = pruned(self.columns, batch.schema)
                position = stripe.first_row
                for offset in range(0, batch.num_rows, batch_rows):
                    for part in cut(batch.slice(offset, batch_rows), BATCH_BYTES):
                        yield position, part, columns
                        position += part.num_rows
        except (pa.ArrowInvalid, OSError) as e:
            raise CorruptTableError(f"file {self.location} can not be decoded: {e}") from None

    def _stripes(self, start: int, length: int | None) -> list[Stripe]:
        stripes = stripes_of(self._file.reader.serialized_file_tail(), self.location)
        if len(stripes) != self._file.nstripes or sum(s.rows for s in stripes) != self._file.nrows:
            raise CorruptTableError(f"file {self.location}: the ORC file tail tells of {len(stripes)} stripes that are not there")
        return [s for s in stripes if s.offset >= start and (length is None or s.offset < start + length)]
