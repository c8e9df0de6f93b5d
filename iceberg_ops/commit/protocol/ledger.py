"""The record of run keys that no snapshot carries: in the table's properties, and later in ledger files.

Each entry is a separate property, so two commits never overwrite each other's entries. If an expiry would leave more than
LEDGER_SIZE of them, it moves all into one immutable file beside the metadata, together with the entries of earlier files, and one
property then names that file. The file belongs to the commit like any other: the gate keeps it as long as the metadata names it.
Two expiries at once lose no entry, because each names its own file. A ledger holds the latest MOST_REMEMBERED runs with a given
key, as many with a made-up key, and as many publications of staged snapshots: an expiry may enter one for each tag and branch, and
neither may push out a key that its owner relies on.

The file's name is hidden (it begins with ``_``), so that other engines' orphan removal leaves it alone.
"""

from __future__ import annotations

import gzip
import json
import uuid
import zlib
from collections.abc import Callable, Mapping

from iceberg_ops.config.properties import LEDGER_FILE_PREFIX, LEDGER_PREFIX
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.machine_limits import limit_error
from iceberg_ops.serde.json.json_objects import parse_json
from iceberg_ops.spec.updates import RemoveProperties, SetProperties, TableUpdate
from iceberg_ops.table.manifests import CACHE
from iceberg_ops.table.metadata_files import LEDGER_FILE_NAME, metadata_folder
from iceberg_ops.table.table import Table

LEDGER_SIZE = 64
"""The most entries that an expiry leaves in a table's properties, because every commit writes the properties again."""
MOST_REMEMBERED = 50_000
PUBLICATION = "published-"
"""The prefix of publication names after ``LEDGER_PREFIX``; the other entries are runs."""
MADE_UP_MARK = "~"
"""Follows the time of an entry whose run key was made up."""
_BYTES_OF_ENTRY = 200


def ledger_entry(table: Table, name: str) -> str | None:
    """The entry with this name. Raises CorruptTableError if a ledger file is missing or broken."""
    properties = table.metadata.properties
    if (text := properties.get(name)) is not None:
        return text
    for key, location in properties.items():
        if key.startswith(LEDGER_FILE_PREFIX) and (text := _entries_in(table, location).get(name)) is not None:
            return text
    return None


def entries_whose_name(table: Table, is_meant: Callable[[str], bool]) -> dict[str, str]:
    """The entries whose names match. Raises CorruptTableError if a ledger file is missing or broken."""
    properties = table.metadata.properties
    entries = {k: v for k, v in properties.items() if k.startswith(LEDGER_PREFIX) and is_meant(k)}
    for key, location in properties.items():
        if key.startswith(LEDGER_FILE_PREFIX):
            entries |= {k: v for k, v in _entries_in(table, location).items() if is_meant(k)}
    return entries


class Ledger:
    """Writes the ledger files of one operation, for all its attempts."""

    def __init__(self) -> None:
        self.written: list[str] = []
        self._known: dict[tuple[tuple[str, str], ...], str] = {}

    def updates(self, table: Table, entries: Mapping[str, str]) -> tuple[list[TableUpdate], str | None]:
        """Updates that enter ``entries``, and the location of the ledger file they name, if they need one."""
        known = {k: v for k, v in table.properties.items() if k.startswith(LEDGER_PREFIX)}
        if not entries or len(known.keys() | entries.keys()) <= LEDGER_SIZE:
            return [SetProperties(dict(entries))] if entries else [], None
        files = {k: v for k, v in table.properties.items() if k.startswith(LEDGER_FILE_PREFIX)}
        everything: dict[str, str] = {}
        for location in files.values():
            everything |= _entries_in(table, location)
        publications = {name: text for name, text in entries.items() if names_publication(name)}
        everything |= {**entries, **known, **publications}
        location = self._write(table, everything)
        name = f"{LEDGER_FILE_PREFIX}{location.rpartition('-ledger-')[2].partition('.')[0]}"
        return [SetProperties({name: location}), RemoveProperties((*known, *files))], location

    def _write(self, table: Table, entries: Mapping[str, str]) -> str:
        by_age = sorted(entries.items(), key=lambda e: _at(e[1]))
        kinds: dict[str, list[tuple[str, str]]] = {}
        for entry in by_age:
            kinds.setdefault(_kind(*entry), []).append(entry)
        key = tuple(sorted(entry for entries in kinds.values() for entry in entries[-MOST_REMEMBERED:]))
        if key not in self._known:
            location = f"{metadata_folder(table.metadata)}/{LEDGER_FILE_NAME.format(uuid.uuid4())}"
            self.written.append(location)
            table.io.write(location, gzip.compress(json.dumps(dict(key)).encode(), mtime=0))
            self._known[key] = location
        return self._known[key]


def _entries_in(table: Table, location: str) -> Mapping[str, str]:
    io = table.io
    key = ("ledger", location, tuple(sorted(io.properties.items())))
    return CACHE.get(key, lambda: _read(io, location, table.name), lambda entries: _BYTES_OF_ENTRY * len(entries))


def _read(io: FileIO, location: str, table: str) -> dict[str, str]:
    try:
        document = parse_json(gzip.decompress(io.read(location)), "its content")
        return {str(k): str(v) for k, v in document.items()}
    except FileNotFoundError:
        reason = "does not exist"
    except (CorruptTableError, OSError, zlib.error, EOFError, AttributeError) as e:
        if isinstance(e, OSError) and (limit := limit_error(e, location)) is not None:
            raise limit from e
        reason = f"cannot be read: {e}"
    raise CorruptTableError(
        f"ledger file {location} of table {table}, which remembers run keys, {reason}. Restore it; or remove the table property "
        f"that names it, and with it the memory of old runs"
    )


def names_publication(name: str) -> bool:
    """Whether an entry with this name records a publication."""
    return name.startswith(f"{LEDGER_PREFIX}{PUBLICATION}")


def _kind(name: str, text: str) -> str:
    """The kind of the entry; each kind has its own limit."""
    if names_publication(name):
        return "publication"
    return "made up" if _entry_time(text).endswith(MADE_UP_MARK) else "given"


def _at(text: str) -> int:
    return parse_count(_entry_time(text).removesuffix(MADE_UP_MARK)) or 0


def _entry_time(text: str) -> str:
    return text.partition("@")[2].partition("@")[0]
