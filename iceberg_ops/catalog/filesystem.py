"""Tables as folders: ``<warehouse>/<namespace>/<name>/metadata/v<N>.metadata.json``, as Iceberg's Hadoop catalog lays them out.

A commit creates the next version's file, exclusively: of several writers one wins and the others see that the name is taken.
``version-hint.text`` only says where to start looking: reading goes upward from it, so a hint that is missing or behind never
hides a commit. Because a version's name can be taken only once, writing the same bytes again after a failure without an answer is
safe, and what is then found under the name is the truth.

The version's file name ends as the *current* version's codec says (Java: as the next one's), so that two writers who disagree
on the codec still meet at one name. Renaming and registering are not offered: here a table is its folder.
"""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Callable, Mapping

from iceberg_ops.catalog.base import BaseCatalog, now_ms
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.errors import (
    AlreadyExistsError,
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    UnsupportedError,
)
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.serde.metadata_json import metadata_to_json
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.metadata_files import metadata_suffix, read_metadata
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

HINT = "version-hint.text"
NAMESPACE_MARKER = ".namespace"
CREATE_ATTEMPTS = 4

_SUFFIXES = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_VERSION_FILE = re.compile(r"v(\d+)(\.metadata\.json|\.gz\.metadata\.json|\.metadata\.json\.gz)")


class FileSystemCatalog(BaseCatalog):
    """``warehouse`` is the root folder. Safe between any number of processes where FileIO creates files exclusively."""

    def __init__(
        self,
        name: str,
        io: FileIO,
        *,
        warehouse: str,
        clock: Callable[[], int] = now_ms,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(name, io, warehouse=warehouse, clock=clock)
        self._root = warehouse.rstrip("/")
        self._sleep = sleep

    # versions

    def _current_location(self, identifier: Identifier) -> str | None:
        return self._newest(self._metadata_folder(identifier))

    def _newest(self, folder: str) -> str | None:
        """The highest version's file: from the hint upward, by listing where the hint is of no use or a version is missing."""
        hint = self._hint(folder)
        found = self._version_file(folder, hint) if hint is not None else None
        if hint is None or found is None:
            return self._highest_listed(folder)
        version = hint
        while (above := self._version_file(folder, version + 1)) is not None:
            version, found = version + 1, above
        if version == hint:
            return found
        return self._highest_listed(folder) or found

    def _hint(self, folder: str) -> int | None:
        try:
            text = self.io.read(f"{folder}/{HINT}").decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        return int(text) if text.isdecimal() else None

    def _version_file(self, folder: str, version: int) -> str | None:
        return next((p for s in _SUFFIXES if self.io.exists(p := f"{folder}/v{version}{s}")), None)

    def _highest_listed(self, folder: str) -> str | None:
        best, best_version = None, -1
        for info in self.io.list_prefix(folder):
            parent, _, name = info.location.rpartition("/")
            m = _VERSION_FILE.fullmatch(name)
            if m and parent.rstrip("/").endswith("/metadata") and int(m[1]) > best_version:
                best, best_version = f"{folder}/{name}", int(m[1])
        return best

    def _publish_first(self, identifier: Identifier, metadata: TableMetadata) -> str:
        if metadata.location != self._table_folder(identifier):
            raise UnsupportedError(
                f"not supported: location {metadata.location} for table {'.'.join(identifier)}, because a filesystem catalog "
                f"keeps it at "
                f"{self._table_folder(identifier)}"
            )
        folder = self._metadata_folder(identifier)
        location = f"{folder}/v1{metadata_suffix(metadata)}"
        try:
            self._create(location, _encoded(location, metadata))
        except CommitFailedError:
            raise AlreadyExistsError(f"table {'.'.join(identifier)} already exists in catalog {self.name}") from None
        self._write_hint(folder, 1)
        return location

    def _publish_next(self, identifier: Identifier, current_location: str, current: TableMetadata, metadata: TableMetadata) -> str:
        if metadata.location != current.location:
            raise UnsupportedError(
                f"not supported: moving table {'.'.join(identifier)}, because in a filesystem catalog a table is its folder"
            )
        folder = self._metadata_folder(identifier)
        version = _version_of(current_location) + 1
        location = f"{folder}/v{version}{metadata_suffix(current)}"
        self._create(location, _encoded(location, metadata))
        self._check_not_in_a_hole(folder, location, version, metadata)
        self._write_hint(folder, version)
        return location

    def _create(self, location: str, data: bytes) -> None:
        """Create the version's file once. Raises CommitFailedError where another writer has the name."""
        doubt: CatalogUnavailableError | None = None
        for attempt in range(CREATE_ATTEMPTS):
            if attempt:
                self._sleep(0.1 * 2**attempt)
            try:
                self.io.write(location, data, overwrite=False)
                return
            except CatalogUnavailableError as e:
                doubt = e
            except FileExistsError:
                if doubt is not None and self.io.read(location) == data:
                    return
                raise CommitFailedError(f"{location} already exists: another writer committed this version") from None
        raise CommitStateUnknownError(
            f"creating {location} got no answer: {doubt}; the commit happened if that file has its content"
        ) from doubt

    def _check_not_in_a_hole(self, folder: str, location: str, version: int, metadata: TableMetadata) -> None:
        """A writer that slept for a hundred commits may find its version's name free again, because that file was cleaned away.
        Then versions above exist whose log knows nothing of this one: the commit did not happen."""
        hint = self._hint(folder)
        if (hint is None or hint <= version) and self._version_file(folder, version + 1) is None:
            return
        newest = self._newest(folder)
        if newest is None or newest == location:
            return
        entries = read_metadata(self.io, newest).metadata_log
        mine = next((e for e in entries if e.metadata_file == location), None)
        if mine is not None and mine.timestamp_ms == metadata.last_updated_ms:
            return
        self.io.delete(location)
        raise CommitFailedError(f"version {version} at {location} is long past: the table is at {newest}")

    def _write_hint(self, folder: str, version: int) -> None:
        """Best effort: the commit is done, and reading goes upward from any hint."""
        try:
            if (self._hint(folder) or 0) < version:
                self.io.write(f"{folder}/{HINT}", str(version).encode("ascii"), overwrite=True)
        except (CatalogUnavailableError, OSError) as e:
            log.warning("%s/%s stays behind version %d: %s", folder, HINT, version, e)

    # tables

    def drop_table(self, identifier: Identifier, purge: bool = False) -> None:
        self._location_of(identifier)
        if not purge:
            raise UnsupportedError(
                f"not supported: dropping table {'.'.join(identifier)} without purge, because in a filesystem catalog a table "
                f"is its folder"
            )
        super().drop_table(identifier, purge=True)

    def _forget(self, identifier: Identifier) -> None:
        """Metadata first, so that nobody opens half a table; then whatever else lies in the folder."""
        folder = self._metadata_folder(identifier)
        files = [info.location for info in self.io.list_prefix(self._table_folder(identifier))]
        pointers = [p for p in files if p.endswith(f"/{HINT}") or _VERSION_FILE.fullmatch(p.rpartition("/")[2])]
        self.io.delete_many([f"{folder}/{HINT}"])
        self.io.delete_many(sorted(pointers, reverse=True))
        self.io.delete_many(files)
        _remove_empty_folders(self.io.local_path(self._table_folder(identifier)))

    def rename_table(self, old: Identifier, new: Identifier) -> Table:
        raise UnsupportedError(
            f"not supported: renaming table {'.'.join(old)}, because in a filesystem catalog a table is its folder"
        )

    def register_table(self, identifier: Identifier, metadata_location: str) -> Table:
        raise UnsupportedError(
            f"not supported: registering table {'.'.join(identifier)}, because in a filesystem catalog a table is its folder"
        )

    def _default_location(self, identifier: Identifier) -> str:
        return self._table_folder(identifier)

    # namespaces

    def _namespace_exists(self, namespace: tuple[str, ...]) -> bool:
        folder = "/".join((self._root, *namespace))
        local = self.io.local_path(folder)
        if local is not None:
            return os.path.isdir(local) and not self.table_exists(namespace)
        return next(iter(self.io.list_prefix(folder)), None) is not None and not self.table_exists(namespace)

    def list_tables(self, namespace: tuple[str, ...]) -> list[Identifier]:
        self._check_namespace(namespace)
        return sorted((*namespace, n) for n in self._children(namespace) if self.table_exists((*namespace, n)))

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return sorted((*parent, n) for n in self._children(parent) if not self.table_exists((*parent, n)))

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        if properties:
            raise UnsupportedError(f"not supported: properties of namespace {'.'.join(namespace)}, because a folder has none")
        if self._namespace_exists(namespace):
            raise AlreadyExistsError(f"namespace {'.'.join(namespace)} already exists in catalog {self.name}")
        folder = "/".join((self._root, *namespace))
        local = self.io.local_path(folder)
        if local is not None:
            os.makedirs(local, exist_ok=True)
        else:
            self.io.write(f"{folder}/{NAMESPACE_MARKER}", b"", overwrite=True)

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        self._check_empty(namespace)
        folder = "/".join((self._root, *namespace))
        self.io.delete_many([f"{folder}/{NAMESPACE_MARKER}"])
        _remove_empty_folders(self.io.local_path(folder))

    def namespace_properties(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        self._check_namespace(namespace)
        return {}

    def _children(self, namespace: tuple[str, ...]) -> set[str]:
        folder = "/".join((self._root, *namespace))
        local = self.io.local_path(folder)
        if local is not None:
            return (
                {e.name for e in os.scandir(local) if e.is_dir() and not e.name.startswith(".")} if os.path.isdir(local) else set()
            )
        start = len(folder) + 1
        return {p[start:].split("/", 1)[0] for info in self.io.list_prefix(folder) if "/" in (p := info.location)[start:]}

    def _table_folder(self, identifier: Identifier) -> str:
        return "/".join((self._root, *identifier))

    def _metadata_folder(self, identifier: Identifier) -> str:
        return f"{self._table_folder(identifier)}/metadata"


def _encoded(location: str, metadata: TableMetadata) -> bytes:
    return metadata_to_json(metadata, compress=location.endswith(".gz.metadata.json"))


def _version_of(location: str) -> int:
    m = _VERSION_FILE.fullmatch(location.rpartition("/")[2])
    if m is None:
        raise CommitFailedError(f"{location} is no versioned metadata file")
    return int(m[1])


def _remove_empty_folders(path: str | None) -> None:
    """Folders without files, bottom up; a folder that someone just wrote to stays."""
    if path is None:
        return
    for folder, _, _ in os.walk(path, topdown=False):
        try:
            os.rmdir(folder)
        except OSError:
            log.debug("%s is not empty", folder)
