"""Selects the store by the scheme of each location: ``s3://`` and its spellings, ``gs://``, ``abfss://`` and its spellings,
``hdfs://`` and ``viewfs://``, and files of this machine. The default FileIO (Java: ResolvingFileIO).

A store's client is loaded at the first location of its scheme, so that work on local files needs none.
"""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import BinaryIO

from iceberg_ops.errors import RuntimeMissingError
from iceberg_ops.io.file_io import (
    DeleteFailure,
    FarFiles,
    FileInfo,
    FileIO,
    KeepsFolders,
    ListsFolders,
    ListsNames,
    is_far,
    prove_exclusive_creation,
)
from iceberg_ops.io.local import LocalFileIO, remove_empty_folders
from iceberg_ops.io.renewal import CurrentProperties, Renewal

NAME = "resolving"
STORES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    "gs": "gcs",
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "azure"),
    **dict.fromkeys(("hdfs", "viewfs"), "hdfs"),
}
"""Scheme -> the store that serves it."""


def object_store(name: str, properties: Mapping[str, str], renewal: Renewal | None = None) -> FileIO:
    """The FileIO of an object store. Raises RuntimeMissingError if its client is not installed, OptionError."""
    if importlib.util.find_spec("obstore") is None:
        raise RuntimeMissingError("object stores need the client obstore: pip install 'iceberg-ops[stores]'")
    from iceberg_ops.io.stores.object_store import ObjectStoreFileIO  # noqa: PLC0415 - a back-end chosen by name

    io = ObjectStoreFileIO(name, properties)
    if renewal is not None:
        io.renew_with(renewal)
    return io


def hdfs(properties: Mapping[str, str]) -> FileIO:
    """The FileIO of HDFS. Raises RuntimeMissingError if its client is not installed, OptionError."""
    if importlib.util.find_spec("hdfs_native") is None:
        raise RuntimeMissingError("HDFS needs the client hdfs-native: pip install 'iceberg-ops[hdfs]'")
    from iceberg_ops.io.hdfs.hdfs_file_io import HdfsFileIO  # noqa: PLC0415 - a back-end chosen by name

    return HdfsFileIO(properties)


class ResolvingFileIO:
    """FileIO over all stores that ``properties`` give access to. One instance serves all threads."""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self._properties = {**(properties or {}), "io-impl": NAME}
        self._local = LocalFileIO(self._properties)
        self._stores: dict[str, FileIO] = {}
        self._renewal: Renewal | None = None
        self._lock = threading.Lock()

    def renew_with(self, renewal: Renewal) -> None:
        """See ``RenewsCredentials``."""
        self._renewal = renewal

    @property
    def properties(self) -> Mapping[str, str]:
        return self._properties if self._renewal is None else CurrentProperties(self._renewal, {"io-impl": NAME})

    def read(self, location: str) -> bytes:
        return self._store_for(location).read(location)

    def open_input(self, location: str) -> BinaryIO:
        return self._store_for(location).open_input(location)

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self._store_for(location).write(location, data, overwrite=overwrite)

    def open_output(self, location: str) -> BinaryIO:
        return self._store_for(location).open_output(location)

    def exists(self, location: str) -> bool:
        return self._store_for(location).exists(location)

    def length(self, location: str) -> int:
        return self._store_for(location).length(location)

    def delete(self, location: str) -> None:
        self._store_for(location).delete(location)

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        by_store: dict[str, list[str]] = {}
        for location in locations:
            by_store.setdefault(store_name(location), []).append(location)
        return [failure for group in by_store.values() for failure in self._store_for(group[0]).delete_many(group)]

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        return self._store_for(prefix).list_prefix(prefix)

    def list_folder(self, location: str) -> tuple[list[str], list[FileInfo]]:
        """See ``ListsFolders``."""
        store = self._store_for(location)
        assert isinstance(store, ListsFolders)
        return store.list_folder(location)

    def list_names(self, location: str) -> list[str]:
        """See ``ListsNames``."""
        store = self._store_for(location)
        assert isinstance(store, ListsNames)
        return store.list_names(location)

    def make_folder(self, location: str) -> bool:
        """See ``KeepsFolders``."""
        store = self._store_for(location)
        return isinstance(store, KeepsFolders) and store.make_folder(location)

    def remove_empty_folders(self, location: str) -> None:
        """See ``KeepsFolders``."""
        remove_empty_folders(self._store_for(location), location)

    def prove_exclusive_creation(self, folder: str) -> None:
        """See ``ProvesExclusiveCreation``."""
        prove_exclusive_creation(self._store_for(folder), folder)

    def local_path(self, location: str) -> str | None:
        return None if store_name(location) else self._local.local_path(location)

    def is_far(self, location: str) -> bool:
        """See ``FarFiles``."""
        return bool(store_name(location)) and is_far(self._store_for(location), location)

    def open_far(self, location: str, size: int) -> Callable[[], BinaryIO]:
        """See ``FarFiles``."""
        store = self._store_for(location)
        assert isinstance(store, FarFiles)
        return store.open_far(location, size)

    def _store_for(self, location: str) -> FileIO:
        name = store_name(location)
        if not name:
            return self._local
        with self._lock:
            if (store := self._stores.get(name)) is None:
                if name == "hdfs":
                    store = self._stores[name] = hdfs(self._properties)
                else:
                    store = self._stores[name] = object_store(name, self._properties, self._renewal)
            return store


def store_name(location: str) -> str:
    """The store that serves a location; empty for files of this machine, and for a scheme that nothing serves. Only HDFS has
    locations without authority (``hdfs:/p``)."""
    scheme, _, rest = location.partition(":")
    name = STORES.get(scheme.lower(), "") if rest.startswith("/") else ""
    return name if rest.startswith("//") or name == "hdfs" else ""
