"""What a location names in an object store: ``s3://bucket/key``, ``abfss://container@account.host/key``.

A key is used as it is written: nothing is percent-decoded or resolved, because ``a//b``, ``a/./b`` and ``a%20b`` are different
names there. The client resolves names like paths, so keys that it would change are refused: those with an empty part, ``.`` or
``..`` between slashes, or a control character.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from iceberg_ops.errors import UnsupportedError

_LOCATION = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]+)(?:/(.*))?", re.DOTALL)
_AZURE = ("abfs", "wasb")
_OTHER = ", and the client of object stores takes it for another key"
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


@dataclass(frozen=True, slots=True)
class Place:
    """``bucket``: the text between ``://`` and the first slash, unchanged. ``key`` is empty for the bucket itself."""

    scheme: str
    bucket: str
    key: str


def file_place(location: str) -> Place:
    """The place of a file. Raises UnsupportedError for a location that the client cannot address."""
    place = _place(location)
    if not place.key:
        raise UnsupportedError(f"not supported: location {location} as a file, because it names a whole bucket")
    return place


def folder_place(location: str) -> Place:
    """The place of a folder to list; slashes at its end are ignored. Raises UnsupportedError."""
    return _place(location.rstrip("/"))


def _place(location: str) -> Place:
    m = _LOCATION.fullmatch(location)
    if m is None:
        raise UnsupportedError(f"not supported: location {location} in an object store, because it names no bucket")
    key = m[3] or ""
    if key and (why := _unreachable(key, m[1].lower())) is not None:
        raise UnsupportedError(f"not supported: location {location}, because its key has {why}")
    return Place(m[1].lower(), m[2], key)


def _unreachable(key: str, scheme: str) -> str | None:
    if "\\" in key and scheme.startswith(_AZURE):
        return "a backslash, which Azure takes for a slash"
    parts = key.split("/")
    if "" in parts:
        return f"an empty part (two slashes, or one at its end){_OTHER}"
    if "." in parts or ".." in parts:
        return f"a part . or ..{_OTHER}"
    return f"a control character, or text that is not Unicode{_OTHER}" if _CONTROL.search(key) else None
