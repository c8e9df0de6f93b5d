"""Chooses the encodings of a rewrite from the footers of its input files.

A column that every input kept in a useful dictionary stays in one; other text gets DELTA_LENGTH_BYTE_ARRAY, integers (also dates,
times, short decimals) DELTA_BINARY_PACKED. This avoids building a dictionary that will not last, and saves 10 % of the bytes on
lineitem. If the inputs give no information, because they are tiny or lack the column, the rows to write decide. Columns are
matched by field id: inputs may use other names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from iceberg_ops.data.arrow.arrow_sources import arrow_failures
from iceberg_ops.data.columns.file_columns import ColumnIds, FileColumn
from iceberg_ops.data.formats.metrics import leaf_paths
from iceberg_ops.data.formats.parquet_options import EncodingHints
from iceberg_ops.data.formats.parquet_reader import DICTIONARY_ENCODINGS, ParquetDataFile, stayed_in_dictionary
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import FileFormat
from iceberg_ops.spec.metadata_columns import ROW_ID_ID
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import BINARY, DATE, INT, LONG, STRING, TIME, DecimalType, IcebergType, PrimitiveType
from iceberg_ops.table.stored_files import named_failures

_LOOKED_AT = 8
"""At most this many inputs are read, and one of so many, evenly chosen: files of one group were mostly written alike."""
_TOO_FEW = 1000
"""A chunk with fewer values is not a sample of its column."""
_LOOKED_AT_ROWS = 1 << 16
_HOPELESS = 0.95
"""If more than this share of the first rows are distinct values, a dictionary exceeds its page long before the row group ends."""
_MINIBLOCK, _NARROW = 32, 32
"""Values that share a width in DELTA_BINARY_PACKED; bits of a narrow column."""
_LONG_RUNS = 4
"""With fewer changes per value than this, the runs of a dictionary encoding are even shorter."""
_PAYS = 0.75
"""A dictionary of numbers is useful if the encoded chunk is at most this share of the plain one."""


def hints_for(io: FileIO, tasks: Sequence[FileScanTask], schema: Schema) -> EncodingHints | None:
    """Hints for files of ``schema`` made from these inputs; None if none of them is Parquet."""
    return hints_from(io, [t.file_path for t in tasks if t.data_file.file_format is FileFormat.PARQUET], schema, ColumnIds())


def hints_from(io: FileIO, locations: Sequence[str], schema: Schema, ids: ColumnIds) -> EncodingHints | None:
    """Hints for files of ``schema`` made from Parquet files whose columns ``ids`` identifies; None if there are none."""
    kept: dict[int, bool | None] = {ROW_ID_ID: False}
    footers = list(_footers(io, locations, ids))
    for columns, footer in footers:
        for field_id, stayed in _verdicts(columns, footer):
            before = kept.get(field_id)
            kept[field_id] = stayed if before is None else before if stayed is None else before and stayed
    if not footers:
        return None
    paths = leaf_paths(schema)
    dictionary = frozenset(path for path, field_id, _ in paths if kept.get(field_id))
    undecided = {path: _delta(type_) for path, field_id, type_ in paths if kept.get(field_id) is None}
    others = ((path, _delta(type_)) for path, _, type_ in paths if path not in dictionary and path not in undecided)
    return EncodingHints(dictionary, {path: e for path, e in others if e is not None}, undecided)


def no_hints(schema: Schema) -> EncodingHints:
    """The rows to write decide everything."""
    return EncodingHints(undecided={path: _delta(type_) for path, _, type_ in leaf_paths(schema)})


def decided(hints: EncodingHints, rows: pa.Table) -> EncodingHints:
    """Hints without undecided leaves, decided by the first rows of a file. Leaves inside other columns try a dictionary.

    Increasing integers (keys of sorted rows) lose a dictionary that was useful in small inputs: it would exceed its page.
    """
    climbing = {name for name in hints.dictionary if name in rows.schema.names and _delta_pays(rows.column(name))}
    dictionary = set(hints.dictionary) - climbing
    encodings = {**hints.encodings, **dict.fromkeys(climbing, "DELTA_BINARY_PACKED")}
    for path, encoding in hints.undecided.items():
        if path not in rows.schema.names or _dictionary_pays(rows.column(path)):
            dictionary.add(path)
        elif encoding is not None:
            encodings[path] = encoding
    return EncodingHints(frozenset(dictionary), encodings)


def _delta_pays(column: pa.ChunkedArray) -> bool:
    """Whether differences to the previous row take less than half the bits of dictionary indices and the dictionary itself."""
    type_ = column.type
    if not (pa.types.is_int32(type_) or pa.types.is_int64(type_) or pa.types.is_date32(type_) or pa.types.is_timestamp(type_)):
        return False
    seen = column.slice(0, _LOOKED_AT_ROWS).drop_null()
    if len(seen) < _TOO_FEW:
        return False
    values = seen.cast(pa.int32() if type_.bit_width == _NARROW else pa.int64()).to_numpy().astype(np.float64)
    steps = np.diff(values)
    if np.count_nonzero(steps) * _MINIBLOCK < len(steps) * _LONG_RUNS:
        return False
    blocks = steps[: len(steps) // _MINIBLOCK * _MINIBLOCK].reshape(-1, _MINIBLOCK)
    by_steps = np.ceil(np.log2(np.ptp(blocks, axis=1) + 1)).mean()
    distinct = pc.count_distinct(seen).as_py()
    by_places = max(1, (distinct - 1).bit_length()) + distinct * type_.bit_width / len(seen)
    return bool(by_steps < by_places / 2)


def _dictionary_pays(column: pa.ChunkedArray) -> bool:
    """Whether a dictionary makes the column smaller. Of many rows only the first are checked, and then it must clearly not."""
    if pa.types.is_dictionary(column.type) or pa.types.is_nested(column.type) or not len(column):
        return True
    seen = column.slice(0, _LOOKED_AT_ROWS)
    distinct = pc.count_distinct(seen).as_py()
    if len(seen) < len(column):
        return bool(distinct < _HOPELESS * len(seen))
    width = seen.nbytes / len(seen)
    indices = len(seen) * max(1, (distinct - 1).bit_length()) / 8
    return bool(distinct * width + indices <= _PAYS * len(seen) * width)


def _footers(io: FileIO, parquet: Sequence[str], ids: ColumnIds) -> Iterator[tuple[tuple[FileColumn, ...], pq.FileMetaData]]:
    looked_at = min(_LOOKED_AT, -(-len(parquet) // _LOOKED_AT))
    step = max(1, len(parquet) // max(looked_at, 1))
    for location in parquet[::step][:looked_at]:
        with named_failures(location), arrow_failures(location, "cannot be read"):
            opened = ParquetDataFile(io, location, ids)
        yield opened.columns, opened.metadata
        opened.close()


def _verdicts(columns: Sequence[FileColumn], footer: pq.FileMetaData) -> Iterator[tuple[int, bool | None]]:
    by_leaf = {c.leaves[0]: c.field_id for c in _leaves(columns) if c.field_id is not None}
    for leaf, field_id in by_leaf.items():
        verdicts = [_stayed(footer.row_group(g).column(leaf)) for g in range(footer.num_row_groups)]
        yield field_id, False if False in verdicts else True if True in verdicts else None


def _leaves(columns: Sequence[FileColumn]) -> Iterator[FileColumn]:
    for column in columns:
        if column.children:
            yield from _leaves(column.children)
        else:
            yield column


def _stayed(chunk: pq.ColumnChunkMetaData) -> bool | None:
    """Whether the chunk kept its dictionary to the end, as far as a footer shows, and it is useful; None: too small to tell."""
    if chunk.num_values < _TOO_FEW:
        return None
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
