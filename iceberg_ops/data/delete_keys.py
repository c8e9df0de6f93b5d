"""The equality-delete keys that apply to a task, read once per process and combination of delete files.

Delete files of the same ``equality_ids`` become one set of keys. Their columns are projected like data columns, under the schema
history, so a delete file written before a column was widened still matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

import pyarrow as pa

from iceberg_ops.data.equality_deletes import EqualityKeys, equality_keys
from iceberg_ops.data.formats import BATCH_ROWS, open_file
from iceberg_ops.data.projection import needed_leaves, project
from iceberg_ops.data.read_context import ReadContext
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.types import NestedField, StructType

_CACHED = 32


def keys_of(io: FileIO, deletes: Sequence[DeleteFile], context: ReadContext) -> tuple[EqualityKeys, ...]:
    """One ``EqualityKeys`` per distinct set of equality ids among the deletes."""
    by_ids: dict[tuple[int, ...], list[DataFile]] = {}
    for delete in deletes:
        if delete.is_equality:
            if not delete.data_file.equality_ids:
                raise CorruptTableError(f"equality delete file {delete.file_path}: equality_ids is not recorded")
            by_ids.setdefault(tuple(sorted(delete.data_file.equality_ids)), []).append(delete.data_file)
    found = []
    for ids, files in by_ids.items():
        paths = tuple(context.path_to(i) for i in ids)
        key = (ids, tuple(str(p) for p in paths), tuple(f.file_path for f in files), tuple(sorted(io.properties.items())))
        keys = _cached(key, _Load(io, files, ids, paths, context))
        if keys is not None:
            found.append(keys)
    return tuple(found)


class _Load:
    """How to read the keys; not part of the cache's key."""

    def __init__(
        self, io: FileIO, files: Sequence[DataFile], ids: Sequence[int], paths: Sequence[NestedField], context: ReadContext
    ) -> None:
        self.io, self.files, self.ids, self.paths, self.context = io, files, ids, paths, context

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Load)


@lru_cache(maxsize=_CACHED)
def _cached(
    key: tuple[tuple[int, ...], tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]], load: _Load
) -> EqualityKeys | None:
    return equality_keys(key[0], (part for file in load.files for part in _columns(load, file)))


def _columns(load: _Load, file: DataFile) -> Iterator[list[pa.Array]]:
    opened = open_file(load.io, file.file_path, file.file_format, load.context.column_ids)
    try:
        missing = [p.name for p in load.paths if all(c.field_id != p.field_id for c in opened.columns)]
        if missing:
            raise CorruptTableError(f"equality delete file {file.file_path} lacks column {', '.join(missing)} of its equality_ids")
        for _, batch, columns in opened.batches(needed_leaves(load.paths, opened.columns), 0, None, BATCH_ROWS):
            yield [descend(project(batch, columns, (p,), {}).column(0), p, i) for p, i in zip(load.paths, load.ids, strict=True)]
    finally:
        opened.close()


def descend(array: pa.Array, path: NestedField, field_id: int) -> pa.Array:
    """The values of the field at the end of a path (see ``ReadContext.path_to``); a null struct on the way is a null value. The
    field itself may be a struct, which is null only where it is null, not where its first part is."""
    while path.field_id != field_id:
        assert isinstance(path.type, StructType)
        array, path = array.flatten()[0], path.type.fields[0]
    return array
