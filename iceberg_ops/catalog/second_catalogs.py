"""A table that another catalog has as well, and goes on with (``table.second_lines``): jobs here would delete its files.

The folder of the current metadata file is listed. Of the metadata files that the table does not know few are read: the highest of
the other kind of name, and those of its own kind that are above the oldest one of its log, or were written since. There are hardly
ever any: what commits that failed have left. The other catalog may be behind this one, so that a look above the current file is not
enough; one that commits more seldom counts its files more slowly.
"""

from __future__ import annotations

from dataclasses import replace

from iceberg_ops.catalog.catalog import Catalog, KeepsTablesInFolders
from iceberg_ops.deletion.gate import check_same_table
from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.io.file_io import files_in, names_in
from iceberg_ops.spec.table_uuid import same_uuid
from iceberg_ops.table.metadata_files import is_metadata_file, read_metadata, version_of
from iceberg_ops.table.second_lines import OwnLine, is_counted, second_catalog
from iceberg_ops.table.table import Table

_CLOCKS_MS = 60_000
"""How far the clocks of a store and of writers may differ."""
_MOST_LATE = 10
"""A restored folder may hold thousands of files that were written since. A second catalog's current file is among the last."""


def forbid_second_catalog(catalog: Catalog, table: Table, *, shares_folder: bool = False) -> None:
    """Raise UnsupportedError where another catalog goes on with the table, and ValidationError where another table has its name by
    now. ``shares_folder``: also where another table's metadata lies in the same folder, all of which is to be deleted."""
    counts = isinstance(catalog, KeepsTablesInFolders)
    strays = _strays(table, OwnLine(table, counts=counts), every=shares_folder)
    if not strays:
        return
    # What was committed here between loading and listing is known to the table as it is now.
    now = catalog.load_table(table.identifier[1:])
    check_same_table(table, now)
    own = OwnLine(now, counts=counts)
    for location in strays:
        try:
            state = replace(now, metadata=read_metadata(table.io, location), metadata_location=location)
        except CorruptTableError:
            continue  # It is gone, or nobody's current one.
        uuid, theirs = now.metadata.table_uuid, state.metadata.table_uuid
        if uuid and same_uuid(uuid, theirs):
            if own.is_left_by(state):
                raise second_catalog(now, location)
        elif uuid and theirs and shares_folder:
            raise UnsupportedError(
                f"not supported: deleting the folder of table {now.name}, because {location} is metadata of another table "
                f"(uuid {theirs}, not {uuid}), whose files lie there as well. Move the files of one of the two, or drop that "
                f"one first"
            )


def _strays(table: Table, own: OwnLine, *, every: bool) -> list[str]:
    """Locations of the files to be read, the highest first. ``every``: all of the other kind."""
    folder = table.metadata_location.rpartition("/")[0]
    found: dict[bool, list[tuple[int, str]]] = {True: [], False: []}
    for name in names_in(table.io, folder) if folder else ():  # A table in the making has none.
        location, version = f"{folder}/{name}", version_of(name)
        if is_metadata_file(name) and version is not None and not own.has(location):
            found[is_counted(location) == own.counts].append((version, location))
    others = sorted(found[False], reverse=True)[: None if every else 1]
    above = sorted((x for x in found[True] if x[0] > own.forgets_before), reverse=True)
    read = [location for _, location in (*others, *above)]
    uncounted = (location for _, location in (*found[True], *found[False]) if not is_counted(location))
    return [*read, *_late(table, own, folder, set(uncounted).difference(read))]


def _late(table: Table, own: OwnLine, folder: str, others: set[str]) -> list[str]:
    """The last of ``others`` that were written since the oldest file of the own log."""
    if not others:
        return []
    since = own.since_ms - _CLOCKS_MS
    written = ((info.modified_ms or since, f"{folder}/{info.location.rpartition('/')[2]}") for info in files_in(table.io, folder))
    return [place for _, place in sorted((x for x in written if x[0] >= since and x[1] in others), reverse=True)[:_MOST_LATE]]
