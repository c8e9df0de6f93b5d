"""Limits the size of batches by bytes as well as by rows, because one row can hold megabytes.

The rule: code that holds several batches at a time (a sort, a merge, a writer's buffer, rows read ahead) can compute its memory
from its limit in bytes. The smallest batch is a single row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

BATCH_BYTES = 32 << 20
"""The approximate Arrow bytes of a batch between reader and writer: an eighth of the default memory of a sort."""
_INDEX_BYTES = 4
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
"""Arrow bytes of a value, at most, by Parquet's physical type."""
_UNKNOWN_TEXT = 4 << 10
"""Statistics leave out values longer than this: a dictionary without statistics holds such values."""


def own_bytes(batch: pa.RecordBatch) -> int:
    """Arrow bytes of a batch without its dictionaries, which batches of one file share."""
    return sum(_own_bytes(column) for column in batch.columns)


def dictionary_bytes(batch: pa.RecordBatch) -> int:
    """Arrow bytes of the batch's dictionaries."""
    return sum(column.dictionary.nbytes for column in batch.columns if isinstance(column, pa.DictionaryArray))


def _own_bytes(column: pa.Array) -> int:
    return int(column.indices.nbytes if isinstance(column, pa.DictionaryArray) else column.nbytes)


def cut(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The batch in slices of about ``most_bytes`` or a single row; unchanged if it is not larger."""
    size = own_bytes(batch)
    if size <= most_bytes or batch.num_rows < 2:
        yield batch
        return
    half = batch.num_rows // 2
    rows = min(max(1, most_bytes * batch.num_rows // size), half)
    for start in range(0, batch.num_rows, rows):
        part = batch.slice(start, rows)
        # Rows of one batch differ in size: a slice that is still far too large is cut again.
        yield from cut(part, most_bytes) if own_bytes(part) > 2 * most_bytes else (part,)


def decoded_rows(
    metadata: pq.FileMetaData, leaves: Collection[int], groups: Sequence[int], most_rows: int, encoded: Collection[int] = ()
) -> int:
    """The number of rows of those row groups to decode at once, for about ``BATCH_BYTES``, at most ``most_rows``.

    ``encoded`` are the leaves that are read as dictionaries. Footers give only encoded sizes: for the other leaves the size of
    decoded dictionary values is estimated from the lengths of the least and greatest value.
    """
    row_groups = [metadata.row_group(g) for g in groups]
    per_row = max((_most_bytes_of_a_row(group, leaves, encoded) for group in row_groups if group.num_rows), default=0.0)
    return most_rows if per_row * most_rows <= BATCH_BYTES else max(1, int(BATCH_BYTES / per_row))


def _most_bytes_of_a_row(group: pq.RowGroupMetaData, leaves: Collection[int], encoded: Collection[int]) -> float:
    chunks = [group.column(leaf) for leaf in leaves if leaf not in encoded]
    return _INDEX_BYTES * len(encoded) + sum(_bytes_of_a_row(chunk, group.num_rows) for chunk in chunks)


def _bytes_of_a_row(chunk: pq.ColumnChunkMetaData, rows: int) -> float:
    values = float(chunk.num_values) / rows
    width = _WIDTHS.get(chunk.physical_type)
    if width is not None:
        return width * values
    stored = float(chunk.total_uncompressed_size) / rows
    if not chunk.has_dictionary_page:
        return stored
    statistics = chunk.statistics
    if statistics is None or not statistics.has_min_max:
        is_null = statistics is not None and statistics.null_count == chunk.num_values
        return stored if is_null else max(stored, values * min(_UNKNOWN_TEXT, int(chunk.total_uncompressed_size)))
    return max(stored, values * max(_length(statistics.min_raw), _length(statistics.max_raw)))


def _length(value: object) -> int:
    return len(value) if isinstance(value, bytes | str) else _INDEX_BYTES
