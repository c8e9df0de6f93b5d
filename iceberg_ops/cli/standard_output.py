"""Standard output and error that may fail: the reader goes away (``| head``), the disk behind them is full, they are closed.

How a command ends says what it found and did, so what cannot be written changes nothing about its work: it is dropped, and so is
what is written from then on. A reader that is gone is no failure; only a command that does nothing but list (``scan``) stops there,
as it has nobody to list for. Any other failure of standard output is remembered (``lost_output``). A broken pipe elsewhere, of a
store's connection say, is an error like any other.

Text that the encoding of the terminal does not have is written as an escape.
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
    """Nobody reads what a listing command writes: it is done. No ``Exception``, so that nothing takes it for a failure."""


class _Pipe(io.FileIO):
    """A standard stream that outlives its reader and its disk."""

    stops = False
    only_shows = False
    gone = False
    failure: str | None = None
    """Why it could not be written; a reader that is gone is no failure."""

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
    """Standard output and error of a process take what is written until the process ends, also where they were closed. Standard
    input that was closed is empty."""
    closed = _open_closed()
    if sys.stdin is None:
        sys.stdin = io.StringIO()
    sys.stdout, sys.stderr = _lasting(sys.stdout, 1, closed), _lasting(sys.stderr, 2, closed)
    yield
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ReaderGone):
            stream.flush()


def stop_without_reader() -> None:
    """From now on the command ends where its output cannot be written (ReaderGone)."""
    if (raw := _raw_output()) is not None:
        raw.stops = True


def only_shows() -> None:
    """The command changes nothing, though others of its name do (a dry run): it has failed where its output is lost."""
    if (raw := _raw_output()) is not None:
        raw.only_shows = True


def is_only_shown() -> bool:
    """Whether the command said so."""
    raw = _raw_output()
    return raw is not None and raw.only_shows


@contextlib.contextmanager
def output_of_done_work() -> Iterator[None]:
    """Within, a command prints what it has done (into a pager, say, which takes its time). A Ctrl-C ends the printing: it must not
    say that nothing was changed."""
    try:
        yield
    except KeyboardInterrupt:
        if (raw := _raw_output()) is not None:
            raw.gone, raw.failure = True, "it was stopped by Ctrl-C"


def lost_output(*, of_done_work: bool = False) -> str | None:
    """Why standard output could not be written so far; None where it could, or where its reader went away."""
    with contextlib.suppress(ReaderGone), output_of_done_work() if of_done_work else contextlib.nullcontext():
        sys.stdout.flush()
    raw = _raw_output()
    return None if raw is None else raw.failure


def _raw_output() -> _Pipe | None:
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return raw if isinstance(raw, _Pipe) else None


def _open_closed() -> frozenset[int]:
    """Numbers of standard streams that whoever started the process closed. They are opened on nothing: the next file that is
    opened, a data file say, would get the number, and what is printed."""
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
