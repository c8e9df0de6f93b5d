"""A reader of an object by ranges. It opens with one request for the size and the last bytes. Every later request names the
object's version, so that an object that is overwritten in the meantime is an error, and versions are never mixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import obstore
from obstore.exceptions import BaseError, GenericError, NotSupportedError, PreconditionError
from obstore.store import ObjectStore

from iceberg_ops.errors import CatalogUnavailableError, TerminalError
from iceberg_ops.io.forks import OBJECT_STORES
from iceberg_ops.io.stores.answers import named_errors
from iceberg_ops.io.windowed_input import TAIL, WindowedInput


@dataclass(frozen=True, slots=True)
class ObjectTail:
    """One version of an object, with its last bytes (``tail``). ``size``: bytes of all of it."""

    store: ObjectStore
    key: str
    location: str
    version: str | None
    size: int
    tail: bytes

    @classmethod
    def of(cls, store: ObjectStore, key: str, location: str, *, size: int = 0, suffix_ranges: bool = True) -> ObjectTail:
        """Request the last bytes of ``key`` in ``store``: ``size``, or a few more. Raises FileNotFoundError."""
        tail_size = max(size, TAIL)
        with named_errors(location):
            if suffix_ranges:
                try:
                    response = obstore.get(store, key, options={"range": {"suffix": tail_size}})
                except (GenericError, NotSupportedError) as e:
                    if not _is_about_ranges(e):
                        raise
                else:
                    return cls(store, key, location, response.meta["e_tag"], response.meta["size"], response.bytes().to_bytes())
            meta = obstore.head(store, key)
            start = cls(store, key, location, meta["e_tag"], meta["size"], b"")
            return replace(start, tail=start.part(max(start.size - tail_size, 0), start.size)) if start.size else start

    def part(self, start: int, end: int) -> bytes:
        """The bytes from ``start`` to ``end`` of the same version. Raises TerminalError, CatalogUnavailableError, and
        UnsupportedError in a forked process."""
        OBJECT_STORES.check()
        with named_errors(self.location):
            try:
                response = obstore.get(self.store, self.key, options={"range": (start, end), "if_match": self.version})
            except PreconditionError:
                raise TerminalError(f"{self.location} was written again while it was read: read it again") from None
            data = response.bytes().to_bytes()
        if len(data) != end - start:
            raise CatalogUnavailableError(f"{self.location}: the store gave {len(data)} bytes instead of {end - start}")
        return data


class RangedInput(WindowedInput):
    """A reader of the object whose ending was requested."""

    def __init__(self, ending: ObjectTail) -> None:
        self._ending = ending
        super().__init__(ending.size, ending.tail)

    def _range(self, start: int, end: int) -> bytes:
        return self._ending.part(start, end)


def _is_about_ranges(error: BaseError) -> bool:
    """An empty object has no last bytes, which stores report in several ways; Azure has no requests for last bytes."""
    text = str(error)
    return isinstance(error, NotSupportedError) or "status code: 416" in text or "non-partial response" in text
