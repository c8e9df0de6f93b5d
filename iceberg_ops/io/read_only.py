"""A FileIO that cannot change anything, for dry runs and tables of others.

A write is impossible here, not skipped: every changing call raises UnsupportedError, so a planner that writes by mistake fails.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import BinaryIO, NoReturn

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.file_io import DeleteFailure
from iceberg_ops.io.wrapped import WrappedFileIO

READ_ONLY = "read-only"
"""Property (``true``) for which ``load_file_io`` wraps a FileIO into this one."""


class ReadOnlyFileIO(WrappedFileIO):
    """``inner`` without the methods that change files."""

    @property
    def properties(self) -> Mapping[str, str]:
        return {**self._inner.properties, READ_ONLY: "true"}

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        _refuse("write", location)

    def open_output(self, location: str) -> BinaryIO:
        _refuse("write", location)

    def delete(self, location: str) -> None:
        _refuse("delete", location)

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        """Raises UnsupportedError unless there is nothing to delete."""
        for location in locations:
            _refuse("delete", location)
        return []


def _refuse(what: str, location: str) -> NoReturn:
    raise UnsupportedError(
        f"not supported: {what} {location}, because storage is opened read-only (a dry run, or a table read by path)"
    )
