"""Opens a data or delete file of any format as Arrow batches with known row positions.

Only this module knows which formats exist. A format gives an ``OpenFile``: the file's columns with their field ids, and its batches
for some of the leaves, each with the position of its first row, counted over physical rows from 0 whatever part is read
(spec: ``_pos``). Row groups that cannot match a filter are skipped. Recorded file sizes are never trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol

import pyarrow as pa

from iceberg_ops.data.arrow.arrow_sources import arrow_failures
from iceberg_ops.data.columns.file_columns import ColumnIds, FileColumn
from iceberg_ops.data.formats.avro_reader import AvroFile
from iceberg_ops.data.formats.orc_reader import OrcDataFile
from iceberg_ops.data.formats.parquet_reader import ParquetDataFile
from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.content_files import FileFormat
from iceberg_ops.table.stored_files import named_failures

BATCH_ROWS = 1 << 17


class OpenFile(Protocol):
    """An open file. ``columns`` carry field ids; ``batches`` gives (position of the first row, batch, its columns), at least of all
    rows for which the bound expression ``where`` is true. Text may be dictionary-encoded."""

    @property
    def columns(self) -> tuple[FileColumn, ...]: ...

    def batches(
        self, leaves: set[int], start: int, length: int | None, batch_rows: int, where: Expression = ALWAYS_TRUE
    ) -> Generator[tuple[int, pa.RecordBatch, tuple[FileColumn, ...]]]: ...

    def close(self) -> None: ...


_OPENERS: dict[FileFormat, Callable[[FileIO, str, ColumnIds], OpenFile]] = {
    FileFormat.PARQUET: ParquetDataFile,
    FileFormat.ORC: OrcDataFile,
    FileFormat.AVRO: AvroFile,
}


def open_file(io: FileIO, location: str, file_format: FileFormat, ids: ColumnIds) -> OpenFile:
    """Open a file. Raises CorruptTableError if it is missing or not of that format, UnsupportedError for a format that holds no
    rows."""
    opener = _OPENERS.get(file_format)
    if opener is None:
        raise UnsupportedError(f"not supported: rows of {location}, because {file_format.value} files hold none")
    try:
        with named_failures(location), arrow_failures(location, f"is not a readable {file_format.value} file"):
            return opener(io, location, ids)
    except CorruptTableError as e:
        raise e if location in str(e) else CorruptTableError(f"file {location}: {e}") from None
