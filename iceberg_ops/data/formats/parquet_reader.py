"""Parquet files as Arrow batches.

Only the requested leaves are decoded, and fewer rows at a time if they are wide (``batch_sizes``). A part of a file is the row
groups whose first byte lies in it (spec: splits at row-group offsets), without those that a filter excludes by their statistics.
Text stored in dictionaries stays in them: decoding it after deletes and filters have removed rows is cheaper, and so is comparing
each dictionary value once. INT96 timestamps are read in microseconds.

Consecutive files are mostly alike: a file is opened with the options of the last one, and opened again only if these were wrong.
Information that is equal for all such files (except schema-wide notes) is computed once; information about chunks for each file.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.arrow.arrow_sources import arrow_failures, arrow_source
from iceberg_ops.data.arrow.arrow_values import bare_batch
from iceberg_ops.data.arrow.batch_sizes import decoded_rows
from iceberg_ops.data.arrow.plain_types import plain_batch, plain_schema, read_whole
from iceberg_ops.data.columns.file_columns import ColumnIds, FileColumn, pruned
from iceberg_ops.data.formats.parquet_encryption import has_encrypted_columns
from iceberg_ops.data.formats.parquet_footer_repair import REFUSAL, repaired_metadata
from iceberg_ops.data.formats.row_group_pruning import groups_that_may_match, runs
from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.file_io import FileIO

DICTIONARY_ENCODINGS = frozenset({"RLE_DICTIONARY", "PLAIN_DICTIONARY"})
_INDEX_BYTES, _PAGE_BYTES = 3, 512
_HELD_BYTES = 64 << 20
"""For a file in a store, Arrow joins the requests of all row groups that are read in one pass, and holds their bytes until the end
of the pass. So a pass has row groups of at most this many bytes, or a single one."""


@dataclass(frozen=True, slots=True)
class _Likeness:
    """How the last file was read: ``names`` as dictionaries, which gives its schema as ``opened`` (without notes that do not belong
    to a column) instead of ``plain``, which has plain types (``is_plain``: the file has only plain types)."""

    names: tuple[str, ...]
    opened: pa.Schema
    plain: pa.Schema
    is_plain: bool
    read_whole: tuple[frozenset[int], ...]


_LAST: dict[str, _Likeness] = {}
_TEXT: dict[str, tuple[pa.Schema, set[int], tuple[tuple[int, str], ...]]] = {}
"""The last result of ``text_columns``, with its schema and leaves."""


class ParquetDataFile:
    """One open Parquet file (see ``formats.OpenFile``)."""

    def __init__(self, io: FileIO, location: str, ids: ColumnIds) -> None:
        self.location = location
        self._source = arrow_source(io, location)
        self._names: tuple[str, ...] = ()
        self._is_plain = True
        self._is_repaired = False
        self._read_whole: tuple[frozenset[int], ...] = ()
        try:
            self._file, self._plain = self._opened(io)
            if not self._is_repaired and has_encrypted_columns(self._file.metadata, self._source):
                raise UnsupportedError(f"not supported: reading file {location}, because columns of it are encrypted")
            self.columns: tuple[FileColumn, ...] = ids.columns(self._plain)
        except BaseException:
            self._source.close()
            raise

    @property
    def metadata(self) -> pq.FileMetaData:
        return self._file.metadata

    def close(self) -> None:
        self._file.close(force=True)
        self._source.close()

    def batches(
        self, leaves: set[int], start: int, length: int | None, batch_rows: int, where: Expression = ALWAYS_TRUE
    ) -> Generator[tuple[int, pa.RecordBatch, tuple[FileColumn, ...]]]:
        with arrow_failures(self.location):
            yield from self._batches(leaves, start, length, batch_rows, where)

    def _batches(
        self, leaves: set[int], start: int, length: int | None, batch_rows: int, where: Expression
    ) -> Generator[tuple[int, pa.RecordBatch, tuple[FileColumn, ...]]]:
        metadata = self._file.metadata
        leaves = leaves.union(*(together for together in self._read_whole if not leaves.isdisjoint(together)))
        groups = groups_that_may_match(metadata, self.columns, row_groups_in(metadata, start, length), where)
        if groups:
            self._keep_in_dictionaries(metadata, leaves, groups)
        for run in runs(groups):
            for part in self._passes(run, leaves):
                yield from self._run(part, leaves, self._rows_at_once(part, leaves, batch_rows))

    def _passes(self, groups: Sequence[int], leaves: set[int]) -> Iterator[list[int]]:
        """The row groups of each pass."""
        if not isinstance(self._source, pa.PythonFile):
            yield list(groups)
            return
        part, held = list[int](), 0
        for group in groups:
            row_group = self._file.metadata.row_group(group)
            size = sum(row_group.column(leaf).total_compressed_size for leaf in leaves)
            if part and held + size > _HELD_BYTES:
                yield part
                part, held = [], 0
            part.append(group)
            held += size
        yield part

    def _rows_at_once(self, groups: Sequence[int], leaves: set[int], batch_rows: int) -> int:
        """At most ``batch_rows``, fewer if rows are wide."""
        encoded = {leaf for leaf, path in self._text_columns(leaves) if path in self._names}
        return decoded_rows(self._file.metadata, leaves, groups, batch_rows, encoded)

    def _opened(self, io: FileIO) -> tuple[pq.ParquetFile, pa.Schema]:
        """The file, if possible opened like the last one, and its schema without dictionaries, in plain types."""
        try:
            if (last := _LAST.get("parquet")) is not None:
                file = _open(self._source, last.names)
                if file is not None and file.schema_arrow.remove_metadata().equals(last.opened, check_metadata=True):
                    self._names, self._is_plain, self._read_whole = last.names, last.is_plain, last.read_whole
                    return file, last.plain
            file = _open(self._source, ())
        except OSError as e:
            if REFUSAL not in str(e):
                raise
            with io.open_input(self.location) as source:
                file = _open(self._source, (), repaired_metadata(source, self.location))
            self._is_repaired = True
        assert file is not None
        stored = file.schema_arrow
        plain = plain_schema(stored)
        self._is_plain = plain is stored
        self._read_whole = () if self._is_plain else read_whole(stored)
        return file, plain

    def _keep_in_dictionaries(self, metadata: pq.FileMetaData, leaves: set[int], groups: Sequence[int]) -> None:
        """Open the file again if other columns among the leaves should be read as dictionaries than are now: with dictionaries not
        every value is processed."""
        text = self._text_columns(leaves)
        names = [path for c, path in text if all(stayed_in_dictionary(metadata.row_group(g).column(c)) for g in groups)]
        if names == [path for _, path in text if path in self._names]:
            return
        again = _open(self._source, names, metadata)
        assert again is not None
        self._file, self._names = again, tuple(names)
        opened = again.schema_arrow.remove_metadata()
        _LAST["parquet"] = _Likeness(self._names, opened, self._plain, self._is_plain, self._read_whole)

    def _text_columns(self, leaves: set[int]) -> tuple[tuple[int, str], ...]:
        """``text_columns``, computed once for files that were opened in the same way."""
        seen = _TEXT.get("last")
        if seen is None or seen[0] is not self._plain or seen[1] != leaves:
            _TEXT["last"] = seen = (self._plain, set(leaves), text_columns(self._file.schema, leaves))
        return seen[2]

    def _run(
        self, groups: Sequence[int], leaves: set[int], batch_rows: int
    ) -> Generator[tuple[int, pa.RecordBatch, tuple[FileColumn, ...]]]:
        """The rows of adjacent row groups."""
        position = sum(self._file.metadata.row_group(g).num_rows for g in range(groups[0]))
        if not leaves:
            yield from _bare_rows(self._file.metadata, groups, position, batch_rows)
            return
        # By number: a path stands for all columns of that name, and for those whose path begins with it (``a`` for ``a.b``).
        numbers = None if len(leaves) == len(self._file.schema) else sorted(leaves)
        columns, threads = None, pa.cpu_count() > 1
        try:
            for batch in self._file.reader.iter_batches(batch_rows, row_groups=groups, column_indices=numbers, use_threads=threads):
                batch = batch if self._is_plain else plain_batch(batch)
                columns = columns or pruned(self.columns, batch.schema, leaves)
                yield position, batch, columns
                position += batch.num_rows
        except OSError as e:
            raise CorruptTableError(f"file {self.location} cannot be decoded: {e}") from None


def _open(source: pa.NativeFile, dictionaries: Sequence[str], metadata: Any = None) -> pq.ParquetFile | None:
    """None if the file lacks one of the columns named."""
    options = {"coerce_int96_timestamp_unit": "us", "read_dictionary": list(dictionaries) or None, "metadata": metadata}
    options["arrow_extensions_enabled"] = False  # uuids inside maps cannot be read as extension values
    try:
        return pq.ParquetFile(source, pre_buffer=isinstance(source, pa.PythonFile), **options)
    except KeyError:
        return None


def row_groups_in(metadata: pq.FileMetaData, start: int, length: int | None) -> list[int]:
    """Row groups that begin in ``[start, start + length)``."""
    if not start and length is None:
        return list(range(metadata.num_row_groups))
    row_groups = []
    for i in range(metadata.num_row_groups):
        offset = group_offset(metadata.row_group(i))
        if offset >= start and (length is None or offset < start + length):
            row_groups.append(i)
    return row_groups


def group_offset(group: pq.RowGroupMetaData) -> int:
    """First byte of a row group (a file without columns has none: 4, after the magic)."""
    if not group.num_columns:
        return 4
    column = group.column(0)
    dictionary = column.dictionary_page_offset
    return int(dictionary if dictionary is not None and 0 < dictionary < column.data_page_offset else column.data_page_offset)


def text_columns(schema: pq.ParquetSchema, leaves: Iterable[int]) -> tuple[tuple[int, str], ...]:
    """(leaf, path) of the top-level text columns among the leaves, which Arrow can read as dictionaries."""
    columns_of_text = []
    for c in sorted(leaves):
        column = schema.column(c)
        if column.physical_type != "BYTE_ARRAY" or column.max_repetition_level or "." in column.path:
            continue
        if str(column.logical_type.type) not in ("STRING", "NONE"):
            continue
        columns_of_text.append((c, column.path))
    return tuple(columns_of_text)


def stayed_in_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    """A text chunk whose writer kept its dictionary to the end, and whose dictionary is small.

    Footers do not show where a writer stopped using its dictionary, but sizes do: indices take at most 2.5 bytes a value (a
    dictionary of 1 MiB has fewer than 2**20 values), plain text at least 4 and its own length.
    """
    if not chunk.has_dictionary_page or not DICTIONARY_ENCODINGS & set(chunk.encodings):
        return False
    return bool(chunk.total_uncompressed_size <= _INDEX_BYTES * chunk.num_values + _PAGE_BYTES)


def _bare_rows(
    metadata: pq.FileMetaData, groups: Sequence[int], position: int, batch_rows: int
) -> Generator[tuple[int, pa.RecordBatch, tuple[FileColumn, ...]]]:
    """Rows without columns: only their number is needed."""
    left = sum(metadata.row_group(i).num_rows for i in groups)
    while left > 0:
        rows = min(left, batch_rows)
        yield position, bare_batch(rows), ()
        position += rows
        left -= rows
