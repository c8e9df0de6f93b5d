"""Tables as folders: ``<warehouse>/<namespace>/<name>/metadata/v<N>.metadata.json``, as Iceberg's Hadoop catalog lays them out.

A commit creates the next version's file, exclusively: of several writers one wins and the others see that the name is taken. The
current version is the highest one in the folder, found by listing its names: a hint may be stale, and old versions may have been
deleted, or be left over, so nothing that starts from a hint is sure to find the end. ``version-hint.text`` is written for other
readers. A hint above every version means that the current version's file is missing: that is an error, and no commit goes on below
it.

Once the version's file may exist, a failure is an unknown outcome unless the file's content proves otherwise. Because a version's
name can be taken only once, writing the same bytes again after a failure without an answer is safe, and what is then found under
the name is the truth.

The version's file name ends as the *current* version's codec says (Java: as the next one's), so that two writers who disagree
on the codec still meet at one name. Renaming and registering are not offered: here a table is its folder.
"""

from __future__ import annotations

import errno
import logging
import os
import re
import time
from collections.abc import Callable, Mapping

from iceberg_ops.catalog.base import BaseCatalog, moved_while_dropped, now_ms
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.deletion.metadata_files import delete_pointers, discard_refused_metadata
from iceberg_ops.errors import (
    AlreadyExistsError,
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    CorruptTableError,
    IcebergOpsError,
    NoSuchTableError,
    UnsupportedError,
)
from iceberg_ops.io.file_io import FileIO, names_in
from iceberg_ops.io.local import remove_empty_folders
from iceberg_ops.serde.metadata_json import metadata_to_json
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.metadata_files import is_metadata_file, metadata_suffix, read_metadata
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

HINT = "version-hint.text"
NAMESPACE_MARKER = ".namespace"
CREATE_ATTEMPTS = 4
_NOTHING_WRITTEN = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EMFILE,
        errno.ENFILE,
        errno.EACCES,
        errno.EPERM,
        errno.EROFS,
        errno.ENAMETOOLONG,
        errno.ENOTDIR,
    }
)
"""Errors with which a store refuses before it creates anything."""

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

    def table_exists(self, identifier: Identifier) -> bool:
        """Also where its current version is missing."""
        return bool(self._versions(self._metadata_folder(identifier)))

    def _current_location(self, identifier: Identifier) -> str | None:
        return self._newest(self._metadata_folder(identifier))

    def _newest(self, folder: str) -> str | None:
        """The highest version's file. Raises CorruptTableError where the hint knows a higher one, or two files claim to be it."""
        hint = self._hint(folder)
        versions = self._versions(folder)
        newest = max(versions, default=0)
        if versions and hint is not None and hint > newest:
            raise CorruptTableError(
                f"{folder}/{HINT} says version {hint}, but the highest version there is {newest}: the metadata file of version "
                f"{hint} is missing. Restore it; or write {newest} into the hint to go on with version {newest}, without what came "
                f"after it"
            )
        if len(names := versions.get(newest, [])) > 1:
            raise CorruptTableError(
                f"{folder} holds version {newest} twice, as {' and '.join(sorted(names))}: two writers committed it. Move away the "
                f"one whose changes are to be lost"
            )
        return f"{folder}/{versions[newest][0]}" if versions else None

    def _hint(self, folder: str) -> int | None:
        try:
            text = self.io.read(f"{folder}/{HINT}").decode("ascii", "replace").strip()
        except FileNotFoundError:
            return None
        return int(text) if text.isdecimal() else None

    def _versions(self, folder: str) -> dict[int, list[str]]:
        """Version -> names of its files, as a rule one."""
        found: dict[int, list[str]] = {}
        for name in names_in(self.io, folder):
            if m := _VERSION_FILE.fullmatch(name):
                found.setdefault(int(m[1]), []).append(name)
        return found

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
        self._write_hint(folder, 1, of_new_table=True)
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
        self._check_not_in_a_hole(folder, location, version, current, metadata)
        self._write_hint(folder, version)
        return location

    def _create(self, location: str, data: bytes) -> None:
        """Create the version's file once. Raises CommitFailedError where another writer has the name, CatalogUnavailableError where
        the store refused and there is no file, CommitStateUnknownError where that cannot be told."""
        doubt: Exception | None = None
        for attempt in range(CREATE_ATTEMPTS):
            if attempt:
                self._sleep(0.1 * 2**attempt)
            try:
                self.io.write(location, data, overwrite=False)
                return
            except FileExistsError:
                if doubt is None or not self._holds(location, data, doubt):
                    raise CommitFailedError(f"{location} already exists: another writer committed this version") from None
                return
            except (CatalogUnavailableError, OSError) as e:
                if _errno_of(e) in _NOTHING_WRITTEN and doubt is None and not self.io.exists(location):
                    raise CatalogUnavailableError(f"{location} could not be created: {e}") from e
                doubt = e
        assert doubt is not None
        raise _unknown(location, doubt)

    def _holds(self, location: str, data: bytes, doubt: Exception) -> bool:
        try:
            return self.io.read(location) == data
        except (CatalogUnavailableError, OSError) as e:
            raise _unknown(location, doubt) from e

    def _check_not_in_a_hole(
        self, folder: str, location: str, version: int, current: TableMetadata, metadata: TableMetadata
    ) -> None:
        """A writer that slept for a hundred commits may find its version's name free again, because that file was cleaned away.
        Then versions above exist that know nothing of this one: the commit did not happen. Versions above may also have come since
        this one; those know it. Raises CommitFailedError in the first case, CommitStateUnknownError where neither can be shown."""
        try:
            above = {v: names for v, names in self._versions(folder).items() if v > version}
            if not above:
                return
            known = self._knows(f"{folder}/{above[min(above)][0]}", location, current, metadata)
        except (IcebergOpsError, OSError) as e:
            raise _unknown(location, e) from e
        if known is None:
            raise _unknown(
                location, CommitFailedError(f"the table is at version {max(above)}, which does not say what it was built on")
            )
        if not known:
            discard_refused_metadata(self.io, location)
            raise CommitFailedError(f"version {version} at {location} is long past: the table is at version {max(above)}")

    def _knows(self, later_location: str, location: str, current: TableMetadata, metadata: TableMetadata) -> bool | None:
        """Whether the metadata at ``later_location`` was built on ``metadata`` at ``location``, which was built on ``current``;
        None where that cannot be told."""
        later = read_metadata(self.io, later_location)
        name = location.rpartition("/")[2]
        logged = [e.timestamp_ms for e in later.metadata_log if e.metadata_file.rpartition("/")[2] == name]
        if logged and logged[-1] != metadata.last_updated_ms:
            return False
        new = metadata.snapshots_by_id.keys() - current.snapshots_by_id.keys()
        has_new = new <= later.snapshots_by_id.keys()
        return True if has_new and (logged or new) else None

    def _write_hint(self, folder: str, version: int, *, of_new_table: bool = False) -> None:
        """Best effort: the commit is done, and readers of this package list the versions. A hint that a dropped table left is
        replaced."""
        try:
            if of_new_table or (self._hint(folder) or 0) < version:
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
        remove_empty_folders(self.io, self._table_folder(identifier))

    def _files_of(self, table: Table) -> tuple[str, ...]:
        """The table's files and whatever else lies in its folder, but for the pointers, which ``_forget`` deletes, and for folders
        that hold another table."""
        folder = self._table_folder(table.identifier[1:])
        listed = [info.location for info in self.io.list_prefix(folder)]
        own = self._metadata_folder(table.identifier[1:])
        others = {p.rpartition("/")[0].removesuffix("/metadata") for p in listed if is_metadata_file(p)} - {folder, own}
        found = [p for p in (*super()._files_of(table), *listed) if not any(p.startswith(f"{other}/") for other in others)]
        return tuple(dict.fromkeys(p for p in found if p.rpartition("/")[0] != own or not _is_pointer(p)))

    def _forget(self, identifier: Identifier, location: str) -> None:
        """Delete the version files, the current one last, and then the hint: a reader finds the whole table or none."""
        folder = self._metadata_folder(identifier)
        if (newest := self._newest(folder)) != location:
            raise moved_while_dropped(identifier) if newest else _no_table(self.name, identifier)
        versions = self._versions(folder)
        names = [name for version in sorted(versions) for name in versions[version]]
        for failure in delete_pointers(self.io, [f"{folder}/{name}" for name in names]):
            raise CatalogUnavailableError(f"table {'.'.join(identifier)} is half dropped: {failure.location}: {failure.reason}")
        if self._versions(folder):
            raise moved_while_dropped(identifier)
        delete_pointers(self.io, [f"{folder}/{HINT}"])

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
        delete_pointers(self.io, [f"{folder}/{NAMESPACE_MARKER}"])
        remove_empty_folders(self.io, folder)

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


def _is_pointer(location: str) -> bool:
    name = location.rpartition("/")[2]
    return name == HINT or _VERSION_FILE.fullmatch(name) is not None


def _no_table(catalog: str, identifier: Identifier) -> NoSuchTableError:
    return NoSuchTableError(f"catalog {catalog} has no table {'.'.join(identifier)}")


def _errno_of(e: Exception) -> int | None:
    cause = e if isinstance(e, OSError) else e.__cause__
    return cause.errno if isinstance(cause, OSError) else None


def _unknown(location: str, why: Exception) -> CommitStateUnknownError:
    return CommitStateUnknownError(
        f"the outcome of creating {location} is unknown: {why}; it was committed if the table was built on it"
    )
