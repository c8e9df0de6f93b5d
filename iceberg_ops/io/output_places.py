"""The target of an output path that a person gives: an open file of a process, a device or pipe, or a file that is replaced.

Links are followed: their target is written, and the links stay. An open file is written through its open descriptor, so that in
append mode nothing is lost and later output comes after it; a rename would leave its writers a file without a name. Open files are
those that are named by number (``/dev/stdout``, ``/dev/fd/3``), and this process's standard output and error by any name.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO

from iceberg_ops.io.temporary_names import temporary_name

STANDARD_OUTPUT = 1
_MOST_LINKS = 40
"""The limit of Linux."""
_MOST_DESCRIPTOR = 2**31 - 1
_DESCRIPTORS = re.compile(r"/proc/(\d+)(?:/task/\d+)?/fd|/dev/fd")


@dataclass(frozen=True, slots=True)
class OutputPlace:
    """``path`` has no symbolic links, except that of another process's open file. ``descriptor``: this process's open file there.
    ``is_stream``: it is written in place, never replaced. ``is_file``: a regular file exists there."""

    path: str
    descriptor: int | None
    is_stream: bool
    is_file: bool


def output_place(path: str) -> OutputPlace:
    """The target of ``path``. Raises OSError for links in a circle, a number that is not open, the name of a folder (``new/``, also
    if it does not exist), and a path without permission to read."""
    if os.path.basename(path) in ("", ".", ".."):
        raise IsADirectoryError(errno.EISDIR, "it names a folder: name a file", path)
    number, is_named = _named_descriptor(path)
    if number is not None and number > _MOST_DESCRIPTOR:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF), path)
    status = _stat(path) if number is None else os.fstat(number)
    if number is None and status is not None:
        number = next((n for n in (STANDARD_OUTPUT, 2) if _is_open_on(n, status)), None)
    is_file = status is not None and stat.S_ISREG(status.st_mode)
    is_device = status is not None and not is_file and not stat.S_ISDIR(status.st_mode)
    # The link of a pipe's number is not a path that can be opened.
    plain = path if is_named and number is None else os.path.realpath(path)
    return OutputPlace(plain, number, is_named or number is not None or is_device, is_file)


def check_stream(place: OutputPlace) -> None:
    """Raise OSError for a stream that cannot be written to: a socket, or a read-only one."""
    if place.descriptor is None:
        if stat.S_ISSOCK(os.stat(place.path).st_mode):
            raise OSError(errno.ENXIO, "a socket cannot be opened as a file", place.path)
        may = os.access(place.path, os.W_OK)
    else:
        may = fcntl.fcntl(place.descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    if not may:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def open_descriptor(number: int) -> BinaryIO:
    """This process's open file, to write at its current position; earlier output is flushed first."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(ValueError):  # closed
            stream.flush()
    return os.fdopen(os.dup(number), "wb")


@contextmanager
def replaced(path: str) -> Iterator[BinaryIO]:
    """A file beside ``path`` that replaces it when it is complete, with its permissions. After a failure an earlier file is
    unchanged."""
    beside = os.path.join(os.path.dirname(path), temporary_name(path))
    try:
        created = open(beside, "xb")  # noqa: SIM115 - closed below
    except OSError as e:
        raise OSError(e.errno, e.strerror, path) from None  # nobody has named the other file
    try:
        with created as sink:
            with suppress(OSError):  # there is no earlier file, or no permissions on this file system
                os.fchmod(sink.fileno(), stat.S_IMODE(os.stat(path).st_mode) & 0o777)
            yield sink
        os.replace(beside, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(beside)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _named_descriptor(path: str) -> tuple[int | None, bool]:
    """The number of this process's open file that the path names, and whether it names an open file of any process."""
    for _ in range(_MOST_LINKS):
        folder, name = os.path.split(path)
        of = _DESCRIPTORS.fullmatch(os.path.realpath(folder))
        if of is not None and name.isdecimal():
            return (int(name) if of[1] in (None, str(os.getpid())) else None), True
        if not os.path.islink(path):
            break
        path = os.path.join(folder, os.readlink(path))
    return None, False


def _is_open_on(number: int, status: os.stat_result) -> bool:
    try:
        return stat.S_ISREG(status.st_mode) and os.path.samestat(os.fstat(number), status)
    except OSError:  # the number is closed
        return False
