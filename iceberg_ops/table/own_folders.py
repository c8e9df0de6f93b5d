"""Folders whose files are a table's own, and folders that it imported files from.

A table owns what lies in its own folders. Files that it imported where they lie, from outside of them, may be another table's too,
or another engine's: no table deletes them, unless it is said to own them (``iceberg-ops.owns-imported-files``).
"""

from __future__ import annotations

from collections.abc import Callable

from iceberg_ops.config.properties import IMPORTED_FOLDER_PREFIX, OWNS_IMPORTED_FILES
from iceberg_ops.errors import OptionError
from iceberg_ops.io.locations import Identity, below, folder_identity, identity_under, is_within
from iceberg_ops.table.table import Table

_FOLDERS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


def folders_of(table: Table) -> list[str]:
    """Folders that are the table's own, as they are recorded."""
    location = table.location.rstrip("/")
    stated = [found for key in _FOLDERS if (found := table.properties.get(key))]
    return [location, *(below(location, path) for path in stated)]


def imported_folders(table: Table) -> list[str]:
    """Folders outside the table's own ones that it has imported files from, as far as this package did it."""
    return [folder for key, folder in table.properties.items() if key.startswith(IMPORTED_FOLDER_PREFIX)]


def check_outside(table: Table, place: str, what: str) -> None:
    """Raise OptionError for an output in a folder of the table: it would take the place of a live file, or be taken for one.

    ``place`` is the output's location, of a local file without symbolic links; ``what`` names the option and its value."""
    identity = identity_under(table.io)
    for folder in (*folders_of(table), *imported_folders(table)):
        if is_within(identity(place), folder_identity(identity, folder)):
            raise OptionError(f"{what}: lies in {folder}, where the files of table {table.name} lie: write it elsewhere")


def only_imported(table: Table, identity: Identity) -> Callable[[str], bool]:
    """Whether a file, by its identity, was imported from outside the table's own folders and is not said to be the table's own.
    Raises OptionError."""
    imported = [folder_identity(identity, folder) for folder in imported_folders(table)]
    if not imported or OWNS_IMPORTED_FILES.of(table.properties):
        return lambda _: False
    own = [folder_identity(identity, folder) for folder in folders_of(table)]

    def is_only_imported(name: str) -> bool:
        return any(is_within(name, folder) for folder in imported) and not any(is_within(name, folder) for folder in own)

    return is_only_imported
