"""A reader of a file in HDFS by ranges. Its blocks are those of the file that was opened: if the file is overwritten in the
meantime, old and new bytes are never mixed. Blocks that cannot be read any more (moved, their machine gone) are looked up once
more.
"""

from __future__ import annotations

from hdfs_native import Client, FileReader, FileStatus

from iceberg_ops.errors import CatalogUnavailableError, TerminalError
from iceberg_ops.io.hdfs.cluster import Cluster
from iceberg_ops.io.windowed_input import TAIL, WindowedInput

_MOST = 32 << 20
"""Bytes of one request."""


class HdfsInput(WindowedInput):
    """Raises FileNotFoundError."""

    def __init__(self, cluster: Cluster, path: str, location: str) -> None:
        self._cluster, self._path, self._location = cluster, path, location
        self._state, self._reader = self._opened()
        size = self._state.length
        super().__init__(size, self._range(max(size - TAIL, 0), size))

    def _opened(self) -> tuple[FileStatus, FileReader]:
        return self._cluster.ask(self._looked_up, self._location)

    def _looked_up(self, client: Client) -> tuple[FileStatus, FileReader]:
        """The last block may not be readable yet: a file may be closed before its data node has told the name node. The call is
        made again then."""
        state, reader = client.get_file_info(self._path), client.read(self._path)
        if len(reader) != state.length:
            raise CatalogUnavailableError(f"{self._location} has {state.length} bytes, of which {len(reader)} can be read")
        return state, reader

    def _range(self, start: int, end: int) -> bytes:
        parts = []
        while start < end:
            part = self._read_range(start, min(start + _MOST, end))
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_range(self, start: int, end: int) -> bytes:
        reader = self._reader
        try:
            data = self._cluster.do(lambda _: reader.read_range(start, end - start), self._location)
        except CatalogUnavailableError:
            state, reader = self._opened()
            if (state.length, state.modification_time) != (self._state.length, self._state.modification_time):
                raise TerminalError(f"{self._location} was written again while it was read: read it again") from None
            self._reader = reader
            data = self._cluster.do(lambda _: reader.read_range(start, end - start), self._location)
        if len(data) != end - start:
            raise CatalogUnavailableError(f"{self._location}: HDFS gave {len(data)} bytes instead of {end - start}")
        return bytes(data)


def whole_file(cluster: Cluster, path: str, location: str) -> bytes:
    """All bytes of a file. Raises FileNotFoundError."""
    with HdfsInput(cluster, path, location) as stream:
        return stream.read()
