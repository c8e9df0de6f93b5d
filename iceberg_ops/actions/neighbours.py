"""Files that other tables of the catalog own in the folder where one table's orphans are looked for.

Locations of tables may lie in each other: a table put at the root of a warehouse, a ``write.data.path`` that points below another
table. What lies below such a folder of another table is never this table's to remove; where another table's folder lies around the
one that is searched, or is the same, every file that it refers to is its own.

Looked at is every table of the catalog, its own namespace first, and only when something would go: each costs one read of its
metadata. A table that can not be read is an error, because nobody can say what is its.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from iceberg_ops.catalog.catalog import Catalog, Identifier
from iceberg_ops.errors import NoSuchNamespaceError, NoSuchTableError
from iceberg_ops.io.locations import identity_under
from iceberg_ops.table.table import Table

_READ_AT_ONCE = 8
_FOLDERS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


@dataclass(frozen=True, slots=True)
class Claim:
    """What another table has in the searched folder: all below ``folders`` (identities that end with a slash), and if it lies
    ``around`` the searched folder, every file it refers to."""

    table: Table
    folders: tuple[str, ...]
    around: bool


def claims_of_others(catalog: Catalog, table: Table, location: str) -> Iterator[Claim]:
    """Claims of the catalog's other tables on what lies below ``location``.

    Raises CatalogUnavailableError, CorruptTableError and UnsupportedError (another table that can not be read).
    """
    identity = identity_under(table.io)
    searched = identity(location).rstrip("/") + "/"
    for other in other_tables(catalog, table):
        folders = [identity(folder).rstrip("/") + "/" for folder in folders_of(other)]
        below = tuple(folder for folder in folders if folder.startswith(searched) and folder != searched)
        around = any(searched.startswith(folder) for folder in folders)
        if below or around:
            yield Claim(other, below, around)


def folders_of(table: Table) -> list[str]:
    """Folders that are the table's own, as they are recorded."""
    location = table.location.rstrip("/")
    stated = [found for key in _FOLDERS if (found := table.properties.get(key))]
    return [location, *(f if f.startswith("/") or ":" in f else f"{location}/{f}" for f in stated)]


def other_tables(catalog: Catalog, table: Table) -> Iterator[Table]:
    """The catalog's other tables, each as it is now; one that was dropped meanwhile is left out."""
    own = table.identifier[1:]

    def load(name: Identifier) -> Table | None:
        try:
            return catalog.load_table(name)
        except NoSuchTableError:
            return None

    with ThreadPoolExecutor(_READ_AT_ONCE, thread_name_prefix="neighbours") as threads:
        for namespace in _namespaces(catalog, own[:-1]):
            names = [name for name in _tables_in(catalog, namespace) if name != own]
            yield from (found for found in threads.map(load, names) if found is not None)


def _namespaces(catalog: Catalog, first: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Every namespace: ``first``, then those below the same first level, then the others."""
    yield first
    tops = catalog.list_namespaces()
    waiting = [first[:1], *(top for top in tops if top != first[:1])]
    while waiting:
        found = waiting.pop(0)
        if found != first:
            yield found
        waiting = [*catalog.list_namespaces(found), *waiting]


def _tables_in(catalog: Catalog, namespace: tuple[str, ...]) -> list[Identifier]:
    try:
        return catalog.list_tables(namespace)
    except NoSuchNamespaceError:
        return []
