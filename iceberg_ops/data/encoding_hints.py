"""Encodings of a rewrite, decided from the footers of its input files.

A column that every input kept in a dictionary that paid stays in one; text that did not gets DELTA_LENGTH_BYTE_ARRAY, whole numbers
(dates, times, short decimals too) DELTA_BINARY_PACKED. That saves the attempt at a dictionary that will not last, and 10 % of the
bytes on lineitem. A column no input has tries a dictionary. Columns are matched by field id: inputs may know them by other names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.data.file_columns import ColumnIds, FileColumn
from iceberg_ops.data.metrics import leaf_paths
from iceberg_ops.data.parquet_options import EncodingHints
from iceberg_ops.data.parquet_reader import DICTIONARY_ENCODINGS, ParquetDataFile, stayed_in_dictionary
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import FileFormat
from iceberg_ops.spec.metadata_columns import ROW_ID_ID
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import BINARY, DATE, INT, LONG, STRING, TIME, DecimalType, IcebergType, PrimitiveType

_LOOKED_AT = 8
"""Inputs looked at: files of one group were mostly written alike."""
_TOO_FEW = 1000
"""A chunk of fewer values says nothing: try a dictionary."""
_PAYS = 0.75
"""A dictionary of numbers pays when the encoded chunk is at most this part of the plain one."""


def hints_for(io: FileIO, tasks: Sequence[FileScanTask], schema: Schema) -> EncodingHints | None:
    """Hints for files of ``schema`` made from these inputs; None where none of them is Parquet."""
    kept: dict[int, bool] = {}
    footers = list(_footers(io, tasks))
    for columns, footer in footers:
        for field_id, stayed in _verdicts(columns, footer):
            kept[field_id] = kept.get(field_id, True) and stayed
    if not footers:
        return None
    paths = leaf_paths(schema)
    dictionary = frozenset(path for path, field_id, _ in paths if kept.get(field_id, field_id != ROW_ID_ID))
    encodings = {path: e for path, _, type_ in paths if path not in dictionary and (e := _delta(type_)) is not None}
    return EncodingHints(dictionary, encodings)


def _footers(io: FileIO, tasks: Sequence[FileScanTask]) -> Iterator[tuple[tuple[FileColumn, ...], pq.FileMetaData]]:
    parquet = [t.file_path for t in tasks if t.data_file.file_format is FileFormat.PARQUET]
    step = max(1, len(parquet) // _LOOKED_AT)
    for location in parquet[::step][:_LOOKED_AT]:
        try:
            opened = ParquetDataFile(io, location, ColumnIds())
        except (FileNotFoundError, pa.ArrowInvalid) as e:
            raise CorruptTableError(f"file {location} can not be read: {e}") from None
        yield opened.columns, opened.metadata
        opened.close()


def _verdicts(columns: Sequence[FileColumn], footer: pq.FileMetaData) -> Iterator[tuple[int, bool]]:
    by_leaf = {c.leaves[0]: c.field_id for c in _leaves(columns) if c.field_id is not None}
    for leaf, field_id in by_leaf.items():
        yield field_id, all(_stayed(footer.row_group(g).column(leaf)) for g in range(footer.num_row_groups))


def _leaves(columns: Sequence[FileColumn]) -> Iterator[FileColumn]:
    for column in columns:
        if column.children:
            yield from _leaves(column.children)
        else:
            yield column


def _stayed(chunk: pq.ColumnChunkMetaData) -> bool:
    """A dictionary to the end of the chunk, as far as a footer tells, and one that pays."""
    if chunk.num_values < _TOO_FEW:
        return True
    width = {"INT32": 4, "INT64": 8, "DOUBLE": 8, "FLOAT": 4}.get(chunk.physical_type)
    if width is None:
        return stayed_in_dictionary(chunk)
    used = bool(chunk.has_dictionary_page and DICTIONARY_ENCODINGS & set(chunk.encodings))
    return used and bool(chunk.total_uncompressed_size <= chunk.num_values * width * _PAYS)


def _delta(type_: IcebergType) -> str | None:
    if type_ in (STRING, BINARY):
        return "DELTA_LENGTH_BYTE_ARRAY"
    whole = type_ in (INT, LONG, DATE, TIME) or (isinstance(type_, PrimitiveType) and type_.name.startswith("timestamp"))
    if whole or (isinstance(type_, DecimalType) and type_.precision <= 18):
        return "DELTA_BINARY_PACKED"
    return None
