"""What a location names in HDFS: ``hdfs://authority/path``, ``viewfs://cluster/path``, and ``hdfs:/path`` and ``/path`` in the file
system of ``fs.defaultFS``.

A path is interpreted as in Java's Hadoop: ``//``, ``/./`` and ``/../`` are resolved, and nothing is percent-decoded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.hadoop_settings import SCHEMES, HadoopSettings
from iceberg_ops.io.locations import resolved

_LOCATION = re.compile(r"(?:([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?)?(/.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Place:
    """``url``: the file system, in one spelling. ``path``: from its root."""

    url: str
    path: str


def parse_place(location: str, settings: HadoopSettings) -> Place:
    """Raises UnsupportedError for a location that HDFS cannot have."""
    m = _LOCATION.fullmatch(location)
    if m is None or (m[3] is None and not m[2]):
        raise _refused(location, "it is not an absolute path in HDFS")
    scheme, authority = (m[1] or "").lower(), m[2] or ""
    if scheme and scheme not in SCHEMES:
        raise _refused(location, f"its scheme is none of {', '.join(SCHEMES)}")
    if not authority:
        if (default := settings.default_file_system(scheme)) is None:
            raise _refused(location, "it names no name node, and Hadoop's setting fs.defaultFS names none")
        scheme, authority = default
    path = resolved(m[3] or "/")
    path = path.rstrip("/") or "/"
    if (why := _unnamable(path)) is not None:
        raise _refused(location, why)
    return Place(f"{scheme}://{settings.authority(scheme, authority)}", path)


def _unnamable(path: str) -> str | None:
    if ":" in path:
        return "names in HDFS have no colon"
    if path == "/.reserved" or path.startswith("/.reserved/"):
        return "below /.reserved HDFS shows files that have another name"
    if "\0" in path or any(0xD800 <= ord(c) <= 0xDFFF for c in path):
        return "no name in HDFS has a NUL, or bytes that are not UTF-8"
    return None


def _refused(location: str, why: str) -> UnsupportedError:
    return UnsupportedError(f"not supported: location {location!r} in HDFS, because {why}")
