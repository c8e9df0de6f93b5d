"""Standard output and error whose reader may go away: ``iceberg-ops files TABLE --json | head``.

How a command ends says what it found and did, so a reader that is gone changes nothing about it: what is written from then on is
dropped. Only a command that does nothing but list (``scan``) stops there, as it has nobody to list for. A broken pipe elsewhere, of
a store's connection say, is an error like any other.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class ReaderGone(BaseException):
    """Nobody reads what a listing command writes: it is done. No ``Exception``, so that nothing takes it for a failure."""


class _Pipe(io.FileIO):
    """A standard stream that outlives its reader."""

    stops = False
    gone = False

    def write(self, data: Any) -> int:
        if not self.gone:
            try:
                return super().write(data) or 0
            except BrokenPipeError:
                self.gone = True
                if self.stops:
                    raise ReaderGone from None
        return memoryview(data).nbytes


@contextlib.contextmanager
def lasting_output() -> Iterator[None]:
    """Standard output and error of a process, where they are no terminal, take what is written until the process ends."""
    sys.stdout, sys.stderr = _lasting(sys.stdout), _lasting(sys.stderr)
    yield
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ReaderGone):
            stream.flush()


def stop_without_reader() -> None:
    """From now on the command ends where nobody reads its output (ReaderGone), with exit code 0."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Pipe):
        raw.stops = True


def _lasting(stream: TextIO) -> TextIO:
    try:
        number = stream.fileno()
    except (OSError, AttributeError, ValueError):  # closed by whoever started the process, or no file
        return stream
    if os.isatty(number):
        return stream
    stream.flush()
    line_buffering = getattr(stream, "line_buffering", False)
    buffer = io.BufferedWriter(_Pipe(number, "wb", closefd=False))
    return io.TextIOWrapper(buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=line_buffering)
