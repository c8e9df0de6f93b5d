"""Recognises files of tables by their first bytes, their names and, for metadata, their content."""

from __future__ import annotations

import mmap
from typing import BinaryIO

from iceberg_ops.serde.json.metadata_json import MAX_METADATA_BYTES, is_metadata

_METADATA_NAMES = (".metadata.json", ".metadata.json.gz", "version-hint.text")
_DATA = {b"PAR1": "Parquet", b"PARE": "Parquet", b"ORC": "ORC", b"Obj\x01": "Avro", b"PFA1": "Puffin", b"SQLite": "SQLite"}
"""The first bytes of the files that belong to tables and SQL catalogs, and their formats."""
LONGEST_MAGIC = max(map(len, _DATA))
_PACKED = (b"\x1f\x8b", b"\x28\xb5\x2f\xfd")
_MARK = b'"format-version"'
"""A key of all metadata: a large file of JSON rows without it is only searched, not parsed."""


def has_metadata_name(place: str) -> bool:
    """Whether a file of that name is a table's metadata."""
    return place.endswith(_METADATA_NAMES)


def kind_of_data(place: str, begin: bytes) -> str | None:
    """The kind of a file with this name and these first bytes (empty: none), if it may belong to a table or catalog; else None."""
    if has_metadata_name(place):
        return "a table's metadata"
    return next((f"a file of format {name}" for magic, name in _DATA.items() if begin.startswith(magic)), None)


def kind_of_file(place: str, source: BinaryIO) -> str | None:
    """``kind_of_data`` of an existing local file. Metadata is also recognised by its content: a table may be registered with a file
    of any name. Reads ``source``, which is at its beginning."""
    begin = source.read(LONGEST_MAGIC)
    kind = kind_of_data(place, begin)
    if kind is None and begin and _holds_metadata(source, begin):
        return "a table's metadata"
    return kind


def _holds_metadata(source: BinaryIO, begin: bytes) -> bool:
    is_packed = begin.startswith(_PACKED)
    if not is_packed and not begin.lstrip().startswith(b"{"):
        return False
    with mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if len(data) > MAX_METADATA_BYTES or (not is_packed and data.find(_MARK) < 0):
            return False
        return is_metadata(data[:])
