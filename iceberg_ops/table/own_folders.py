"""Folders whose files belong to a table, its former folders, and folders that it imported files from.

A table owns the files in its own folders. If its location or a property such as ``write.data.path`` changes, its files stay live
in the former folder, so a commit through a catalog of this package records that folder (``former_folder_properties``). Files that a
table imported in place, from outside its folders, may also belong to another table or another engine: no table deletes them, even
after its own folders moved, unless it owns them by ``iceberg-ops.owns-imported-files``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from iceberg_ops.config.properties import (
    FORMER_FOLDER_PREFIX,
    FORMER_LOCATION_PREFIX,
    IMPORTED_FOLDER_PREFIX,
    OWNS_IMPORTED_FILES,
)
from iceberg_ops.errors import OptionError
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.locations import Identity, below, folder_identity, identity_under, is_within
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.table import Table

_FOLDERS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


def folders_of(table: Table | TableMetadata) -> list[str]:
    """The table's own folders, as recorded; the first is its location."""
    location = table.location.rstrip("/")
    stated = [folder for key in _FOLDERS if (folder := table.properties.get(key))]
    return [location, *(below(location, path) for path in stated)]


def former_locations(table: Table) -> list[str]:
    """The table's former locations, as far as this package changed them."""
    return _named(table, FORMER_LOCATION_PREFIX)


def former_folders(table: Table) -> list[str]:
    """The table's former folders, its former locations among them, as far as this package changed them."""
    return [*former_locations(table), *_named(table, FORMER_FOLDER_PREFIX)]


def former_folder_properties(before: TableMetadata, after: TableMetadata) -> dict[str, str]:
    """The properties that record the folders which a change removes from a table."""
    (location, *others), kept = folders_of(before), folders_of(after)
    properties = {} if location == kept[0] else {folder_key(FORMER_LOCATION_PREFIX, location): location}
    gone = (folder for folder in others if not any(is_within(folder, other) for other in (*kept, *properties.values())))
    return properties | {folder_key(FORMER_FOLDER_PREFIX, folder): folder for folder in gone}


def imported_folders(table: Table) -> list[str]:
    """Folders outside the table's own from which it has imported files, as far as this package did it."""
    return _named(table, IMPORTED_FOLDER_PREFIX)


def check_outside(table: Table, place: str, what: str) -> None:
    """Raise OptionError for an output in a folder of the table: it would replace a live file, or be taken for one.

    ``place`` is the output's location, without symbolic links for a local file; ``what`` names the option and its value. The output
    is written at ``place`` itself, without the mapping of recorded locations; a place that is a recorded location is refused,
    too."""
    identity = identity_under(table.io)
    places = {identity(place), identity_under(load_file_io())(place)}
    for folder in (*folders_of(table), *former_folders(table), *imported_folders(table)):
        if any(is_within(place, folder_identity(identity, folder)) for place in places):
            raise OptionError(f"{what}: lies in {folder}, where the files of table {table.name} lie: write it elsewhere")


def only_imported(table: Table, identity: Identity) -> Callable[[str], bool]:
    """Whether a file, by its identity, lies in a folder outside the table's own from which the table imported files, and the table
    does not own them by its property. Raises OptionError."""
    imported = [folder_identity(identity, folder) for folder in imported_folders(table)]
    if not imported or OWNS_IMPORTED_FILES.of(table.properties):
        return lambda _: False
    return lambda name: any(is_within(name, folder) for folder in imported)


def _named(table: Table, prefix: str) -> list[str]:
    return [folder for key, folder in table.properties.items() if key.startswith(prefix)]


def folder_key(prefix: str, folder: str) -> str:
    """The property that records a folder: ``prefix``, and a digest of the folder."""
    return f"{prefix}{hashlib.sha256(folder.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
