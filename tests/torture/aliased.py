"""Stores in memory in which one place has many spellings, as object stores and HDFS have them.

The package knows S3 by the schemes of its locations, and HDFS by Hadoop's settings; only the bytes are kept otherwise. A ``viewfs``
mount table leads to the warehouse."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, BinaryIO

from iceberg_ops.io.file_io import DeleteFailure, FileInfo
from iceberg_ops.io.load import IO_IMPL
from iceberg_ops.io.locations import resolved
from iceberg_ops.io.memory import MemoryFileIO

_S3 = re.compile(r"s3[an]?://")
_HDFS = re.compile(r"(?:hdfs:(?://(?:nn(?::8020)?)?(?=/))?)?(?=/)")
_MOUNTED = "viewfs://mounts/lake"
HADOOP = {
    "hadoop.fs.defaultFS": "hdfs://nn:8020",
    "hadoop.fs.viewfs.mounttable.mounts.link./lake": "hdfs://nn/user/wh",
}


def place_in_s3(location: str) -> str:
    return _S3.sub("s3://", location, count=1)


def place_in_hdfs(location: str) -> str:
    if location == _MOUNTED or location.startswith(f"{_MOUNTED}/"):
        location = f"/user/wh{location.removeprefix(_MOUNTED)}"
    return f"hdfs://nn:8020{resolved(_HDFS.sub('', location, count=1))}"


class Aliased:
    """The files of ``inner`` under every spelling of their ``place``; listings are spelled as they are asked for."""

    def __init__(self, inner: MemoryFileIO, place: Callable[[str], str], **properties: str) -> None:
        self._inner, self._place, self._properties = inner, place, properties

    @property
    def properties(self) -> Mapping[str, str]:
        return {**self._inner.properties, **self._properties}

    def read(self, location: str) -> bytes:
        return self._inner.read(self._place(location))

    def open_input(self, location: str) -> BinaryIO:
        return self._inner.open_input(self._place(location))

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self._inner.write(self._place(location), data, overwrite=overwrite)

    def open_output(self, location: str) -> BinaryIO:
        return self._inner.open_output(self._place(location))

    def exists(self, location: str) -> bool:
        return self._inner.exists(self._place(location))

    def length(self, location: str) -> int:
        return self._inner.length(self._place(location))

    def delete(self, location: str) -> None:
        self._inner.delete(self._place(location))

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        return self._inner.delete_many(map(self._place, locations))

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        folder = prefix.rstrip("/")
        length = len(self._place(folder))
        for info in self._inner.list_prefix(self._place(folder)):
            yield replace(info, location=folder + info.location[length:])

    def is_far(self, location: str) -> bool:
        """What is in S3 is read ahead and written behind."""
        return _S3.match(location) is not None

    def local_path(self, location: str) -> str | None:
        return None

    def set_modified_ms(self, location: str, modified_ms: int) -> None:
        self._inner.set_modified_ms(self._place(location), modified_ms)

    @property
    def _store(self) -> Any:
        """The store in memory itself, with its files by their places."""
        return self._inner._store

    def clear(self) -> None:
        self._inner.clear()


def in_s3(name: str, clock: Callable[[], float]) -> Aliased:
    return Aliased(MemoryFileIO(name, clock=clock), place_in_s3)


def in_hdfs(name: str, clock: Callable[[], float]) -> Aliased:
    return Aliased(MemoryFileIO(name, clock=clock), place_in_hdfs, **{IO_IMPL: "hdfs"}, **HADOOP)
