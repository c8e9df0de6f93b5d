"""A new file, which exists only when it is complete: a temporary file beside it is written, closed, and renamed without
overwriting.

The name node does a rename atomically and for one writer only. If its answer is lost, the temporary file shows what was done: no
other process uses it, so it still exists if the rename was not done. If it is gone, the file under the name must have its length
and its time, which a rename does not change.

If a process dies, its temporary file is left: readers do not see it, and remove_orphan_files removes it.
"""

from __future__ import annotations

import errno
import logging

from hdfs_native import FileStatus, FileWriter, WriteOptions

from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.file_io import RefusedForNowError
from iceberg_ops.io.forks import HDFS
from iceberg_ops.io.hdfs.cluster import Cluster
from iceberg_ops.io.temporary_names import temporary_name
from iceberg_ops.io.whole_output import OutputInParts

log = logging.getLogger(__name__)

_PART = 8 << 20
"""Bytes that are kept before they are sent: a small file is sent as a whole."""
_TRIES = 3


class HdfsOutput(OutputInParts):
    """``rights``: the permissions of the new file, as an octal number."""

    def __init__(self, cluster: Cluster, path: str, location: str, *, rights: int, overwrite: bool = False) -> None:
        super().__init__(_PART)
        self._cluster, self._path, self._location = cluster, path, location
        self._rights, self._overwrite = rights, overwrite
        self._temporary: str | None = None
        self._writer: FileWriter | None = None
        self._done = False

    def _make_file(self) -> None:
        written = self._completed() if self._sent else self._written_at_once()
        assert self._temporary is not None
        Publication(self._cluster, self._temporary, self._path, self._location, written).make(overwrite=self._overwrite)
        self._temporary = None

    def _drop(self) -> None:
        self._buffer = bytearray()
        self._forget()

    def _written_at_once(self) -> FileStatus:
        """A small file is still in memory, so it can be written again. Each attempt uses another name, because the attempt before
        may have succeeded, or may still succeed."""
        content = bytes(self._buffer)
        for attempt in range(_TRIES):
            self._buffer[:], self._sent = content, 0
            try:
                return self._completed()
            except CatalogUnavailableError as e:
                if attempt + 1 == _TRIES or isinstance(e, RefusedForNowError):
                    raise
            self._forget()
            self._cluster.ask(lambda client: client.get_file_info("/"), self._location)
        raise AssertionError

    def _completed(self) -> FileStatus:
        """Write all bytes to the temporary file, and close it."""
        self._send()
        writer, temporary = self._writer, self._temporary
        assert writer is not None
        assert temporary is not None
        self._cluster.do(lambda _: writer.close(), self._location)
        written = self._cluster.ask(lambda client: client.get_file_info(temporary), self._location)
        if written.length != self._sent:
            raise CatalogUnavailableError(f"{self._location}: HDFS has {written.length} of {self._sent} bytes")
        return written

    def _send(self) -> None:
        data, self._buffer = bytes(self._buffer), bytearray()
        if self._writer is None:
            temporary = self._temporary = f"{self._path.rpartition('/')[0]}/{temporary_name(self._path)}"
            options = WriteOptions(permission=self._rights)
            try:
                self._writer = self._cluster.do(lambda client: client.create(temporary, options), self._location)
            except RefusedForNowError:
                self._temporary = None
                raise
        writer = self._writer
        if data:
            self._cluster.do(lambda _: writer.write(data), self._location)
            self._sent += len(data)

    def _forget(self) -> None:
        """Delete the temporary file, if there is one."""
        temporary, self._temporary, self._writer = self._temporary, None, None
        if temporary is not None and not HDFS.is_forked:
            try:
                self._cluster.ask(lambda client: client.delete(temporary), self._location)
            except Exception as e:  # noqa: BLE001 - nothing depends on it
                log.warning("temporary file %s is left: %s", temporary, e)


class Publication:
    """``temporary``, a complete file of the state ``written``, gets the name ``path``."""

    def __init__(self, cluster: Cluster, temporary: str, path: str, location: str, written: FileStatus) -> None:
        self._cluster, self._temporary, self._path, self._location = cluster, temporary, path, location
        self._written = written

    def make(self, *, overwrite: bool) -> None:
        """Raises FileExistsError unless ``overwrite``; RefusedForNowError if it was not done; CatalogUnavailableError if it may
        have been done."""
        for attempt in range(_TRIES):
            try:
                self._cluster.do(lambda client: client.rename(self._temporary, self._path, overwrite), self._location)
                return
            except (CatalogUnavailableError, FileNotFoundError, FileExistsError) as e:
                if self._is_done(overwrite=overwrite):
                    return
                if isinstance(e, FileExistsError) or (attempt == 0 and isinstance(e, RefusedForNowError)):
                    raise
                if attempt + 1 == _TRIES or (isinstance(e, FileNotFoundError) and not self._is_there()):
                    raise CatalogUnavailableError(f"{self._location}: it is not known whether it was written ({e})") from e

    def _is_there(self) -> bool:
        return self._file_status(self._temporary) is not None

    def _is_done(self, *, overwrite: bool) -> bool:
        """A rename that is still in progress is completed by the next attempt, or finds nothing to rename. A file that may be
        overwritten may have been overwritten since."""
        if self._is_there():
            return False
        if overwrite:
            return True
        status = self._file_status(self._path)
        written = self._written
        return status is not None and (status.length, status.modification_time) == (written.length, written.modification_time)

    def _file_status(self, path: str) -> FileStatus | None:
        try:
            return self._cluster.ask(lambda client: client.get_file_info(path), self._location)
        except FileNotFoundError:
            return None


def file_exists(location: str) -> FileExistsError:
    return FileExistsError(errno.EEXIST, "file exists", location)
