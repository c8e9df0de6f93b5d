"""Files in this process's memory, for tests and trials.

Stores are distinguished by name: two MemoryFileIO of one name in one process see the same files. Locations are compared as they are
written (``memory://a`` and ``/a`` are different files).
"""

from __future__ import annotations

import errno
import io
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import TracebackType
from typing import BinaryIO, cast

from iceberg_ops.io.file_io import DeleteFailure, FileInfo

NAME = "memory.name"
"""Property that names the store; its default is ``default``."""


class _Store:
    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.files: dict[str, tuple[bytes, int]] = {}


_STORES: dict[str, _Store] = {}
_STORES_LOCK = threading.Lock()


class MemoryFileIO:
    """FileIO over a named dict. ``clock`` gives modification times in seconds since the epoch."""

    def __init__(self, name: str = "default", *, clock: Callable[[], float] = time.time) -> None:
        self._name = name
        self._clock = clock
        with _STORES_LOCK:
            self._store = _STORES.setdefault(name, _Store())

    @property
    def properties(self) -> Mapping[str, str]:
        return {"io-impl": "memory", NAME: self._name}

    def read(self, location: str) -> bytes:
        return self._file(location)[0]

    def open_input(self, location: str) -> BinaryIO:
        return io.BytesIO(self.read(location))

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        with self._store.lock:
            if location in self._store.files and not overwrite:
                raise FileExistsError(errno.EEXIST, "file exists", location)
            self._store.files[location] = (bytes(data), int(self._clock() * 1000))

    def open_output(self, location: str) -> BinaryIO:
        if self.exists(location):
            raise FileExistsError(errno.EEXIST, "file exists", location)
        return cast(BinaryIO, _MemoryOutput(self, location))

    def exists(self, location: str) -> bool:
        return location in self._store.files

    def length(self, location: str) -> int:
        return len(self._file(location)[0])

    def delete(self, location: str) -> None:
        with self._store.lock:
            self._store.files.pop(location, None)

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        for location in locations:
            self.delete(location)
        return []

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        folder = prefix.rstrip("/") + "/"
        with self._store.lock:
            infos = [FileInfo(name, len(data), ms) for name, (data, ms) in self._store.files.items() if name.startswith(folder)]
        yield from infos

    def local_path(self, location: str) -> str | None:
        return None

    def set_modified_ms(self, location: str, modified_ms: int) -> None:
        """Set an earlier modification time (for tests of age rules). Raises FileNotFoundError."""
        with self._store.lock:
            self._store.files[location] = (self._file(location)[0], modified_ms)

    def clear(self) -> None:
        """Remove every file of this store."""
        with self._store.lock:
            self._store.files.clear()

    def _file(self, location: str) -> tuple[bytes, int]:
        try:
            return self._store.files[location]
        except KeyError:
            raise FileNotFoundError(errno.ENOENT, "no such file", location) from None


class _MemoryOutput(io.BytesIO):
    """Becomes a file on ``close``; an exception or a missing ``close`` leaves none."""

    def __init__(self, owner: MemoryFileIO, location: str) -> None:
        super().__init__()
        self._owner = owner
        self._location = location

    def close(self) -> None:
        if not self.closed:
            data = self.getvalue()
            super().close()
            self._owner.write(self._location, data)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            super().close()

    def __del__(self) -> None:
        super().close()
