"""The equality-delete keys that apply to a task, read once per process and combination of delete files.

Delete files with the same ``equality_ids`` become one set of keys. Their columns are projected like data columns, with the schema
history, so a delete file written before a column was widened still matches.

The rule: keys take a limited part of memory, however many there are. A set of more than ``AT_ONCE_BYTES`` is never completely in
memory: a row is deleted if any part of the set has its key, so the key columns of a data file are read once for every part, and
only the positions of matching rows are kept. Threads that read different sets at the same time share that limit."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from iceberg_ops.data.columns.file_columns import FileColumn, find_column
from iceberg_ops.data.columns.projection import needed_leaves, project
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.deletes.equality_deletes import EqualityKeys, equality_keys
from iceberg_ops.data.deletes.key_memory import KeyMemory, LockMaker, Share
from iceberg_ops.data.formats.any_format import BATCH_ROWS, open_file
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.types import NestedField, StructType

ColumnsOf = Callable[[pa.RecordBatch, Sequence[FileColumn], int], pa.Array]
_Key = tuple[tuple[int, ...], tuple[str, ...], tuple[str, ...], tuple[tuple[str, str], ...]]
AT_ONCE_BYTES = 1 << 24
"""Arrow bytes of keys that are looked up together; removing duplicates and the look-up take thirty times as much."""
_CACHED = 32


@dataclass(frozen=True)
class ManyKeys:
    """A set of keys that is read, part by part, each time it is needed."""

    equality_ids: tuple[int, ...]
    load: _Load

    def parts(self) -> Iterator[EqualityKeys]:
        """Parts of at most ``AT_ONCE_BYTES`` and a batch; keys may be in several."""
        return _parts(self.load)


@dataclass(frozen=True, slots=True)
class DeleteKeys:
    """The keys that apply to a task: sets to look up in every batch, and sets that are too large for that."""

    few: tuple[EqualityKeys, ...]
    many: tuple[ManyKeys, ...]

    @property
    def ids(self) -> set[int]:
        """Field ids of the columns in which ``few`` are looked up."""
        return {i for keys in self.few for i in keys.equality_ids}


def load_delete_keys(io: FileIO, deletes: Sequence[DeleteFile], context: ReadContext) -> DeleteKeys:
    """One set per distinct set of equality ids among the deletes."""
    by_ids: dict[tuple[int, ...], list[DataFile]] = {}
    for delete in deletes:
        if delete.is_equality:
            if not delete.data_file.equality_ids:
                raise CorruptTableError(f"equality delete file {delete.file_path}: equality_ids is not recorded")
            by_ids.setdefault(tuple(sorted(delete.data_file.equality_ids)), []).append(delete.data_file)
    few: list[EqualityKeys] = []
    many: list[ManyKeys] = []
    for ids, files in by_ids.items():
        paths = tuple(context.path_to(i) for i in ids)
        key = (ids, tuple(str(p) for p in paths), tuple(f.file_path for f in files), tuple(sorted(io.properties.items())))
        load = _Load(io, files, ids, paths, context)
        keys, is_whole = _KEPT.get(key, load)
        if not is_whole:
            many.append(ManyKeys(ids, load))
        elif keys is not None:
            few.append(keys)
    return DeleteKeys(tuple(few), tuple(many))


def positions_with_keys(task: FileScanTask, keys: ManyKeys, columns_of: ColumnsOf, io: FileIO) -> npt.NDArray[np.int64]:
    """Ascending positions of the rows, in the task's part of its file, that equal one of the keys. ``columns_of`` gives a batch's
    column for a field id. Raises CorruptTableError."""
    parts: list[npt.NDArray[np.int64]] = []
    for part in keys.parts():
        opened = open_file(io, task.file_path, task.data_file.file_format, keys.load.context.column_ids)
        batches = opened.batches(needed_leaves(keys.load.paths, opened.columns), task.start, task.length, BATCH_ROWS)
        try:
            for position, batch, columns in batches:
                rows = np.flatnonzero(part.matches(partial(columns_of, batch, columns)))
                parts.append(rows.astype(np.int64) + position)
        finally:
            batches.close()
            opened.close()
    return np.unique(np.concatenate(parts)) if parts else np.empty(0, np.int64)


@dataclass(frozen=True)
class _Load:
    """How to read the keys."""

    io: FileIO
    files: Sequence[DataFile]
    ids: tuple[int, ...]
    paths: Sequence[NestedField]
    context: ReadContext


class _Kept:
    """The sets used last, together not larger than the limit of one. One thread reads a set while others wait for it; different
    sets are read in parallel (see ``key_memory``)."""

    def __init__(self, lock: LockMaker = threading.Lock) -> None:
        self._entries: OrderedDict[_Key, tuple[EqualityKeys | None, int]] = OrderedDict()
        self._make_lock = lock
        self._lock = lock()
        """Protects the state; never held while keys are read."""
        self._turns: dict[_Key, tuple[threading.Lock, int]] = {}
        self._memory = KeyMemory(lock)

    def get(self, key: _Key, load: _Load) -> tuple[EqualityKeys | None, bool]:
        """The keys (None: there are none), and whether these are all; False: there are too many."""
        entry = self._known(key)
        if entry is None:
            with self._turn(key):
                if (entry := self._known(key)) is None:
                    entry = _whole(load, self._memory)
                    self._keep(key, entry)
        keys, size = entry
        return keys, size >= 0

    def _known(self, key: _Key) -> tuple[EqualityKeys | None, int] | None:
        with self._lock:
            if key in self._entries:
                self._entries.move_to_end(key)
            return self._entries.get(key)

    def _keep(self, key: _Key, entry: tuple[EqualityKeys | None, int]) -> None:
        with self._lock:
            self._entries[key] = entry
            while len(self._entries) > _CACHED or (len(self._entries) > 1 and self._bytes() > AT_ONCE_BYTES):
                self._entries.popitem(last=False)

    @contextmanager
    def _turn(self, key: _Key) -> Iterator[None]:
        """Hold the lock of one set; the lock exists as long as a thread holds it or waits for it."""
        with self._lock:
            lock, users = self._turns.get(key) or (self._make_lock(), 0)
            self._turns[key] = lock, users + 1
        try:
            with lock:
                yield
        finally:
            with self._lock:
                users = self._turns[key][1] - 1
                self._turns[key] = lock, users
                if not users:
                    del self._turns[key]

    def _bytes(self) -> int:
        return sum(max(0, size) for _, size in self._entries.values())


_KEPT = _Kept()


def _whole(load: _Load, memory: KeyMemory) -> tuple[EqualityKeys | None, int]:
    """The keys and their Arrow bytes; -1 bytes: they exceed the memory limit."""
    with memory.beside() as share:
        loaded = _read(load, share)
    if loaded is None:
        with memory.alone() as share:
            loaded = _read(load, share)
    assert loaded is not None  # alone, only the set's own bytes are held
    return loaded


def _read(load: _Load, share: Share) -> tuple[EqualityKeys | None, int] | None:
    """Like ``_whole``; None: other threads hold so much memory that the answer is not known yet."""
    held: list[list[pa.Array]] = []
    size = 0
    for batch in _batches(load):
        held.append(batch)
        more = _size(batch)
        size += more
        fits = share.take(more, AT_ONCE_BYTES)
        if size > AT_ONCE_BYTES:
            return None, -1
        if not fits:
            return None
    return equality_keys(load.ids, held), size


def _parts(load: _Load) -> Iterator[EqualityKeys]:
    held: list[list[pa.Array]] = []
    size = 0
    for batch in _batches(load):
        held.append(batch)
        size += _size(batch)
        if size >= AT_ONCE_BYTES:
            keys, held, size = equality_keys(load.ids, held), [], 0
            if keys is not None:
                yield keys
    if (keys := equality_keys(load.ids, held)) is not None:
        yield keys


def _size(batch: Sequence[pa.Array]) -> int:
    return sum(int(column.nbytes) for column in batch)


def _batches(load: _Load) -> Iterator[list[pa.Array]]:
    for file in load.files:
        yield from _columns(load, file)


def _columns(load: _Load, file: DataFile) -> Iterator[list[pa.Array]]:
    opened = open_file(load.io, file.file_path, file.file_format, load.context.column_ids)
    try:
        _check_columns(load, file, opened.columns)
        for _, batch, columns in opened.batches(needed_leaves(load.paths, opened.columns), 0, None, BATCH_ROWS):
            yield [descend(project(batch, columns, (p,)).column(0), p, i) for p, i in zip(load.paths, load.ids, strict=True)]
    finally:
        opened.close()


def _check_columns(load: _Load, file: DataFile, columns: Sequence[FileColumn]) -> None:
    """Raise CorruptTableError for a delete file without one of its columns. No file stores values of a column that was of type
    unknown: its keys are null."""
    for path, field_id in zip(load.paths, load.ids, strict=True):
        if not _has(columns, path, field_id) and not load.context.was_unknown(field_id):
            raise CorruptTableError(f"equality delete file {file.file_path} lacks column {path.name} of its equality_ids")


def _has(columns: Sequence[FileColumn], path: NestedField, field_id: int) -> bool:
    """Whether the field at the end of a path is among a file's columns."""
    column = find_column(columns, path.field_id)
    if column is None or path.field_id == field_id:
        return column is not None
    assert isinstance(path.type, StructType)
    return _has(column.children, path.type.fields[0], field_id)


def descend(array: pa.Array, path: NestedField, field_id: int) -> pa.Array:
    """The values of the field at the end of a path (see ``ReadContext.path_to``); a null struct on the path is a null value. The
    field itself may be a struct; it is null only if the struct is null, not if its first part is."""
    while path.field_id != field_id:
        assert isinstance(path.type, StructType)
        array, path = array.flatten()[0], path.type.fields[0]
    return array
