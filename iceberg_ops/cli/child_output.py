"""The output of a child process, read until the child has ended.

The end of the output may never come: a process that the child left behind (a daemon, or an agent that Spark's environment file
starts) holds it open as long as it lives. Output that was written before the child ended is still read.
"""

from __future__ import annotations

import fcntl
import io
import os
import select
import threading
from typing import Any

_POLL_MS = 200
_PIPE_BYTES = 65_536
"""The assumed capacity of a pipe if the system does not report it."""


def output_until(over: threading.Event, descriptor: int) -> io.BufferedReader:
    """The output of the pipe ``descriptor`` until its last writer closes it, or until ``over`` is set because the child has ended;
    then the rest that is already in the pipe. A read that a signal interrupts may be retried."""
    return io.BufferedReader(_UntilOver(descriptor, over))


class _UntilOver(io.RawIOBase):
    def __init__(self, descriptor: int, over: threading.Event) -> None:
        self._descriptor, self._over = descriptor, over
        self._left: int | None = None
        self._ready = select.poll()
        self._ready.register(descriptor, select.POLLIN)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while self._left is None and not self._ready.poll(_POLL_MS):
            if self._over.is_set():
                break
        if self._over.is_set() and self._left is None:
            self._left = _capacity(self._descriptor)
        if self._left is not None and (self._left <= 0 or not self._ready.poll(0)):
            return 0
        data = os.read(self._descriptor, len(buffer) if self._left is None else min(len(buffer), self._left))
        self._left = None if self._left is None else self._left - len(data)
        buffer[: len(data)] = data
        return len(data)


def _capacity(descriptor: int) -> int:
    """The capacity of the pipe in bytes, which is the most unread output when the child has ended. A child may have made its pipe
    larger."""
    size_of_pipe = getattr(fcntl, "F_GETPIPE_SZ", None)  # only Linux has it
    if size_of_pipe is None:
        return _PIPE_BYTES
    return fcntl.fcntl(descriptor, size_of_pipe)
