"""Lists the objects below a prefix of one bucket.

The client requests page after page, and retries temporary refusals. It does not retry an answer that is cut off: then the listing
continues after the last received object. An object that marks the prefix itself as a folder (``t/`` in a listing of ``t``) is left
out; the client gives its key without the slash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import obstore
from obstore.exceptions import GenericError
from obstore.store import ObjectStore

from iceberg_ops.errors import CatalogUnavailableError
from iceberg_ops.io.forks import OBJECT_STORES
from iceberg_ops.io.stores.answers import is_cut, named_errors, server_text

if TYPE_CHECKING:
    from obstore import ObjectMeta

_PAGE = 1_000
_TRIES = 4
_T = TypeVar("_T")


class _Cut(CatalogUnavailableError):
    """An answer that ended in the middle."""


def objects_below(store: ObjectStore, key: str, location: str) -> Iterator[ObjectMeta]:
    """Every object below the folder ``key`` (empty: in the bucket). ``location`` is named in errors."""
    last: str | None = None
    left = _TRIES
    while left:
        pages = iter(obstore.list(store, key or None, offset=last, chunk_size=_PAGE))
        try:
            while page := _unless_cut(lambda pages=pages: next(pages, ()), location):  # type: ignore[misc]
                yield from _without_marker(page, key)
                last, left = page[-1]["path"], _TRIES
        except _Cut:
            left -= 1
            if not left:
                raise
        else:
            return


def folder_content(store: ObjectStore, key: str, location: str) -> tuple[list[str], list[ObjectMeta]]:
    """Keys of the folders, and the objects, directly in the folder ``key``."""
    for left in reversed(range(_TRIES)):
        try:
            listing = _unless_cut(lambda: obstore.list_with_delimiter(store, key or None), location)
            return list(listing["common_prefixes"]), list(_without_marker(listing["objects"], key))
        except _Cut:
            if not left:
                raise
    raise AssertionError


def _without_marker(objects: Sequence[ObjectMeta], key: str) -> Iterator[ObjectMeta]:
    return (meta for meta in objects if meta["path"] != key)


def _unless_cut(call: Callable[[], _T], location: str) -> _T:
    OBJECT_STORES.check()  # the listing may have begun before a fork
    with named_errors(location):
        try:
            return call()
        except GenericError as e:
            if not is_cut(e):
                raise
            raise _Cut(f"{location}: the store's answer ends in the middle ({server_text(str(e))})") from None
