"""The bytes of a stored file as an Arrow source.

Local files are memory-mapped, small ones are read at once, and those that may change (``io.changing_files``) piece by piece. Other
files are read through the FileIO. A local file is also opened through the FileIO before it is mapped, so that a failure is the same
typed error in every case.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import pyarrow as pa

from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.io.changing_files import FILES_MAY_CHANGE
from iceberg_ops.io.file_io import FileIO, HoldsContent

_AT_ONCE = 1 << 20
"""A local file up to this many bytes is read in one piece, which costs less than mapping it."""


def arrow_source(io: FileIO, location: str) -> pa.NativeFile:
    """The file as an Arrow source, local or through the FileIO. Raises the errors of ``FileIO.open_input``."""
    local = io.local_path(location)
    if local is None:
        opened = io.open_input(location)
        content = opened.content if isinstance(opened, HoldsContent) else None
        return StoreSource(_ErrorKeeper(opened), "r") if content is None else pa.BufferReader(content)
    with io.open_input(location) as file:
        if file.seek(0, os.SEEK_END) <= _AT_ONCE:
            file.seek(0)
            return pa.BufferReader(file.read())
    return pa.OSFile(local) if FILES_MAY_CHANGE in io.properties else pa.memory_map(local)


class StoreSource(pa.PythonFile):  # type: ignore[misc]
    """A file that is read through the FileIO. ``heard`` is the reader."""

    def __init__(self, heard: _ErrorKeeper, mode: str) -> None:
        self.heard = heard  # Arrow's own part is made by __new__


class _ErrorKeeper:
    """A reader that keeps the error with which a read ended."""

    def __init__(self, opened: BinaryIO) -> None:
        self._opened = opened
        self.error: BaseException | None = None

    def read(self, size: int = -1) -> bytes:
        try:
            return self._opened.read(size)
        except BaseException as e:
            self.error = e
            raise

    def __getattr__(self, name: str) -> Any:
        return getattr(self._opened, name)


@contextmanager
def errors_of_reads(source: pa.NativeFile) -> Iterator[None]:
    """Within this context ``source`` is read by a library that replaces each error of a read by one of its own (liborc). Raises the
    reader's error instead: an unavailable store, or an interrupt, is no damage of the file."""
    try:
        yield
    except Exception:
        if isinstance(source, StoreSource) and source.heard.error is not None:
            raise source.heard.error from None
        raise


@contextmanager
def arrow_failures(location: str, what: str = "cannot be decoded") -> Iterator[None]:
    """Within this context Arrow reads the file at ``location``. An error about damage becomes a CorruptTableError, also if it comes
    from a library below Arrow ("Unknown error") or is about a name that is not UTF-8. An error about an unknown feature becomes an
    UnsupportedError. An OSError, and an error that is not about the file, pass unchanged."""
    try:
        yield
    except (pa.ArrowMemoryError, pa.ArrowCancelled):
        raise
    except pa.ArrowNotImplementedError as e:
        raise UnsupportedError(f"not supported: reading file {location}, because Arrow cannot: {e}") from None
    except (pa.ArrowException, UnicodeDecodeError) as e:
        raise CorruptTableError(f"file {location} {what}: {e}") from None
