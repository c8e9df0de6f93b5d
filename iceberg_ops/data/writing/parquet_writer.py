"""Writes one Parquet file.

Row groups are cut by rows, by Arrow bytes, and by the rest of the file's target size; the encoded bytes of a row are estimated
from the row groups already written. Local or not, bytes go through the FileIO, which makes the file visible only when it is
complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iceberg_ops.config.properties import PARQUET_ROW_GROUP_SIZE_BYTES
from iceberg_ops.data.arrow.arrow_schema import stored_schema
from iceberg_ops.data.arrow.one_schema import one_table
from iceberg_ops.data.formats.encoding_hints import decided, no_hints
from iceberg_ops.data.formats.metrics import Observer, file_metrics
from iceberg_ops.data.formats.parquet_options import EncodingHints, writer_options
from iceberg_ops.data.formats.parquet_reader import group_offset
from iceberg_ops.data.formats.storable import check_storable
from iceberg_ops.data.writing.new_files import open_new_file
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.deletion.own_files import CreatedFiles
from iceberg_ops.io.file_io import FileIO, discard_output
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat

ROW_GROUP_ROWS = 1 << 20
_UNKNOWN_RATIO = 1.0
"""Encoded bytes per Arrow byte before any row group is written: no compression is assumed, so that no file exceeds the target."""
_TELLING_BYTES = 1 << 16
"""Fewer Arrow bytes give no useful ratio: headers dominate."""
_CLOSE_ENOUGH = 0.95
_MOST_GROUP_BYTES = 256 << 20
"""The most Arrow bytes of a row group: otherwise any amount of well-compressed text could be buffered."""
_MOST_GROWTH = 4
"""Rows are decoded from a dictionary only if that makes them at most this many times as large."""
_FIRST_PART = 0.5
"""While the ratio is unknown, a row group is written at this part of the target, to learn it."""


class ParquetFileWriter:
    """See ``writer.FileWriter``. The file is opened with the first row group; without rows there is no file."""

    def __init__(
        self,
        context: WriteContext,
        io: FileIO,
        location: str,
        partition: Sequence[Any],
        target_size: int,
        hints: EncodingHints | None = None,
        ratio: float | None = None,
        created: CreatedFiles | None = None,
    ) -> None:
        self.location = location
        self._created = created or CreatedFiles(io)
        self._expected_ratio = ratio
        self._context, self._io, self._hints = context, io, hints
        self._partition, self._target = tuple(partition), target_size
        self._group_bytes = PARQUET_ROW_GROUP_SIZE_BYTES.of(context.properties)
        check_storable(context.file_schema, FileFormat.PARQUET)
        self._schema = stored_schema(context.file_schema)
        self._observer = Observer(context.file_schema)
        self._rows: list[pa.RecordBatch] = []
        self._buffered_rows = 0
        self.buffered_bytes = 0
        self._arrow_bytes = self._groups = self._written = 0
        self._writer: pq.ParquetWriter | None = None
        self._sink: Any = None
        self._footers: list[pq.FileMetaData] = []

    @property
    def is_full(self) -> bool:
        """The target is reached, with buffered rows counted at the current ratio."""
        return self._written + self.buffered_bytes * (self.ratio or _UNKNOWN_RATIO) >= self._target * _CLOSE_ENOUGH

    @property
    def is_open(self) -> bool:
        return self._sink is not None

    @property
    def ratio(self) -> float | None:
        """Encoded bytes per Arrow byte, if known: from this file, else the caller's expectation."""
        return self._written / self._arrow_bytes if self._arrow_bytes >= _TELLING_BYTES else self._expected_ratio

    def rows_that_fit(self, batch: pa.RecordBatch) -> int:
        """How many of the batch's rows still fit into this file; at least 1."""
        ratio = self.ratio or _UNKNOWN_RATIO
        part = self._target if self.ratio is not None else self._target * _FIRST_PART
        left = part - self._written - self.buffered_bytes * ratio
        per_row = max(1.0, batch.nbytes * ratio / batch.num_rows)
        return max(1, min(int(batch.num_rows), int(left / per_row) + 1))

    def write(self, batch: pa.RecordBatch) -> None:
        self._rows.append(batch)
        self._buffered_rows += batch.num_rows
        self.buffered_bytes += batch.nbytes
        if (
            self._buffered_rows >= ROW_GROUP_ROWS
            or self.buffered_bytes >= _MOST_GROUP_BYTES
            or self.buffered_bytes * (self.ratio or _UNKNOWN_RATIO) >= self._group_bytes
            or (self.ratio is None and self.buffered_bytes >= self._target * _FIRST_PART)
        ):
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows as one row group."""
        if not self._buffered_rows:
            return
        table = _compact_dictionaries(one_table(self._rows))
        self._ensure_open(table)
        assert self._writer is not None
        for group in _row_groups(table, self._schema):
            self._observer.observe(group, self._groups)
            self._writer.write_table(_stored(group, self._schema), row_group_size=group.num_rows)
            self._groups += 1
        self._written = int(self._sink.tell())
        self._arrow_bytes += self.buffered_bytes
        self._rows, self._buffered_rows, self.buffered_bytes = [], 0, 0

    def close(self) -> DataFile | None:
        """Complete the file. None if no row was written."""
        self.flush()
        if self._writer is None:
            return None
        self._writer.close()
        size = int(self._sink.tell())
        self._sink.close()
        self._created.created(self.location)
        return self._data_file(self._footers[0], size)

    def abandon(self) -> None:
        """Leave the file incomplete; buffered rows are not written."""
        if self._sink is not None:
            if self._writer is not None:
                self._writer.is_open = False  # else it writes a footer when it is garbage-collected
            discard_output(self._sink)

    def _ensure_open(self, rows: pa.Table) -> None:
        if self._writer is None:
            self._schema = _with_dictionaries(self._schema, rows.schema)
            options = _options(self._context, self._hints, rows)
            self._sink = open_new_file(self._io, self.location, self._context, self._partition)
            self._writer = pq.ParquetWriter(self._sink, self._schema, metadata_collector=self._footers, **options)

    def _data_file(self, footer: pq.FileMetaData, size: int) -> DataFile:
        offsets = tuple(group_offset(footer.row_group(g)) for g in range(footer.num_row_groups))
        metrics = file_metrics(footer, self._context.file_schema, self._context.metrics, self._observer, offsets)
        return DataFile(
            content=FileContent.DATA,
            file_path=self.location,
            file_format=FileFormat.PARQUET,
            spec_id=self._context.spec.spec_id,
            partition=self._partition,
            record_count=metrics.record_count,
            file_size_in_bytes=size,
            column_sizes=metrics.column_sizes,
            value_counts=metrics.value_counts,
            null_value_counts=metrics.null_value_counts,
            nan_value_counts=metrics.nan_value_counts,
            lower_bounds=metrics.lower_bounds,
            upper_bounds=metrics.upper_bounds,
            split_offsets=metrics.split_offsets,
            sort_order_id=self._context.sort_order_id,
        )


def encoded_size(rows: Sequence[pa.RecordBatch], context: WriteContext, hints: EncodingHints | None) -> int:
    """Bytes of canonical rows as one row group, without a footer; nothing is kept."""
    table = _compact_dictionaries(one_table(rows))
    schema = _with_dictionaries(stored_schema(context.file_schema), table.schema)
    sink = pa.MockOutputStream()
    with pq.ParquetWriter(sink, schema, **_options(context, hints, table)) as writer:
        writer.write_table(_stored(table, schema), row_group_size=table.num_rows)
        return int(sink.tell())


def _options(context: WriteContext, hints: EncodingHints | None, rows: pa.Table) -> dict[str, Any]:
    """Options of a file whose first rows are these."""
    return writer_options(context.properties, context.file_schema, decided(hints or no_hints(context.file_schema), rows))


def _compact_dictionaries(table: pa.Table) -> pa.Table:
    """One dictionary per column, of the values that its rows have, and only if these are fewer than the rows. Arrow writes unused
    values too, and may take one for a bound: a deleted text would remain in the new file and in its manifest."""
    if not any(pa.types.is_dictionary(f.type) for f in table.schema):
        return table
    table = table.unify_dictionaries()
    for i, f in enumerate(table.schema):
        if pa.types.is_dictionary(f.type) and len(table):
            column = _with_used_values(table.column(i))
            plain = f.type.value_type if _is_large(column) else f.type
            table = table.set_column(i, f.with_type(plain), column if plain == f.type else column.cast(plain))
    return table


def _with_used_values(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column with a dictionary of the values that rows have. All chunks have one dictionary."""
    values = column.chunk(0).dictionary
    is_used = np.zeros(len(values), bool)
    for chunk in column.chunks:
        is_used[chunk.indices.drop_null()] = True
    if is_used.all():
        return column
    places, used = pa.array(np.cumsum(is_used) - is_used, column.type.index_type), values.filter(pa.array(is_used))
    return pa.chunked_array([pa.DictionaryArray.from_arrays(places.take(chunk.indices), used) for chunk in column.chunks])


def _is_large(column: pa.ChunkedArray) -> bool:
    """Whether the dictionary has about as many values as the column has rows, and the rows' text is at most a few times as
    large."""
    values = column.chunk(0).dictionary
    if len(values) <= len(column) // 2:
        return False
    if not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        return True
    return _decoded_bytes(column) <= _MOST_GROWTH * int(values.nbytes)


def _decoded_bytes(column: pa.ChunkedArray) -> int:
    """Bytes of the text of a dictionary column's rows."""
    return sum(pc.sum(pc.binary_length(chunk.dictionary).take(chunk.indices)).as_py() or 0 for chunk in column.chunks)


def _row_groups(table: pa.Table, schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows as one row group, or as several if columns must be decoded, because the file began without dictionaries for them."""
    pairs = [(table.column(f.name), f.type) for f in schema]
    plain = [c for c, type_ in pairs if pa.types.is_dictionary(c.type) and not pa.types.is_dictionary(type_)]
    parts = max(1, -(-sum(map(_decoded_bytes, plain)) // _MOST_GROUP_BYTES))
    rows = -(-table.num_rows // parts)
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)


def _with_dictionaries(stored: pa.Schema, rows: pa.Schema) -> pa.Schema:
    """The stored schema, with the dictionary columns of the first row group: Arrow then writes indices instead of values."""
    return pa.schema([f.with_type(t) if pa.types.is_dictionary(t := rows.field(f.name).type) else f for f in stored])


def _stored(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The canonical table in stored form: uuids as uuids, unknown left out, text in the form of the file's first row group."""
    columns = []
    for f in schema:
        column = table.column(f.name)
        if pa.types.is_dictionary(f.type) and not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        columns.append(column if column.type == f.type else column.cast(f.type))
    return pa.Table.from_arrays(columns, schema=schema)
