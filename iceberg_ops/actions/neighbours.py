"""Files that other tables of the catalog own in the folder where one table's orphans are looked for.

Locations of tables may lie in each other: a table put at the root of a warehouse, a ``write.data.path`` that points below another
table. What lies below such a folder of another table is never this table's to remove; where another table's folder lies around the
one that is searched, or is the same, every file that it refers to is its own.

Looked at are the tables of the namespaces below the table's first one, its own namespace first, MOST_TABLES of them at most: each
costs one read of its metadata. A table that can not be read is an error, because nobody can say what is its.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import islice

from iceberg_ops.catalog.catalog import Catalog, Identifier
from iceberg_ops.errors import NoSuchNamespaceError, NoSuchTableError
from iceberg_ops.io.file_io import FileInfo
from iceberg_ops.io.locations import identity_under
from iceberg_ops.planning.file_groups import Skipped
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

MOST_TABLES = 1_000
_FOLDERS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")


def owned_by_others(
    catalog: Catalog,
    table: Table,
    files: Collection[FileInfo],
    location: str,
    reachable: Callable[[Table], Iterable[str]],
) -> list[Skipped]:
    """Those of ``files``, found below ``location``, that belong to another table; ``reachable`` gives every file a table refers to.

    Raises CatalogUnavailableError, CorruptTableError and UnsupportedError (another table that can not be read).
    """
    identity = identity_under(table.io)
    at = {info.location: identity(info.location) for info in files}
    searched = identity(location).rstrip("/") + "/"
    kept: dict[str, Skipped] = {}
    for other in other_tables(catalog, table) if files else ():
        folders = [identity(folder).rstrip("/") + "/" for folder in folders_of(other)]
        below = tuple(folder for folder in folders if folder.startswith(searched) and folder != searched)
        around = any(searched.startswith(folder) for folder in folders)
        owned = {identity(path) for path in reachable(other)} if around else frozenset()
        for path, name in at.items():
            if (below and name.startswith(below)) or name in owned:
                kept.setdefault(path, Skipped(path, f"it lies with the files of table {other.name}"))
    return list(kept.values())


def folders_of(table: Table) -> list[str]:
    """Folders that are the table's own, as they are recorded."""
    location = table.location.rstrip("/")
    stated = [found for key in _FOLDERS if (found := table.properties.get(key))]
    return [location, *(f if f.startswith("/") or ":" in f else f"{location}/{f}" for f in stated)]


def other_tables(catalog: Catalog, table: Table) -> Iterator[Table]:
    """The tables that may lie with ``table``, each as it is now; one that was dropped meanwhile is left out."""
    own = table.identifier[1:]
    names = (name for name in _names(catalog, own[:-1]) if name != own)
    for name in islice(names, MOST_TABLES):
        try:
            yield catalog.load_table(name)
        except NoSuchTableError:
            continue
    if next(names, None) is not None:
        log.warning("only %d tables of %s were compared with %s", MOST_TABLES, own[0], table.name)


def _names(catalog: Catalog, namespace: tuple[str, ...]) -> Iterator[Identifier]:
    yield from _tables_in(catalog, namespace)
    waiting = [namespace[:1]]
    while waiting:
        found = waiting.pop(0)
        if found != namespace:
            yield from _tables_in(catalog, found)
        waiting += catalog.list_namespaces(found)


def _tables_in(catalog: Catalog, namespace: tuple[str, ...]) -> list[Identifier]:
    try:
        return catalog.list_tables(namespace)
    except NoSuchNamespaceError:
        return []
