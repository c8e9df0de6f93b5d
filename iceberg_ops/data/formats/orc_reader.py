"""ORC files as Arrow batches, a stripe at a time.

A part of a file is the stripes whose first byte lies in it, so that parts that cover a file read every row once. ORC stores
nanoseconds; they are floored to the read schema's unit (ORC-02). Arrow holds them in 64 bits, from 1677-09-21 to 2262-04-11, and
has no other form for them: a column with a timestamp outside this range is refused, and the others are read.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

import pyarrow as pa
from pyarrow import orc

from iceberg_ops.data.arrow.arrow_sources import arrow_failures, arrow_source, errors_of_reads
from iceberg_ops.data.arrow.arrow_values import bare_batch
from iceberg_ops.data.arrow.batch_sizes import BATCH_BYTES, cut
from iceberg_ops.data.columns.file_columns import ColumnIds, FileColumn, pruned
from iceberg_ops.data.formats.orc_stripes import Stripe, parse_stripes
from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.file_io import FileIO

_BEYOND_NANOSECONDS = "out of range for nanosecond resolution"
"""The end of Arrow's error for a timestamp that does not fit 64-bit nanoseconds."""


class OrcDataFile:
    """One open ORC file (see ``formats.OpenFile``)."""

    def __init__(self, io: FileIO, location: str, ids: ColumnIds) -> None:
        self.location = location
        self._source = arrow_source(io, location)
        try:
            with errors_of_reads(self._source):
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
        picked = [c for c in self.columns if leaves.intersection(c.leaves)]
        whole = {n for c in picked for n in c.leaves}
        try:
            with arrow_failures(self.location), errors_of_reads(self._source):
                for stripe in self._stripes(start, length):
                    batch = self._read(stripe, picked) if picked else bare_batch(stripe.rows)
                    columns = pruned(self.columns, batch.schema, whole)
                    position = stripe.first_row
                    for offset in range(0, batch.num_rows, batch_rows):
                        for part in cut(batch.slice(offset, batch_rows), BATCH_BYTES):
                            yield position, part, columns
                            position += part.num_rows
        except OSError as e:
            raise CorruptTableError(f"file {self.location} cannot be decoded: {e}") from None

    def _read(self, stripe: Stripe, picked: Sequence[FileColumn]) -> pa.RecordBatch:
        """The picked columns; all of the file's if a name may stand for several of them, because Arrow reads columns by name.
        Raises UnsupportedError for a timestamp outside Arrow's range, ArrowInvalid and OSError for damage."""
        known = [c.name for c in self.columns]
        is_plain = len(set(known)) == len(known) and not any("." in name for name in known)
        names = [c.name for c in picked] if is_plain else None
        try:
            return self._file.read_stripe(stripe.number, columns=names)
        except pa.ArrowInvalid as e:
            if _BEYOND_NANOSECONDS not in str(e):
                raise
            asked = picked if is_plain else self.columns
            name, reason = self._first_beyond(stripe, asked, "") or (", ".join(c.name for c in asked), e)
        raise UnsupportedError(
            f"not supported: column {name} of {self.location}, because Arrow reads ORC timestamps in nanoseconds, which reach from "
            f"1677-09-21 to 2262-04-11 ({reason}): leave it out, or let the engine that wrote the file rewrite it as Parquet"
        )

    def _first_beyond(self, stripe: Stripe, columns: Sequence[FileColumn], parent: str) -> tuple[str, Exception] | None:
        """The first column, or field of a struct, that cannot be read alone, and Arrow's error for it."""
        for column in columns:
            path = parent + column.name
            try:
                self._file.read_stripe(stripe.number, columns=[path])
            except OSError:  # Arrow does not find the field by its path: its struct is named
                continue
            except pa.ArrowInvalid as e:
                inside = self._first_beyond(stripe, column.children, f"{path}.") if pa.types.is_struct(column.type) else None
                return inside or (path, e)
        return None

    def _stripes(self, start: int, length: int | None) -> list[Stripe]:
        stripes = parse_stripes(self._file.reader.serialized_file_tail(), self.location)
        if len(stripes) != self._file.nstripes or sum(s.rows for s in stripes) != self._file.nrows:
            raise CorruptTableError(f"file {self.location}: the ORC file tail lists {len(stripes)} stripes that do not exist")
        return [s for s in stripes if s.offset >= start and (length is None or s.offset < start + length)]
