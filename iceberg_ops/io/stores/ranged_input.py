"""A seekable reader of an object that asks for ranges: few and large ones.

It opens with the object's last bytes, which is one request for the size and the footer of a Parquet, ORC or Puffin file, and for
all of a small file. What is read one after another is read ahead, more each time; what is read here and there is asked for as it
is. Every later request names the object's version, so that an object that is written again meanwhile is an error and never a mix.
"""

from __future__ import annotations

import io
import os
from typing import Any

import obstore
from obstore.exceptions import BaseError, GenericError, NotSupportedError, PreconditionError
from obstore.store import ObjectStore

from iceberg_ops.errors import CatalogUnavailableError, TerminalError
from iceberg_ops.io.stores.answers import named_errors

TAIL = 256 << 10
"""Bytes that are read first. A round trip costs as much as a quarter of a megabyte or more."""
_LEAST, _MOST = 1 << 20, 16 << 20
"""Bytes that are read ahead, at first and at most."""


class RangedInput(io.BufferedIOBase):
    """``key`` of ``store``. Not for several threads at once. Raises FileNotFoundError."""

    def __init__(self, store: ObjectStore, key: str, location: str, *, suffix_ranges: bool = True) -> None:
        super().__init__()
        self._store, self._key, self._location = store, key, location
        self._position = 0
        self._ahead = _LEAST
        self._version: str | None = None
        with named_errors(location):
            self._size, self._tail = self._last_bytes(suffix_ranges)
        self._tail_start = self._size - len(self._tail)
        self._window, self._window_start = b"", 0

    @property
    def size(self) -> int:
        """Bytes of the whole object."""
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative seek position {start + offset}")
        self._position = start + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        self._check_open()
        left = max(self._size - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        parts = []
        while wanted:
            part = self._part(wanted)
            self._position += len(part)
            wanted -= len(part)
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read1(self, size: int | None = -1) -> bytes:
        return self.read(size)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def peek(self, size: int = 0) -> bytes:
        """What can be read without another request, at least a byte unless at the end (so that lines are not read byte by byte)."""
        self._check_open()
        at = self._position
        part = self._part(1) if at < self._size else b""
        if part and self._window_start <= at < self._window_start + len(self._window):
            return self._window[at - self._window_start :]
        return self._tail[at - self._tail_start :] if part else b""

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _part(self, wanted: int) -> bytes:
        """From 1 to ``wanted`` bytes at the position, which is not at the end."""
        at = self._position
        if at >= self._tail_start:
            return self._tail[at - self._tail_start :][:wanted] if wanted < len(self._tail) else self._tail[at - self._tail_start :]
        offset = at - self._window_start
        if 0 <= offset < len(self._window):
            return self._window[offset : offset + wanted]
        follows = at == self._window_start + len(self._window)
        self._ahead = min(self._ahead * 2, _MOST) if follows and self._window else _LEAST
        length = max(wanted, self._ahead if follows else 0)
        end = min(at + length, self._tail_start)
        data = self._range(at, end)
        if end - at <= _MOST:
            self._window, self._window_start = data, at
        else:
            self._window, self._window_start = b"", end
        return data[:wanted]

    def _range(self, start: int, end: int) -> bytes:
        with named_errors(self._location):
            try:
                found = obstore.get(self._store, self._key, options={"range": (start, end), "if_match": self._version})
            except PreconditionError:
                raise TerminalError(f"{self._location} was written again while it was read: read it again") from None
            data = found.bytes().to_bytes()
        if len(data) != end - start:
            raise CatalogUnavailableError(f"{self._location}: the store gave {len(data)} bytes instead of {end - start}")
        return data

    def _last_bytes(self, suffix_ranges: bool) -> tuple[int, bytes]:
        if suffix_ranges:
            try:
                found = obstore.get(self._store, self._key, options={"range": {"suffix": TAIL}})
            except (GenericError, NotSupportedError) as e:
                if not _is_about_ranges(e):
                    raise
            else:
                self._version = found.meta["e_tag"]
                return found.meta["size"], found.bytes().to_bytes()
        meta = obstore.head(self._store, self._key)
        self._version, size = meta["e_tag"], meta["size"]
        return size, self._range(max(size - TAIL, 0), size) if size else b""


def _is_about_ranges(error: BaseError) -> bool:
    """An empty object has no last bytes, and says so in several ways; Azure has no requests for last bytes."""
    text = str(error)
    return isinstance(error, NotSupportedError) or "status code: 416" in text or "non-partial response" in text
