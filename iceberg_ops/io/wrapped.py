"""A FileIO that passes every call to another one: the base of those that change a few methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import BinaryIO

from iceberg_ops.io.file_io import DeleteFailure, FarFiles, FileInfo, FileIO, is_far


class WrappedFileIO:
    """``inner``, unchanged."""

    def __init__(self, inner: FileIO) -> None:
        self._inner = inner

    @property
    def properties(self) -> Mapping[str, str]:
        return self._inner.properties

    def read(self, location: str) -> bytes:
        return self._inner.read(location)

    def open_input(self, location: str) -> BinaryIO:
        return self._inner.open_input(location)

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self._inner.write(location, data, overwrite=overwrite)

    def open_output(self, location: str) -> BinaryIO:
        return self._inner.open_output(location)

    def exists(self, location: str) -> bool:
        return self._inner.exists(location)

    def length(self, location: str) -> int:
        return self._inner.length(location)

    def delete(self, location: str) -> None:
        self._inner.delete(location)

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        return self._inner.delete_many(locations)

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        return self._inner.list_prefix(prefix)

    def local_path(self, location: str) -> str | None:
        return self._inner.local_path(location)

    def is_far(self, location: str) -> bool:
        """See ``FarFiles``."""
        return is_far(self._inner, location)

    def open_far(self, location: str, size: int) -> Callable[[], BinaryIO]:
        """See ``FarFiles``."""
        assert isinstance(self._inner, FarFiles)
        return self._inner.open_far(location, size)
