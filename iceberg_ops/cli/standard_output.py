"""Standard output and error that may fail: the reader ends (``| head``), the disk behind them is full, they are closed.

The exit code shows what a command found and did. So failed output does not change its work: it is dropped, and so is all later
output. A missing reader is not a failure; only a command that does nothing but list (``scan``) stops there, because nobody reads
its output. Any other failure of standard output is recorded (``lost_output``). A broken pipe elsewhere, for example of a store's
connection, is an ordinary error.

Text that the terminal's encoding cannot represent is written as an escape.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class ReaderGone(BaseException):
    """The reader of a listing command's output is gone, so the command is done. Not an ``Exception``, so no handler treats it as a
    failure."""


class _Pipe(io.FileIO):
    """A standard stream that continues after its reader or its disk fails."""

    stops = False
    only_shows = False
    gone = False
    failure: str | None = None
    """Why it could not be written; a missing reader is no failure."""

    def write(self, data: Any) -> int:
        if not self.gone:
            try:
                return super().write(data) or 0
            except OSError as e:
                self.gone = True
                if not isinstance(e, BrokenPipeError):
                    self.failure = e.strerror or str(e)
                if self.stops:
                    raise ReaderGone from None
        return memoryview(data).nbytes


@contextlib.contextmanager
def lasting_output() -> Iterator[None]:
    """Standard output and error can be written until the process ends, even if they were closed. A closed standard input is
    empty."""
    closed = _open_closed()
    if sys.stdin is None:
        sys.stdin = io.StringIO()
    sys.stdout, sys.stderr = _lasting(sys.stdout, 1, closed), _lasting(sys.stderr, 2, closed)
    yield
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ReaderGone):
            stream.flush()


def stop_without_reader() -> None:
    """From now on the command ends if its output cannot be written (ReaderGone)."""
    if (raw := _raw_output()) is not None:
        raw.stops = True


def only_shows() -> None:
    """The command changes nothing, although others of its name do (a dry run): it fails if its output is lost."""
    if (raw := _raw_output()) is not None:
        raw.only_shows = True


def is_only_shown() -> bool:
    """Whether ``only_shows`` was called."""
    raw = _raw_output()
    return raw is not None and raw.only_shows


@contextlib.contextmanager
def output_of_done_work() -> Iterator[None]:
    """Wraps the output about finished work (which may take time, for example in a pager). A Ctrl-C ends the output: it must not
    report that nothing was changed."""
    try:
        yield
    except KeyboardInterrupt:
        if (raw := _raw_output()) is not None:
            raw.gone, raw.failure = True, "it was stopped by Ctrl-C"


def lost_output(*, of_done_work: bool = False) -> str | None:
    """Why standard output could not be written so far; None if it could, or if its reader is gone."""
    with contextlib.suppress(ReaderGone), output_of_done_work() if of_done_work else contextlib.nullcontext():
        sys.stdout.flush()
    raw = _raw_output()
    return None if raw is None else raw.failure


def _raw_output() -> _Pipe | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Pipe) else None


def _open_closed() -> frozenset[int]:
    """Numbers of standard streams that the parent process closed. They are opened on the null device: otherwise the next opened
    file, for example a data file, would get the number, and with it printed text."""
    closed = set[int]()
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            closed.add(number)
            os.open(os.devnull, os.O_RDWR)
    return frozenset(closed)


def _lasting(stream: TextIO | None, number: int, closed: frozenset[int]) -> TextIO:
    encoding, errors, line_buffering = "utf-8", "strict", False
    if stream is not None and number not in closed:
        try:
            number = stream.fileno()
            stream.flush()
        except (OSError, AttributeError, ValueError):  # no file
            return stream
        encoding, errors = stream.encoding, stream.errors or "strict"
        line_buffering = getattr(stream, "line_buffering", False)
    pipe = _Pipe(number, "wb", closefd=False)
    if number in closed:
        pipe.gone, pipe.failure = True, "it is closed"
    if errors == "strict" or codecs.lookup(encoding).name != "utf-8":
        errors = "backslashreplace"
    return io.TextIOWrapper(io.BufferedWriter(pipe), encoding=encoding, errors=errors, line_buffering=line_buffering)
