"""Position deletes: reading delete files as positions per data file (spec: "Position Delete Files").

Columns are found by their reserved ids. Paths are compared by identity, after the mapping of the FileIO (writers of one table do
not always record a path in the same way). Unsorted files and duplicate positions are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_ops.data.columns.file_columns import ColumnIds
from iceberg_ops.data.columns.projection import needed_leaves, project
from iceberg_ops.data.deletes.deletion_vectors import read_deletion_vector
from iceberg_ops.data.formats.any_format import BATCH_ROWS, open_file
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import KnownFolders, identity_under, known_folders
from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.metadata_columns import DELETE_FILE_PATH, DELETE_FILE_POS
from iceberg_ops.spec.schema import Schema

Positions = dict[str, np.ndarray]
DELETE_SCHEMA = Schema.of(DELETE_FILE_PATH, DELETE_FILE_POS)
EMPTY = np.empty(0, np.int64)
_CACHED_POSITIONS = 64
_Key = tuple[str, tuple[tuple[str, str], ...], KnownFolders]


def deleted_positions(io: FileIO, deletes: Sequence[DeleteFile], file_path: str) -> np.ndarray:
    """Positions of the data file's rows that deletion vectors or position deletes remove: ascending, distinct, int64.

    A deletion vector replaces position delete files (DV-04). ``equality_deletes`` handles equality deletes.
    """
    if not deletes:
        return EMPTY
    vectors = [d for d in deletes if d.is_deletion_vector]
    if len(vectors) > 1:
        raise CorruptTableError(f"data file {file_path} has {len(vectors)} deletion vectors, the spec allows one")
    if vectors:
        parts = [read_deletion_vector(io, vectors[0].data_file)]
    else:
        folders = known_folders()
        file_identity = identity_under(io, folders)(file_path)
        files = [d.data_file for d in deletes if not d.is_equality]
        parts = [positions_in(io, f, folders).get(file_identity, EMPTY) for f in files]
    parts = [p for p in parts if len(p)]
    if not parts:
        return EMPTY
    return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))


def positions_in(io: FileIO, file: DataFile, folders: KnownFolders) -> Positions:
    """Everything a position delete file deletes, by the identity of the data file's path in ``folders``. Files are immutable, so
    results are kept in a small cache."""
    key = (file.file_path, tuple(sorted(io.properties.items())), folders)
    return _cached(key, _Load(io, file))


class _Load:
    """How to read the file; not part of the cache's key."""

    def __init__(self, io: FileIO, file: DataFile) -> None:
        self.io, self.file = io, file

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Load)


@lru_cache(maxsize=_CACHED_POSITIONS)
def _cached(key: _Key, load: _Load) -> Positions:
    return read_positions(load.io, load.file, key[-1])


def read_positions(io: FileIO, file: DataFile, folders: KnownFolders | None = None) -> Positions:
    """Read a position delete file. Raises CorruptTableError."""
    identity = identity_under(io, folders)
    parts: dict[str, list[np.ndarray]] = {}
    for batch in delete_rows(io, file):
        for path, positions in _grouped(batch, identity):
            parts.setdefault(path, []).append(positions)
    return {path: np.unique(np.concatenate(positions)) for path, positions in parts.items()}


def delete_rows(io: FileIO, file: DataFile) -> Iterator[pa.RecordBatch]:
    """The (file_path, pos) rows of a position delete file in any format, as recorded. A row without path or position, which the
    spec does not allow, is skipped."""
    opened = open_file(io, file.file_path, file.file_format, ColumnIds(schema=DELETE_SCHEMA))
    try:
        leaves = needed_leaves(DELETE_SCHEMA.fields, opened.columns)
        for _, batch, columns in opened.batches(leaves, 0, None, BATCH_ROWS):
            rows = project(batch, columns, DELETE_SCHEMA.fields, keep_dictionaries=True)
            if rows.column(0).null_count or rows.column(1).null_count:
                rows = rows.filter(pc.and_(pc.is_valid(rows.column(0)), pc.is_valid(rows.column(1))))
            yield rows
    finally:
        opened.close()


def _grouped(batch: pa.RecordBatch, identity: Callable[[str], str]) -> Iterator[tuple[str, np.ndarray]]:
    paths = batch.column(0)
    if not isinstance(paths, pa.DictionaryArray):
        paths = paths.dictionary_encode()
    codes = np.asarray(paths.indices)
    positions = np.asarray(batch.column(1))
    order = np.argsort(codes, kind="stable")
    codes, positions = codes[order], positions[order]
    if not len(codes):
        return
    starts = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    names = paths.dictionary.to_pylist()
    for i, start in enumerate(starts):
        end = starts[i + 1] if i + 1 < len(starts) else len(codes)
        yield identity(names[codes[start]]), positions[start:end]


def kept(deleted: np.ndarray, position: int, rows: int) -> np.ndarray | None:
    """Which of the ``rows`` rows starting at ``position`` remain; None if all do."""
    if not len(deleted):
        return None
    low, high = np.searchsorted(deleted, [position, position + rows])
    if low == high:
        return None
    mask = np.ones(rows, dtype=bool)
    mask[deleted[low:high] - position] = False
    return mask
