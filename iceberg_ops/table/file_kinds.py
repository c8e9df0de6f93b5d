"""Which files look like a table's, by their first bytes and their names."""

from __future__ import annotations

_METADATA_NAMES = (".metadata.json", ".metadata.json.gz", "version-hint.text")
_DATA = {b"PAR1": "Parquet", b"PARE": "Parquet", b"ORC": "ORC", b"Obj\x01": "Avro", b"PFA1": "Puffin", b"SQLite": "SQLite"}
"""The first bytes of the files that tables and SQL catalogs consist of, and their formats."""
LONGEST_MAGIC = max(map(len, _DATA))


def has_metadata_name(place: str) -> bool:
    """Whether a file of that name is a table's metadata."""
    return place.endswith(_METADATA_NAMES)


def kind_of_data(place: str, begin: bytes) -> str | None:
    """What a file of this name and beginning (empty: there is none) is, where it may be a table's or a catalog's; else None."""
    if has_metadata_name(place):
        return "a table's metadata"
    return next((f"a file of format {name}" for magic, name in _DATA.items() if begin.startswith(magic)), None)
