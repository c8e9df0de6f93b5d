"""An output whose file exists only when it is complete."""

from __future__ import annotations

import io
from abc import abstractmethod
from types import TracebackType
from typing import Any


class WholeOutput(io.BufferedIOBase):
    """``close`` creates the file; an exception or a missing ``close`` leaves none. A constructor ends with ``_done = False``."""

    _done = True
    """There is nothing to make or to discard: closed, discarded, or not constructed."""

    @abstractmethod
    def _make_file(self) -> None:
        """Make the file."""

    @abstractmethod
    def _drop(self) -> None:
        """Release everything but the file. Called once, also after ``_make_file``."""

    def writable(self) -> bool:
        return True

    def close(self) -> None:
        if self._done:
            return
        try:
            self._make_file()
        finally:
            self.discard()

    def discard(self) -> None:
        """Forget what was written; without effect after ``close``."""
        if self._done:
            return
        self._done = True
        self._drop()
        super().close()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.discard()

    def __del__(self) -> None:
        self.discard()


class OutputInParts(WholeOutput):
    """Bytes are kept until there are ``part`` of them, and then sent."""

    def __init__(self, part: int) -> None:
        super().__init__()
        self._part = part
        self._buffer = bytearray()
        self._sent = 0

    @abstractmethod
    def _send(self) -> None:
        """Send what is kept, and add it to ``_sent``."""

    def tell(self) -> int:
        return self._sent + len(self._buffer)

    def write(self, data: Any) -> int:
        if self._done:
            raise ValueError("I/O operation on closed file")
        before = len(self._buffer)
        self._buffer += data
        written = len(self._buffer) - before
        if len(self._buffer) >= self._part:
            self._send()
        return written

    def flush(self) -> None:
        """Without effect: there is no file before ``close``."""
