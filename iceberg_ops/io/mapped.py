"""A FileIO that finds files under another prefix than the recorded one.

For a table that was copied to another place: its metadata still names the old place. Callers use recorded locations; only the
inner FileIO sees the mapped ones. The longest matching prefix wins, and a prefix ends at a path separator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO

from iceberg_ops.io.file_io import DeleteFailure, FarFiles, FileInfo, FileIO, is_far, prove_exclusive_creation

LOCATION_MAPPING = "location-mapping"
"""Property that holds the mapping: a JSON list of [from, to] pairs."""


class MappedFileIO:
    """``inner`` behind the mapping ``[(recorded prefix, actual prefix), ...]``."""

    def __init__(self, inner: FileIO, mapping: Sequence[tuple[str, str]]) -> None:
        self._inner = inner
        self._mapping = sorted(((a, b) for a, b in mapping), key=lambda pair: -len(pair[0]))

    @property
    def properties(self) -> Mapping[str, str]:
        return {**self._inner.properties, LOCATION_MAPPING: json.dumps(self._mapping)}

    def map(self, location: str) -> str:
        """Where the inner FileIO finds a recorded location; the unchanged location if no prefix matches."""
        for recorded, actual in self._mapping:
            if location.startswith(recorded):
                rest = location[len(recorded) :]
                if not rest or rest.startswith("/") or recorded.endswith(("/", ":")):
                    return actual + rest
        return location

    def read(self, location: str) -> bytes:
        return self._inner.read(self.map(location))

    def open_input(self, location: str) -> BinaryIO:
        return self._inner.open_input(self.map(location))

    def write(self, location: str, data: bytes, *, overwrite: bool = False) -> None:
        self._inner.write(self.map(location), data, overwrite=overwrite)

    def open_output(self, location: str) -> BinaryIO:
        return self._inner.open_output(self.map(location))

    def exists(self, location: str) -> bool:
        return self._inner.exists(self.map(location))

    def length(self, location: str) -> int:
        return self._inner.length(self.map(location))

    def delete(self, location: str) -> None:
        self._inner.delete(self.map(location))

    def delete_many(self, locations: Iterable[str]) -> list[DeleteFailure]:
        recorded = {self.map(location): location for location in locations}
        return [DeleteFailure(recorded[f.location], f.reason) for f in self._inner.delete_many(recorded)]

    def list_prefix(self, prefix: str) -> Iterator[FileInfo]:
        prefix = prefix.rstrip("/") or prefix
        actual = self.map(prefix).rstrip("/")
        for info in self._inner.list_prefix(actual):
            yield FileInfo(prefix.rstrip("/") + info.location[len(actual) :], info.size, info.modified_ms)

    def prove_exclusive_creation(self, folder: str) -> None:
        """See ``ProvesExclusiveCreation``."""
        prove_exclusive_creation(self._inner, self.map(folder))

    def local_path(self, location: str) -> str | None:
        return self._inner.local_path(self.map(location))

    def is_far(self, location: str) -> bool:
        """See ``FarFiles``."""
        return is_far(self._inner, self.map(location))

    def open_far(self, location: str, size: int) -> Callable[[], BinaryIO]:
        """See ``FarFiles``."""
        assert isinstance(self._inner, FarFiles)
        return self._inner.open_far(self.map(location), size)
