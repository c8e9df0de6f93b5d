"""Tables as folders: ``<warehouse>/<namespace>/<name>/metadata/v<N>.metadata.json``, the layout of Iceberg's Hadoop catalog.

A commit creates the next version's file, exclusively: one of several writers wins, and the others see that the name is taken. The
current version is the highest one in the folder, found by listing its names (``versions``): a hint may be stale, and old versions
may be deleted or left over, so a search that starts from a hint may miss the current version. ``version-hint.text`` is written for
other readers. A hint above every version means that the current version's file is missing: that is an error, and no commit builds
on a lower version.

After a writer has created its version, it checks whether the version is valid (``placed_version``), and deletes it if not: the
table was dropped in the meantime, or the clean-up of old versions had freed the name. A drop marks the table's uuid before it
deletes anything, so that no late version restores the table. ``versions`` says who may delete a dropped table's versions.

Once the version's file may exist, a failure is an unknown outcome unless the file's content proves otherwise (``file_creation``).

The *current* version's codec decides the suffix of the next version's file (Java: the next one's codec), so that two writers that
disagree on the codec still use the same name. Renaming and registering are not supported: here a table is its folder.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import NoReturn

from iceberg_ops.catalog.base import attempts, now_ms
from iceberg_ops.catalog.catalog import Identifier
from iceberg_ops.catalog.file_creation import CREATE_ATTEMPTS, FileCreation, unknown_creation
from iceberg_ops.catalog.folder_namespaces import FolderNamespaces, check_no_pointers
from iceberg_ops.catalog.names import are_folders, shown
from iceberg_ops.catalog.outcomes import Tried, dropped_in_part, incomplete_if_interrupted, nothing_published
from iceberg_ops.catalog.placed_version import PlacedVersion
from iceberg_ops.catalog.staged_content import lost_content, running_drop
from iceberg_ops.catalog.table_drop import TableDrop
from iceberg_ops.catalog.versions import HINT, TableVersions, is_pointer, parse_version
from iceberg_ops.catalog.warehouse_walk import folders_with_metadata
from iceberg_ops.deletion.gate import Deletion
from iceberg_ops.deletion.leases import without_files_of_running_jobs
from iceberg_ops.deletion.metadata_files import discard_refused_metadata
from iceberg_ops.errors import (
    AlreadyExistsError,
    CatalogUnavailableError,
    CommitFailedError,
    CorruptTableError,
    NoSuchTableError,
    UnsupportedError,
    ValidationError,
)
from iceberg_ops.io.file_io import FileIO, prove_exclusive_creation
from iceberg_ops.io.local import remove_empty_folders
from iceberg_ops.io.locations import folder_identity, identity_under, is_in_hdfs, is_within, location_identity, on_one_file_system
from iceberg_ops.serde.json.metadata_json import metadata_from_json, metadata_head_from_json, metadata_to_json
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.table_uuid import same_uuid
from iceberg_ops.table.metadata_files import is_metadata_file, metadata_suffix
from iceberg_ops.table.own_folders import folders_of
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

OWN_FOLDER = ".iceberg-ops"
"""The folder below the warehouse for this catalog's own notes."""
_BY_JAVA = "iceberg-version"
"""What Iceberg Java writes into the summary of its snapshots."""


class FileSystemCatalog(FolderNamespaces):
    """``warehouse`` is the root folder. Safe between any number of processes: a store that does not create files exclusively is
    refused at the first commit."""

    _WAY_OUT = "Drop that one first: of a copy, only the files in its own folder are deleted"
    _PURGES_FOLDER = True

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
        self._sleep = sleep
        self._creation = FileCreation(io, sleep)
        self._warned: set[Identifier] = set()

    # versions

    def table_exists(self, identifier: Identifier) -> bool:
        """Also true if the current version is missing."""
        return are_folders(identifier) and bool(self._versions(identifier).living())

    def _current_location(self, identifier: Identifier) -> str | None:
        return self._versions(identifier).newest() if are_folders(identifier) else None

    def _current(self, identifier: Identifier, known: Table | None = None) -> tuple[str, TableMetadata]:
        """A table that looks damaged may be under creation, so it is read again for a while. A version is empty for a moment if the
        store cannot create a file with its content in one step (a local disk without hard links and exclusive renames). A table
        that was created while another one of the name was dropped has a version below that table's hint until it moves above it."""
        for attempt in attempts(CREATE_ATTEMPTS, self._sleep):
            try:
                return super()._current(identifier, known)
            except CorruptTableError:
                if attempt + 1 == CREATE_ATTEMPTS or not self._may_be_in_the_making(identifier):
                    self._check_not_empty(identifier)
                    raise
        raise AssertionError

    def _existing_location(self, identifier: Identifier) -> str:
        """If only versions of a dropped table exist, the error says so: they may have been restored from a backup."""
        try:
            return super()._existing_location(identifier)
        except NoSuchTableError as e:
            if why := self._dropped_before(identifier):
                raise NoSuchTableError(f"{e}{why}") from None
            raise

    def _dropped_before(self, identifier: Identifier) -> str:
        try:
            versions = self._versions(identifier)
            left = versions.dropped_owners() if are_folders(identifier) and versions.listed() else ()
        except (CorruptTableError, CatalogUnavailableError, OSError) as e:
            log.warning("%s: it is not known which table its version files belong to: %s", self._table_folder(identifier), e)
            return ""
        if not left:
            return ""
        marks = ", ".join(versions.mark_place(uuid) for uuid in left)
        return (
            f". In {versions.folder} lie version files of a table that was dropped. If its folder was restored from a backup, and "
            f"no job works on it, delete the mark of the drop, {marks}: then the table is back"
        )

    def _may_be_in_the_making(self, identifier: Identifier) -> bool:
        versions = self._versions(identifier)
        newest = max(living := versions.living(), default=0)
        return newest <= versions.last_of_dropped() or self._is_empty(versions.folder, living[newest])

    def _check_not_empty(self, identifier: Identifier) -> None:
        """A version that stays empty has its own error: it cannot be determined whether it was committed, because a power failure
        also empties files."""
        folder, living = self._versions(identifier).folder, self._versions(identifier).living()
        version = max(living, default=0)
        if living and self._is_empty(folder, living[version]):
            raise CorruptTableError(
                f"{folder}/{living[version][0]} is empty: its writer died before it wrote version {version}, or its content was "
                "lost in a power failure. When no job works on the table, restore the file; or move it away to continue with the "
                f"previous version (if {HINT} says {version}, version {version} was committed, and its changes are then lost)"
            ) from None

    def _is_empty(self, folder: str, names: Sequence[str]) -> bool:
        try:
            return len(names) == 1 and self.io.length(f"{folder}/{names[0]}") == 0
        except FileNotFoundError:
            return False

    def _metadata_at(self, table: Table, location: str) -> TableMetadata:
        """A location may be used again: another engine dropped and created a table, or a copied folder replaced the original. So
        the file is read again. It counts as unchanged if its uuid and time are the known ones."""
        try:
            data = self.io.read(location)
        except FileNotFoundError:
            raise CommitFailedError(
                f"{location} no longer exists: the table was dropped, or its old versions were deleted, a moment ago"
            ) from None
        known, head = table.metadata, metadata_head_from_json(data, location)
        is_known = location == table.metadata_location and head.last_updated_ms == known.last_updated_ms
        if is_known and known.table_uuid and same_uuid(head.table_uuid, known.table_uuid):
            return known
        return metadata_from_json(data, location)

    def _versions(self, identifier: Identifier) -> TableVersions:
        marks = "/".join((self._root, OWN_FOLDER, *identifier, ".dropped"))
        return TableVersions(self.io, f"{self._table_folder(identifier)}/metadata", marks)

    def _publish_first(self, identifier: Identifier, metadata: TableMetadata, tried: Tried) -> str:
        if metadata.location != self._table_folder(identifier):
            raise UnsupportedError(
                f"not supported: location {metadata.location} for table {'.'.join(identifier)}, because a filesystem catalog "
                f"keeps it at "
                f"{self._table_folder(identifier)}"
            )
        versions = self._versions(identifier)
        prove_exclusive_creation(self.io, self._root)
        self._check_content(self._table(identifier, metadata, ""))
        for _ in range(CREATE_ATTEMPTS):
            first = versions.first_of_new_table()
            location = f"{versions.folder}/v{first}{metadata_suffix(metadata)}"
            tried(location)
            if self._is_first(identifier, versions, location, first, metadata):
                self._withdraw_without_content(PlacedVersion(versions, location, first, metadata, metadata, location), identifier)
                self._write_hint(versions, first, of_new_table=True)
                return location
        raise CommitFailedError(f"tables of the name {'.'.join(identifier)} were dropped repeatedly while this one was created")

    @staticmethod
    def _check_content(created: Table) -> None:
        """Prevents a table whose content is deleted by a drop of another table of its name. Raises ValidationError if the content
        is gone, CatalogUnavailableError while the drop is running."""
        if not created.metadata.snapshots:
            return
        with nothing_published(f"table {created.name}: it is not known whether its content exists"):
            if (why := running_drop(created)) is not None:
                raise CatalogUnavailableError(f"table {created.name} was not created: {why}: try again when that has ended")
            if (why := lost_content(created)) is not None:
                raise ValidationError(
                    f"table {created.name} was not created: {why}, by the drop of another table of that name, or by hand. "
                    f"Write its content again"
                )

    def _withdraw_without_content(self, placed: PlacedVersion, identifier: Identifier) -> None:
        """The same check after the first version exists (see ``staged_content``): if it fails, the version is deleted again. Raises
        CommitFailedError, CommitStateUnknownError."""
        created = self._table(identifier, placed.metadata, placed.location)
        if not created.metadata.snapshots:
            return
        try:
            why = running_drop(created) or lost_content(created)
        except Exception as e:  # the version was created
            raise unknown_creation(placed.location, e) from e
        if why is not None:
            self._withdraw(placed, _encoded(placed.location, placed.metadata), f"table {created.name} was not created: {why}")

    def _is_first(
        self, identifier: Identifier, versions: TableVersions, location: str, first: int, metadata: TableMetadata
    ) -> bool:
        """Create the first version; False if another table of the name was dropped in the meantime: its mark reserves the number
        for its late writers, so the caller must take another number. Raises AlreadyExistsError."""
        taken = AlreadyExistsError(f"table {'.'.join(identifier)} already exists in catalog {self.name}")
        data = _encoded(location, metadata)
        try:
            self._creation.create(location, data)
        except CommitFailedError:
            if versions.is_dead(location):
                return False
            raise taken from None
        try:
            if versions.has_other_than(metadata.table_uuid):
                # Another table was created at the same moment: its name has another codec's suffix, or is above leftovers.
                discard_refused_metadata(self.io, location)
                raise taken
            if versions.first_of_new_table() <= first:
                return True
            placed = PlacedVersion(versions, location, first, metadata, metadata, location)
            if not placed.is_built_upon():
                discard_refused_metadata(self.io, location)
                if not placed.is_built_upon():
                    return False
                self._creation.create(location, data)
        except AlreadyExistsError:
            raise
        except Exception as e:  # the version was created
            raise unknown_creation(location, e) from e
        return True

    def _publish_next(
        self, identifier: Identifier, current_location: str, current: TableMetadata, metadata: TableMetadata, tried: Tried
    ) -> str:
        if metadata.location != current.location:
            raise UnsupportedError(
                f"not supported: moving table {'.'.join(identifier)}, because in a filesystem catalog a table is its folder"
            )
        self._forbid_copy(identifier, current.location)
        prove_exclusive_creation(self.io, self._root)
        self._warn_beside_java(identifier, current)
        metadata_suffix(metadata)  # Refuses a codec for which later versions have no name.
        versions = self._versions(identifier)
        version = _require_version(current_location) + 1
        location = f"{versions.folder}/v{version}{metadata_suffix(current)}"
        data = _encoded(location, metadata)
        tried(location)
        try:
            self._creation.create(location, data)
        except CommitFailedError:
            self._check_no_leftover(versions, location)
            raise
        placed = PlacedVersion(versions, location, version, current, metadata, current_location)
        try:
            refusal = placed.refusal()
        except Exception as e:  # the version was created
            raise unknown_creation(location, e) from e
        if refusal is not None:
            self._withdraw(placed, data, refusal)
        self._write_hint(versions, version)
        return location

    def _warn_beside_java(self, identifier: Identifier, current: TableMetadata) -> None:
        """Java's Hadoop catalog ends a commit with a rename, which replaces an existing file, except in HDFS. Logged once for each
        table."""
        by = current.current_snapshot.summary.get(_BY_JAVA) if current.current_snapshot else None
        if by is None or identifier in self._warned or is_in_hdfs(self.io, self._root):
            return
        self._warned.add(identifier)
        log.warning(
            "table %s: its last snapshot was committed by Iceberg Java (%s). In %s, Java's Hadoop catalog may overwrite commits "
            "that others make at the same time: let only one of the two write (docs/catalogs.md, Filesystem)",
            ".".join(identifier), by, self._root,
        )  # fmt: skip

    def _check_no_leftover(self, versions: TableVersions, location: str) -> None:
        """Prevents endless waiting for a version of a dropped table whose writer died before it deleted it. The version must not be
        deleted here: its writer may have deleted it just now, and a third writer may have committed under the name."""
        for attempt in range(CREATE_ATTEMPTS):
            if not versions.is_dead(location):
                return
            self._sleep(0.1 * 2**attempt)
        if versions.is_dead(location):
            raise CorruptTableError(
                f"{location} is a version of a table of this name that was dropped, and its writer has not removed it: nothing "
                "can be committed to the table that has the name now. Move the file away when no job works on the table"
            )

    def _withdraw(self, placed: PlacedVersion, data: bytes, refusal: str) -> NoReturn:
        """Delete the version again, because its commit did not happen, unless another version already builds on it. Raises
        CommitFailedError; CommitStateUnknownError if this cannot be determined."""
        location, why, stays = placed.location, CommitFailedError(refusal), False
        try:
            if placed.is_left_to_the_drop():
                log.warning("%s is left where it is: %s", location, refusal)
            else:
                if self.io.read(location) == data:
                    discard_refused_metadata(self.io, location)
                stays = self.io.exists(location) or placed.is_built_upon()
        except FileNotFoundError:
            pass
        except Exception as e:  # the version was created
            raise unknown_creation(location, e) from e
        raise unknown_creation(location, why) if stays else why

    def _write_hint(self, versions: TableVersions, version: int, *, of_new_table: bool = False) -> None:
        """Best effort: the commit is done, and readers of this package list the versions. It replaces the hint of a dropped table.
        If another engine dropped and created the table again right before the write, the new hint is corrected."""
        location = f"{versions.folder}/{HINT}"
        try:
            if of_new_table or (versions.hint() or 0) < version:
                self.io.write(location, str(version).encode("ascii"), overwrite=True)
                newest = max(versions.listed(), default=version)
                if newest < version:
                    self.io.write(location, str(newest).encode("ascii"), overwrite=True)
        except Exception as e:  # noqa: BLE001 - the commit is done
            log.warning("%s/%s stays behind version %d: %s", versions.folder, HINT, version, e)

    # tables

    def drop_table(self, identifier: Identifier, purge: bool = False) -> Deletion:
        self._existing_location(identifier)
        if not purge:
            raise UnsupportedError(
                f"not supported: dropping table {'.'.join(identifier)} without purge, because in a filesystem catalog a table "
                f"is its folder"
            )
        self._forbid_second_name(identifier)
        dropped = super().drop_table(identifier, purge=True)
        with incomplete_if_interrupted(dropped_in_part((self.name, *identifier))):
            try:
                remove_empty_folders(self.io, self._table_folder(identifier))
            except Exception as e:  # noqa: BLE001 - the table is dropped, whatever becomes of its folders
                log.warning("table %s was dropped, but not all of its folders: %s", ".".join(identifier), e)
        return dropped

    def _files_to_purge(self, table: Table) -> tuple[str, ...]:
        """The table's files and all other files in its folder. Excluded are the pointers, which ``_forget`` deletes, uncommitted
        files of running jobs (a table of this name may be under creation), and folders that hold another table. If another table
        lies in the metadata folder, only the files directly in that folder belong to this table. Files are compared by
        identity, whatever their spelling, and each is returned once."""
        folder = self._table_folder(table.identifier[1:])
        if is_copy := self._is_copy(table.identifier[1:], table.location):
            log.warning("table %s is a copy of the one at %s: only %s is purged", table.name, table.location, folder)
        recorded = () if is_copy else super()._files_to_purge(table)
        listed = without_files_of_running_jobs(table, recorded, [info.location for info in self.io.list_prefix(folder)])
        identity = identity_under(self.io)
        own_metadata = folder_identity(identity, f"{folder}/metadata")
        holders = {_parent_folder(identity(p)) for p in listed if is_metadata_file(p)} - {
            folder_identity(identity, folder),
            own_metadata,
        }
        others = {holder.removesuffix("/metadata") for holder in holders}
        by_identity: dict[str, str] = {}
        for p in (*recorded, *listed):
            by_identity.setdefault(identity(p), p)
        directly = [p for name, p in by_identity.items() if _parent_folder(name) == own_metadata and not is_pointer(name)]
        elsewhere = [
            p
            for name, p in by_identity.items()
            if _parent_folder(name) != own_metadata and not any(is_within(name, other) for other in others)
        ]
        return (*elsewhere, *directly)

    def _own_folders(self, table: Table) -> list[str]:
        """If the table's location is not its folder, the folder is a copy, and the metadata names files of the original."""
        identifier = table.identifier[1:]
        return [self._table_folder(identifier)] if self._is_copy(identifier, table.location) else folders_of(table)

    def _forbid_second_name(self, identifier: Identifier) -> None:
        """Prevents that a drop deletes a table through a symbolic link when the table has its own name: the name of its folder, or,
        outside the warehouse, the name by which its location is recorded."""
        identity = identity_under(self.io)
        folder, root = (folder_identity(identity, f) for f in (self._table_folder(identifier), self._root))
        own_path = f"{root}/{'/'.join(identifier)}"
        if folder == own_path:
            return
        if not is_within(folder, root):
            recorded = self.load_table(identifier).location
            for location in (recorded, location_identity(recorded)):
                above, _, name = location.rpartition(f"/{'/'.join(identifier)}")
                if above and not name and folder_identity(identity, above) == root:
                    return
        raise UnsupportedError(
            f"not supported: dropping table {'.'.join(identifier)}, because the name is a symbolic link: the table is in "
            f"{folder}, under another name. Drop the table by that name, or remove the symbolic link"
        )

    def _is_copy(self, identifier: Identifier, location: str) -> bool:
        identity, folder = identity_under(self.io), self._table_folder(identifier)
        has_its_path = folder_identity(identity, location) == folder_identity(identity, folder)
        return not (has_its_path and on_one_file_system(self.io, location, folder))

    def _forbid_copy(self, identifier: Identifier, location: str) -> None:
        if self._is_copy(identifier, location):
            raise UnsupportedError(
                f"not supported: changing table {'.'.join(identifier)}, because it was copied: it lies in "
                f"{self._table_folder(identifier)}, and its metadata says that its files lie in {location}; they belong to the "
                f"table there. Change that one, or make a new table and write the rows into it. If both are one HDFS, name the "
                f"warehouse as the table's metadata does, or give Hadoop's settings that show it (HADOOP_CONF_DIR)"
            )

    def _forget(self, identifier: Identifier, location: str) -> None:
        TableDrop(self.name, identifier, self._versions(identifier), self._creation).forget(location)

    def rename_table(self, old: Identifier, new: Identifier) -> Table:
        raise UnsupportedError(
            f"not supported: renaming table {'.'.join(old)}, because in a filesystem catalog a table is its folder"
        )

    def register_table(self, identifier: Identifier, metadata_location: str) -> Table:
        raise UnsupportedError(
            f"not supported: registering table {'.'.join(identifier)}, because in a filesystem catalog a table is its folder"
        )

    def _check_new(self, identifier: Identifier) -> None:
        """Also checks that no table would lie in the folder of another one: jobs on the outer table could not identify its
        files."""
        super()._check_new(identifier)
        check_no_pointers(identifier)
        outer = next((name for n in range(1, len(identifier) - 1) if self.table_exists(name := identifier[:n])), None)
        folder = self._table_folder(identifier)
        inside = (info.location for info in self.io.list_prefix(folder) if is_metadata_file(info.location))
        inner = next((p for p in inside if p.rpartition("/")[0] != f"{folder}/metadata"), None)
        if outer is not None or inner is not None:
            what = (
                f"its folder is inside the folder of table {'.'.join(outer)}"
                if outer
                else f"its folder holds another table, at {inner}"
            )
            raise UnsupportedError(
                f"not supported: table {'.'.join(identifier)}, because {what}, and in a filesystem catalog a table is its folder. "
                f"Give it another name"
            )

    def dropped_tables(self, identifier: Identifier) -> frozenset[str]:
        """See ``KeepsTablesInFolders``."""
        return self._versions(identifier).dropped()

    def forbid_copy(self, table: Table) -> None:
        """See ``KeepsTablesInFolders``."""
        self._forbid_copy(table.identifier[1:], table.location)

    def all_tables(self) -> list[Identifier]:
        """See ``KeepsTablesInFolders``. Lists every folder of the warehouse."""
        return [name for name in folders_with_metadata(self.io, self._root) if self._is_table(name)]

    def _is_table(self, names: Identifier) -> bool:
        if not are_folders(names) and self._versions(names).listed():
            raise UnsupportedError(
                "not supported: a job that must know every table of the warehouse, because the name of folder "
                f"{shown((self._table_folder(names),))} is not UTF-8, and it contains a table. Rename the folder, or move it out "
                "of the warehouse"
            )
        return self.table_exists(names)

    def _default_location(self, identifier: Identifier) -> str:
        return self._table_folder(identifier)


def _parent_folder(location: str) -> str:
    return location.rpartition("/")[0]


def _encoded(location: str, metadata: TableMetadata) -> bytes:
    return metadata_to_json(metadata, compress=location.endswith(".gz.metadata.json"))


def _require_version(location: str) -> int:
    if (version := parse_version(location)) is None:
        raise CommitFailedError(f"{location} is not a versioned metadata file")
    return version
