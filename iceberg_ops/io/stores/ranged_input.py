"""A reader of an object by ranges. It opens with one request for the size and the last bytes. Every later request names the
object's version, so that an object that is written again meanwhile is an error and never a mix.
"""

from __future__ import annotations

import obstore
from obstore.exceptions import BaseError, GenericError, NotSupportedError, PreconditionError
from obstore.store import ObjectStore

from iceberg_ops.errors import CatalogUnavailableError, TerminalError
from iceberg_ops.io.stores.answers import named_errors
from iceberg_ops.io.windowed_input import TAIL, WindowedInput


class RangedInput(WindowedInput):
    """``key`` of ``store``. Raises FileNotFoundError."""

    def __init__(self, store: ObjectStore, key: str, location: str, *, suffix_ranges: bool = True) -> None:
        self._store, self._key, self._location = store, key, location
        self._version: str | None = None
        with named_errors(location):
            size, tail = self._last_bytes(suffix_ranges)
        super().__init__(size, tail)

    def _range(self, start: int, end: int) -> bytes:
        with named_errors(self._location):
            try:
                found = obstore.get(self._store, self._key, options={"range": (start, end), "if_match": self._version})
            except PreconditionError:
                raise TerminalError(f"{self._location} was written again while it was read: read it again") from None
            data = found.bytes().to_bytes()
        if len(data) != end - start:
            raise CatalogUnavailableError(f"{self._location}: the store gave {len(data)} bytes instead of {end - start}")
        return data

    def _last_bytes(self, suffix_ranges: bool) -> tuple[int, bytes]:
        if suffix_ranges:
            try:
                found = obstore.get(self._store, self._key, options={"range": {"suffix": TAIL}})
            except (GenericError, NotSupportedError) as e:
                if not _is_about_ranges(e):
                    raise
            else:
                self._version = found.meta["e_tag"]
                return found.meta["size"], found.bytes().to_bytes()
        meta = obstore.head(self._store, self._key)
        self._version, size = meta["e_tag"], meta["size"]
        return size, self._range(max(size - TAIL, 0), size) if size else b""


def _is_about_ranges(error: BaseError) -> bool:
    """An empty object has no last bytes, and says so in several ways; Azure has no requests for last bytes."""
    text = str(error)
    return isinstance(error, NotSupportedError) or "status code: 416" in text or "non-partial response" in text
