"""Namespaces as folders below a warehouse: a folder that belongs to no table is a namespace, and so are the folders in it."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

from iceberg_ops.catalog.base import BaseCatalog, now_ms
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.names import are_folders, check_new_names
from iceberg_ops.catalog.versions import is_pointer
from iceberg_ops.deletion.metadata_files import delete_pointers
from iceberg_ops.errors import AlreadyExistsError, BadInputError, CatalogUnavailableError, UnsupportedError
from iceberg_ops.io.file_io import FileIO, KeepsFolders, ListsFolders, is_far
from iceberg_ops.io.local import remove_empty_folders
from iceberg_ops.io.locations import absolute_under, is_within

NAMESPACE_MARKER = ".namespace"
_LOOKS_AT_ONCE = 16


class FolderNamespaces(BaseCatalog):
    """The namespaces of a catalog that keeps its tables in folders. ``warehouse`` is the root folder."""

    def __init__(self, name: str, io: FileIO, *, warehouse: str, clock: Callable[[], int] = now_ms) -> None:
        super().__init__(name, io, warehouse=warehouse, clock=clock)
        self._root = absolute_under(io, warehouse).rstrip("/")

    def _table_folder(self, identifier: Identifier) -> str:
        return "/".join((self._root, *identifier))

    def _namespace_exists(self, namespace: tuple[str, ...]) -> bool:
        if not are_folders(namespace):
            return False
        folder = "/".join((self._root, *namespace))
        local = self.io.local_path(folder)
        if local is not None:
            return os.path.isdir(local) and not self.table_exists(namespace)
        is_there = next(iter(self.io.list_prefix(folder)), None) is not None or self._is_empty_folder(folder)
        return is_there and not self.table_exists(namespace)

    def _is_empty_folder(self, folder: str) -> bool:
        """In a store that has folders without files."""
        return isinstance(self.io, ListsFolders) and folder in self.io.list_folder(folder.rpartition("/")[0])[0]

    def each_table(self, namespace: tuple[str, ...]) -> Iterator[Identifier]:
        """All names of folders are listed first; then each folder is listed to decide whether it is a table."""
        self._check_namespace(namespace)
        yield from (name for name, is_table in self._looked_into(namespace) if is_table)

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return [name for name, is_table in self._looked_into(parent) if not is_table]

    def _looked_into(self, namespace: tuple[str, ...]) -> Iterator[tuple[Identifier, bool]]:
        """The folders in a namespace, sorted, and whether each is a table. If a listing takes long, several run at a time."""
        names = ((*namespace, name) for name in sorted(self._children(namespace)))
        if not is_far(self.io, self._root):
            yield from ((name, self.table_exists(name)) for name in names)
            return
        with ThreadPoolExecutor(_LOOKS_AT_ONCE, thread_name_prefix="tables") as threads:
            while some := list(islice(names, _LOOKS_AT_ONCE)):
                yield from zip(some, threads.map(self.table_exists, some), strict=True)

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        check_new_names(namespace)
        check_no_pointers(namespace)
        if properties:
            raise UnsupportedError(f"not supported: properties of namespace {'.'.join(namespace)}, because a folder has none")
        if self._namespace_exists(namespace):
            raise AlreadyExistsError(f"namespace {'.'.join(namespace)} already exists in catalog {self.name}")
        if table := next((name for n in range(1, len(namespace) + 1) if self.table_exists(name := namespace[:n])), None):
            raise AlreadyExistsError(
                f"namespace {'.'.join(namespace)} would be inside the folder of table {'.'.join(table)} of catalog {self.name}: "
                "give it another name"
            )
        folder = "/".join((self._root, *namespace))
        local = self.io.local_path(folder)
        if local is not None:
            os.makedirs(local, exist_ok=True)
        elif not (isinstance(self.io, KeepsFolders) and self.io.make_folder(folder)):
            self.io.write(f"{folder}/{NAMESPACE_MARKER}", b"", overwrite=True)

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        self._check_empty(namespace)
        folder = "/".join((self._root, *namespace))
        marker = f"{folder}/{NAMESPACE_MARKER}"
        if stray := next((info.location for info in self.io.list_prefix(folder) if info.location != marker), None):
            raise BadInputError(f"namespace {'.'.join(namespace)} is not empty: its folder holds {stray}. Move such files away")
        failures = delete_pointers(self.io, [marker])
        remove_empty_folders(self.io, folder)
        if self._namespace_exists(namespace):
            why = failures[0].reason if failures else "something was added to it in the meantime, or its folder cannot be removed"
            raise CatalogUnavailableError(f"namespace {'.'.join(namespace)} is still there: {why}")

    def namespace_properties(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        self._check_namespace(namespace)
        return {}

    def _children(self, namespace: tuple[str, ...]) -> set[str]:
        if not are_folders(namespace):
            return set()
        folder = "/".join((self._root, *namespace))
        local = self.io.local_path(folder)
        if local is not None:
            above = ["/".join((self._root, *namespace[:n])) for n in range(len(namespace) + 1)]
            names = _folders_in(local, [path for folder in above if (path := self.io.local_path(folder))])
        elif isinstance(self.io, ListsFolders):
            names = {path.rpartition("/")[2] for path in self.io.list_folder(folder)[0]}
        else:
            start = len(folder) + 1
            names = {p[start:].split("/", 1)[0] for info in self.io.list_prefix(folder) if "/" in (p := info.location)[start:]}
        return {name for name in names if not name.startswith(".") and are_folders((name,))}


def check_no_pointers(identifier: tuple[str, ...]) -> None:
    """Raise BadInputError for the name of a version file or hint: with such a name below ``metadata``, a namespace would look like
    a table, and its tables would not be found."""
    if name := next((name for name in identifier if is_pointer(name)), None):
        raise BadInputError(f"name {name!r}: a filesystem catalog finds tables by files of this name: choose another name")


def _folders_in(folder: str, above: list[str]) -> set[str]:
    """Names of the folders in ``folder``. A link is skipped if it leads into or around one of the folders ``above`` it, or to the
    target of another link: its tables already have a name, and a circle of links has no end."""
    if not os.path.isdir(folder):
        return set()
    names, known = set[str](), [os.path.realpath(path) for path in above]
    with os.scandir(folder) as entries:
        folders = sorted((e for e in entries if _is_folder(e)), key=lambda e: e.name)
    for entry in folders:
        if entry.is_symlink():
            real = os.path.realpath(entry.path)
            if any(is_within(real, other) or is_within(other, real) for other in known):
                continue
            known.append(real)
        names.add(entry.name)
    return names


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """A circular link is not a folder."""
    try:
        return entry.is_dir()
    except OSError as e:
        if e.errno == errno.ELOOP:
            return False
        raise
