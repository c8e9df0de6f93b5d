"""Detects a table that a second catalog also commits to (``table.second_lines``): jobs here would delete that catalog's files.

The folder of the current metadata file is listed. Only few of the metadata files that the table does not know are read: the highest
one with the other naming scheme, and those with the table's own scheme that are above the oldest entry of its log, or were written
since. There are few such files: failed commits left them behind. The second catalog may have fewer commits than this one, so it is
not enough to check the files above the current one; a catalog that commits less often has lower version numbers.
"""

from __future__ import annotations

from dataclasses import replace

from iceberg_ops.catalog.catalog import Catalog, KeepsTablesInFolders
from iceberg_ops.deletion.gate import check_same_table
from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.io.file_io import files_in, names_in
from iceberg_ops.spec.table_uuid import same_uuid
from iceberg_ops.table.metadata_files import is_metadata_file, parse_version, read_metadata
from iceberg_ops.table.second_lines import KnownMetadataFiles, is_counted, second_catalog
from iceberg_ops.table.table import Table

_CLOCKS_MS = 60_000
"""How far the clocks of a store and of writers may differ."""
_MOST_LATE = 10
"""A restored folder may hold thousands of files that were written since. A second catalog's current file is among the last."""


def forbid_second_catalog(catalog: Catalog, table: Table, *, shares_folder: bool = False) -> None:
    """Raise UnsupportedError if another catalog commits to the table, and ValidationError if another table has taken its name.
    ``shares_folder``: also if another table's metadata lies in the same folder, all of which is to be deleted."""
    counts = isinstance(catalog, KeepsTablesInFolders)
    strays = _files_of_other_scheme(table, KnownMetadataFiles(table, counts=counts), every=shares_folder)
    if not strays:
        return
    # The current table knows every commit that this catalog made between loading and listing.
    now = catalog.load_table(table.identifier[1:])
    check_same_table(table, now)
    line = KnownMetadataFiles(now, counts=counts)
    for location in strays:
        try:
            state = replace(now, metadata=read_metadata(table.io, location), metadata_location=location)
        except CorruptTableError:
            continue  # The file is gone, or is nobody's current metadata.
        uuid, theirs = now.metadata.table_uuid, state.metadata.table_uuid
        if uuid and same_uuid(uuid, theirs):
            if line.is_left_by(state):
                raise second_catalog(now, location)
        elif uuid and theirs and shares_folder:
            raise UnsupportedError(
                f"not supported: deleting the folder of table {now.name}, because {location} is metadata of another table (uuid "
                f"{theirs}, not {uuid}), whose files are there as well. Move the files of one of the two, or drop that one first"
            )


def _files_of_other_scheme(table: Table, line: KnownMetadataFiles, *, every: bool) -> list[str]:
    """Locations of the files to read, the highest first. ``every``: all files with the other naming scheme."""
    folder = table.metadata_location.rpartition("/")[0]
    by_counting: dict[bool, list[tuple[int, str]]] = {True: [], False: []}
    for name in names_in(table.io, folder) if folder else ():  # A table under creation has no folder.
        location, version = f"{folder}/{name}", parse_version(name)
        if is_metadata_file(name) and version is not None and not line.has(location):
            by_counting[is_counted(location) == line.counts].append((version, location))
    others = sorted(by_counting[False], reverse=True)[: None if every else 1]
    above = sorted((x for x in by_counting[True] if x[0] > line.forgets_before), reverse=True)
    read = [location for _, location in (*others, *above)]
    uncounted = (location for _, location in (*by_counting[True], *by_counting[False]) if not is_counted(location))
    return [*read, *_late_files(table, line, folder, set(uncounted).difference(read))]


def _late_files(table: Table, line: KnownMetadataFiles, folder: str, others: set[str]) -> list[str]:
    """The latest of ``others`` that were written after the oldest file of the table's log."""
    if not others:
        return []
    since = line.since_ms - _CLOCKS_MS
    written = ((info.modified_ms or since, f"{folder}/{info.location.rpartition('/')[2]}") for info in files_in(table.io, folder))
    return [place for _, place in sorted((x for x in written if x[0] >= since and x[1] in others), reverse=True)[:_MOST_LATE]]
