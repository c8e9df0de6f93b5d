"""Files in HDFS, as a FileIO.

One instance serves all threads. A process that is forked from one that has used it cannot (see ``io.forks``): workers are new
processes, which build their FileIO from ``properties``. They need the same HADOOP_CONF_DIR, or the settings as properties.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import BinaryIO, cast

from hdfs_native import Client, FileStatus

from iceberg_ops.errors import CatalogUnavailableError, IcebergOpsError
from iceberg_ops.io.file_io import DeleteFailure, FileInfo
from iceberg_ops.io.hadoop_settings import HadoopSettings
from iceberg_ops.io.hdfs.cluster import Cluster, hdfs_error
from iceberg_ops.io.hdfs.hdfs_input import HdfsInput, whole_file
from iceberg_ops.io.hdfs.hdfs_output import HdfsOutput, file_exists
from iceberg_ops.io.hdfs.places import parse_place

_PAGE = 1_000
_LISTINGS = 3
_DELETED_AT_ONCE = 16


class HdfsFileIO:
    """FileIO over all name services that Hadoop's settings and ``properties`` give access to. Raises OptionError."""

    def __init__(self, properties: Mapping[str, str] | None = None) -> None:
        self._properties = {**(properties or {}), "io-impl": "hdfs"}
        self._settings = HadoopSettings.of(self._properties)
        self._rights = 0o666 & ~self._settings.umask()
        self._clusters: dict[str, Cluster] = {}
        self._lock = threading.Lock()

    @property
    def properties(self) -> Mapping[str, str]:
        return self._properties

    def read(self, location: str) -> bytes:
        return whole_file(*self._place(location), location)

    def open_input(self, location: str) -> BinaryIO:
        return cast(BinaryIO, HdfsInput(*self._place(location), location))

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        if not overwrite and self._state(location) is not None:
            raise file_exists(location)
        cluster, path = self._place(location)
        with HdfsOutput(cluster, path, location, rights=self._rights, overwrite=overwrite) as output:
            output.write(data)

    def open_output(self, location: str) -> BinaryIO:
        if self._state(location) is not None:
            raise file_exists(location)
        return cast(BinaryIO, HdfsOutput(*self._place(location), location, rights=self._rights))

    def exists(self, location: str) -> bool:
        return (state := self._state(location)) is not None and not state.isdir

    def length(self, location: str) -> int:
        if (state := self._state(location)) is None or state.isdir:
            raise FileNotFoundError(errno.ENOENT, "no such file", location)
        return int(state.length)

    def delete(self, location: str) -> None:
        """Requested once: without an answer it may have been done, another writer may have created a file of this name since, and a
        second request would delete that file."""
        cluster, path = self._place(location)
        try:
            cluster.do(lambda client: client.delete(path), location)
        except FileNotFoundError:
            return
        except CatalogUnavailableError:
            if self._state(location) is not None:
                raise

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        """Several at once. If HDFS does not answer for a whole group of files, the rest is not tried."""
        rest, failures = iter(locations), list[DeleteFailure]()
        with ThreadPoolExecutor(_DELETED_AT_ONCE, thread_name_prefix="delete") as threads:
            while batch := list(islice(rest, _DELETED_AT_ONCE * 4)):
                errors = list(threads.map(self._delete_error, batch))
                failures += [DeleteFailure(at, str(e)) for at, e in zip(batch, errors, strict=True) if e is not None]
                if all(isinstance(e, CatalogUnavailableError) for e in errors):
                    failures += [DeleteFailure(at, str(errors[0])) for at in rest]
        return failures

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        """Files and folders that disappear in the meantime are skipped."""
        folders = [prefix]
        while folders:
            below, files = self.list_folder(folders.pop())
            folders += below
            yield from files

    def list_folder(self, location: str) -> tuple[list[str], list[FileInfo]]:
        """See ``ListsFolders``."""
        cluster, path = self._place(location)
        above = location.rstrip("/")
        folders, files = list[str](), list[FileInfo]()
        for state in self._listed(cluster, path, location):
            below = f"{above}/{state.path.rpartition('/')[2]}"
            if state.isdir:
                folders.append(below)
            else:
                files.append(FileInfo(below, state.length, state.modification_time))
        return folders, files

    def list_names(self, location: str) -> list[str]:
        """See ``ListsNames``."""
        cluster, path = self._place(location)
        return [state.path.rpartition("/")[2] for state in self._listed(cluster, path, location)]

    def make_folder(self, location: str) -> bool:
        """See ``KeepsFolders``."""
        cluster, path = self._place(location)
        rights = 0o777 & ~self._settings.umask()
        try:
            cluster.ask(lambda client: client.mkdirs(path, permission=rights, create_parent=True), location)
        except FileNotFoundError:
            raise NotADirectoryError(errno.ENOTDIR, "a part of the path is a file", location) from None
        return True

    def remove_empty_folders(self, location: str) -> None:
        """See ``KeepsFolders``. The name node refuses to remove a folder that is not empty."""
        for folder in self.list_folder(location)[0]:
            self.remove_empty_folders(folder)
        cluster, path = self._place(location)
        try:
            state = self._state(location)
            if state is not None and state.isdir:
                cluster.ask(lambda client: client.delete(path), location)
        except IsADirectoryError:
            return

    def local_path(self, location: str) -> str | None:
        return None

    def _listed(self, cluster: Cluster, path: str, location: str) -> list[FileStatus]:
        """The content directly in the folder; nothing if it is not a folder. After an error the client's listing ends as if it were
        complete, so the folder is listed again from the start."""
        for attempt in range(_LISTINGS):
            try:
                statuses = _every_page(cluster, path, location)
            except FileNotFoundError:
                return []
            except CatalogUnavailableError:
                if attempt + 1 == _LISTINGS:
                    raise
            else:
                return [] if len(statuses) == 1 and statuses[0].path.rstrip("/") == path.rstrip("/") else statuses
        raise AssertionError

    def _state(self, location: str) -> FileStatus | None:
        cluster, path = self._place(location)
        try:
            return cluster.ask(lambda client: client.get_file_info(path), location)
        except FileNotFoundError:
            return None

    def _delete_error(self, location: str) -> Exception | None:
        try:
            self.delete(location)
        except (IcebergOpsError, OSError) as e:
            return e
        return None

    def _place(self, location: str) -> tuple[Cluster, str]:
        place = parse_place(location, self._settings)
        with self._lock:
            if (cluster := self._clusters.get(place.url)) is None:
                cluster = self._clusters[place.url] = Cluster(place.url, self._settings, self._properties)
        return cluster, place.path


def _every_page(cluster: Cluster, path: str, location: str) -> list[FileStatus]:
    """Raises FileNotFoundError."""
    pages, page = cluster.ask(lambda client: _begun(client, path), location)
    statuses = page
    while len(page) == _PAGE:
        page = cluster.do(lambda _: _next_page(pages, location), location)
        statuses += page
    return statuses


def _begun(client: Client, path: str) -> tuple[Iterator[FileStatus], list[FileStatus]]:
    """A listing, and its first page."""
    pages = client.list_status(path)
    return pages, list(islice(pages, _PAGE))


def _next_page(pages: Iterator[FileStatus], location: str) -> list[FileStatus]:
    """An error is the package's own at once: a refusal for now would be asked for once more, of a listing that has ended."""
    try:
        return list(islice(pages, _PAGE))
    except Exception as e:
        raise hdfs_error(e, location) from e
