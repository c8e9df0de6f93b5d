"""Finds every table of a warehouse by its folders.

Namespaces do not list every table: another engine may put a table right below the warehouse, into the folder of another table, or
under a name that begins with a dot. Each of them can be loaded by its name, and its files may lie anywhere. So a job that must know
all tables reads every folder, also data folders: one listing of names per folder, and no file is opened.

Symbolic links to folders are followed last, and each folder is visited once: a table with two names is found by the one without a
link. A link to a folder around its own place is skipped, as in the listing of namespaces: it would lead to the rest of the disk.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.local import subfolders
from iceberg_ops.io.locations import is_within

METADATA = "metadata"
"""The name of the subfolder that makes a folder a table."""
_LISTED_AT_ONCE = 8


def folders_with_metadata(io: FileIO, warehouse: str) -> Iterator[Identifier]:
    """Names of the folders, relative to ``warehouse``, that hold a folder of metadata; () for the warehouse itself.

    Raises UnsupportedError for a folder that cannot be listed, because a table may lie in it, and CatalogUnavailableError."""
    local = io.local_path(warehouse)
    yield from _walked(local) if local is not None else _listed(io, warehouse)


def _listed(io: FileIO, warehouse: str) -> Iterator[Identifier]:
    """The same in a store without folders."""
    start, identifiers = len(warehouse) + 1, dict[Identifier, None]()
    for info in io.list_prefix(warehouse):
        parts = info.location[start:].split("/")[:-1]
        identifiers.update((tuple(parts[:n]), None) for n, name in enumerate(parts) if name == METADATA)
    yield from identifiers


@dataclass(frozen=True, slots=True)
class _Folder:
    """``path`` has no links in it. ``roots``: the warehouse, and the targets of the links on the path."""

    names: Identifier
    path: str
    roots: tuple[str, ...]


def _walked(warehouse: str) -> Iterator[Identifier]:
    root = os.path.realpath(warehouse or "/")
    level, links, visited = [_Folder((), root, (root,))], list[_Folder](), {root}
    with ThreadPoolExecutor(_LISTED_AT_ONCE, thread_name_prefix="warehouse") as threads:
        while level or links:
            if not level:
                level, links = [folder for folder in map(_behind, links) if _is_new(folder, visited)], []
                continue
            below: list[_Folder] = []
            for folder, children in zip(level, threads.map(_subfolders, level), strict=True):
                if any(name == METADATA for name, _ in children):
                    yield folder.names
                for name, is_link in sorted(children):
                    child = _Folder((*folder.names, name), os.path.join(folder.path, name), folder.roots)
                    (links if is_link else below).append(child)
            level = [folder for folder in below if _is_new(folder, visited)]


def _behind(link: _Folder) -> _Folder:
    real = os.path.realpath(link.path)
    return _Folder(link.names, real, (*link.roots, real))


def _is_new(folder: _Folder, visited: set[str]) -> bool:
    """Whether the folder must be visited; it is remembered then."""
    leads_around = any(is_within(root, folder.path) for root in folder.roots if root != folder.path)
    if folder.path in visited or leads_around:
        return False
    visited.add(folder.path)
    return True


def _subfolders(folder: _Folder) -> list[tuple[str, bool]]:
    try:
        return subfolders(folder.path)
    except OSError as e:
        raise UnsupportedError(
            f"not supported: a job that must know every table of the warehouse, because folder {folder.path} cannot be listed "
            f"({e.strerror or e}), and it may contain a table. Let the job read the folder, or move it out of the warehouse"
        ) from e
