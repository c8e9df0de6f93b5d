"""When two recorded locations name the same file.

Writers of one table do not always record a file the same way: position deletes hold ``hdfs://host:port/p`` where the manifest
holds ``/p``, others mix ``file:/p``, ``file:///p`` and ``/p``, or ``s3a://`` and ``s3://``; and a copied table is read through a
mapping of prefixes. Paths are therefore compared by identity, after mapping; they are never rewritten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.mapped import LOCATION_MAPPING, MappedFileIO

_HIERARCHICAL = re.compile(r"(?:file|hdfs|viewfs|webhdfs):(?://[^/]*)?(?=/)", re.IGNORECASE)
_OBJECT_STORE = re.compile(r"s3[an]://", re.IGNORECASE)


def location_identity(location: str) -> str:
    """A text that is equal for two locations of the same file.

    Schemes of file systems are taken off with their authority (``hdfs://n:8020/p``, ``file:/p`` and ``/p`` agree); ``s3a`` and
    ``s3n`` are ``s3``; every other location stands for itself.
    """
    if location.startswith("/"):
        return location
    if m := _HIERARCHICAL.match(location):
        return location[m.end() :]
    if m := _OBJECT_STORE.match(location):
        return "s3://" + location[m.end() :]
    return location[2:] if location.startswith("./") else location


def identity_under(io: FileIO) -> Callable[[str], str]:
    """``location_identity`` after the prefix mapping of ``io``, if it has one (through any wrapping)."""
    text = io.properties.get(LOCATION_MAPPING)
    if not text:
        return location_identity
    mapped = MappedFileIO(io, [(recorded, actual) for recorded, actual in json.loads(text)])
    return lambda location: location_identity(mapped.map(location))
