"""ORC files as Arrow batches, a stripe at a time.

pyarrow does not say at which byte a stripe begins, so a file cut into parts is read whole by the part that begins at 0 and not at
all by the others: every row is read once. ORC stores nanoseconds; they are floored to the read schema's unit (ORC-02).
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyarrow import orc

from iceberg_ops.data.arrow_values import bare_batch
from iceberg_ops.data.file_columns import ColumnIds, FileColumn, pruned
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.file_io import FileIO


class OrcDataFile:
    """One open ORC file (see ``formats.OpenFile``)."""

    def __init__(self, io: FileIO, location: str, ids: ColumnIds, keep_dictionaries: bool = False) -> None:
        self.location = location
        local = io.local_path(location)
        self._source = pa.memory_map(local) if local is not None else pa.PythonFile(io.open_input(location), "r")
        self._file = orc.ORCFile(self._source)
        self.columns: tuple[FileColumn, ...] = ids.columns(self._file.schema)

    def close(self) -> None:
        self._source.close()

    def batches(
        self, leaves: set[int], start: int, length: int | None, batch_rows: int
    ) -> Iterator[tuple[int, pa.RecordBatch, tuple[FileColumn, ...]]]:
        if start > 0:
            return
        names = [c.name for c in self.columns if leaves.intersection(c.leaves)]
        position = 0
        try:
            for stripe in range(self._file.nstripes):
                whole = self._file.read_stripe(stripe, columns=names or [self.columns[0].name])
                batch = whole if names else bare_batch(whole.num_rows)
                columns = pruned(self.columns, batch.schema)
                for offset in range(0, batch.num_rows, batch_rows):
                    yield position + offset, batch.slice(offset, batch_rows), columns
                position += batch.num_rows
        except (pa.ArrowInvalid, OSError) as e:
            raise CorruptTableError(f"file {self.location} can not be decoded: {e}") from None
