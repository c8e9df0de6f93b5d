"""A FileIO that cannot change anything, for dry runs and tables of others.

A write is impossible here, not skipped: every changing call raises UnsupportedError, so a planner that writes by mistake fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, NoReturn

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.file_io import DeleteFailure, FileInfo, FileIO

READ_ONLY = "read-only"
"""Property (``true``) for which ``load_file_io`` wraps a FileIO into this one."""


class ReadOnlyFileIO:
    """``inner`` without the methods that change files."""

    def __init__(self, inner: FileIO) -> None:
        self._inner = inner

    @property
    def properties(self) -> Mapping[str, str]:
        return {**self._inner.properties, READ_ONLY: "true"}

    def read(self, location: str) -> bytes:
        return self._inner.read(location)

    def open_input(self, location: str) -> BinaryIO:
        return self._inner.open_input(location)

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        _refuse("write", location)

    def open_output(self, location: str) -> BinaryIO:
        _refuse("write", location)

    def exists(self, location: str) -> bool:
        return self._inner.exists(location)

    def length(self, location: str) -> int:
        return self._inner.length(location)

    def delete(self, location: str) -> None:
        _refuse("delete", location)

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        """Raises UnsupportedError unless there is nothing to delete."""
        for location in locations:
            _refuse("delete", location)
        return []

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        return self._inner.list_prefix(prefix)

    def local_path(self, location: str) -> str | None:
        return self._inner.local_path(location)


def _refuse(what: str, location: str) -> NoReturn:
    raise UnsupportedError(
        f"not supported: {what} {location}, because storage is opened read-only (a dry run, or a table read by path)"
    )
