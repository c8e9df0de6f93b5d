"""A seekable reader of a file that requests few, large ranges.

It opens with the file's last bytes, which hold the footer of a Parquet, ORC or Puffin file, or all of a small file. Sequential
reads are read ahead, more each time; random reads are requested exactly.
"""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from typing import Any

TAIL = 256 << 10
"""Bytes that are read first. A round trip costs as much as a quarter of a megabyte or more."""
_LEAST, _MOST = 1 << 20, 16 << 20
"""Bytes that are read ahead, at first and at most."""


class WindowedInput(io.BufferedIOBase):
    """Of ``size`` bytes, the last of which are ``tail``. A subclass reads ranges. Not for several threads at once."""

    def __init__(self, size: int, tail: bytes) -> None:
        super().__init__()
        self._size, self._tail = size, tail
        self._tail_start = size - len(tail)
        self._position = 0
        self._ahead = _LEAST
        self._window, self._window_start = b"", 0

    @abstractmethod
    def _range(self, start: int, end: int) -> bytes:
        """The bytes from ``start`` until before ``end``, all of them."""
        ...

    @property
    def size(self) -> int:
        """Bytes of the whole file."""
        return self._size

    @property
    def content(self) -> bytes | None:
        """See ``HoldsContent``."""
        return self._tail if not self._tail_start else None

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
        count = left if size is None or size < 0 else min(size, left)
        parts = []
        while count:
            part = self._part(count)
            self._position += len(part)
            count -= len(part)
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
        """The bytes that can be read without another request, at least one unless at the end (so that lines are not read byte by
        byte)."""
        self._check_open()
        at = self._position
        part = self._part(1) if at < self._size else b""
        if part and self._window_start <= at < self._window_start + len(self._window):
            return self._window[at - self._window_start :]
        return self._tail[at - self._tail_start :] if part else b""

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def _part(self, count: int) -> bytes:
        """From 1 to ``wanted`` bytes at the position, which is not at the end."""
        at = self._position
        if at >= self._tail_start:
            return self._tail[at - self._tail_start :][:count] if count < len(self._tail) else self._tail[at - self._tail_start :]
        offset = at - self._window_start
        if 0 <= offset < len(self._window):
            return self._window[offset : offset + count]
        follows = at == self._window_start + len(self._window)
        self._ahead = min(self._ahead * 2, _MOST) if follows and self._window else _LEAST
        length = max(count, self._ahead if follows else 0)
        end = min(at + length, self._tail_start)
        data = self._range(at, end)
        if end - at <= _MOST:
            self._window, self._window_start = data, at
        else:
            self._window, self._window_start = b"", end
        return data[:count]
