"""The shared part of this package's catalogs: everything except where the pointer is kept.

A subclass defines how to find the location of a table's current metadata, and how to publish the next metadata. The errors that it
raises follow the contract of ``Catalog.commit_table``: a refusal is raised only if it is certain that nothing was published.
"""

from __future__ import annotations

import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar, cast

from iceberg_ops.catalog.catalog import Catalog, Identifier
from iceberg_ops.catalog.dropping import WITHOUT_PURGE, drop_with_files
from iceberg_ops.catalog.names import can_be_stored, check_new_table_name, forbid_content, shown
from iceberg_ops.catalog.next_metadata import next_metadata
from iceberg_ops.catalog.outcomes import Tried, nothing_published, unknown_once_tried
from iceberg_ops.config.given_text import check_place
from iceberg_ops.deletion.gate import Deletion
from iceberg_ops.deletion.metadata_files import delete_outlived_metadata
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CommitFailedError,
    CorruptTableError,
    NoSuchNamespaceError,
    NoSuchTableError,
)
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import absolute_under, forbid_relative
from iceberg_ops.serde.json.stored_form import check_can_be_stored
from iceberg_ops.spec.metadata_builder import apply_updates, new_table_metadata
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionSpec
from iceberg_ops.spec.requirements import AssertCreate, TableRequirement
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, SortOrder
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import TableUpdate
from iceberg_ops.table.metadata_files import read_metadata
from iceberg_ops.table.own_folders import folders_of
from iceberg_ops.table.reachable import all_files
from iceberg_ops.table.same_table import difference
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

_VERSION = re.compile(r"(?:.*/)?v?(\d+)(?:-[^/]*)?\.(?:gz\.)?metadata\.json(?:\.gz)?")


def now_ms() -> int:
    """Milliseconds since the epoch by this machine's clock."""
    return time.time_ns() // 1_000_000


def attempts(most: int, sleep: Callable[[float], None]) -> Iterator[int]:
    """0 to ``most - 1``: attempts of a call that the store may not answer, with pauses of 0.2 s, 0.4 s and so on between them."""
    for attempt in range(most):
        if attempt:
            sleep(0.1 * 2**attempt)
        yield attempt


def moved_while_dropped(identifier: Identifier) -> CommitFailedError:
    """The error for a commit, or for another table of the same name, that came between reading a table and dropping it."""
    return CommitFailedError(f"table {'.'.join(identifier)} changed while it was being dropped: look at it and drop it again")


def check_same_table(table: Table, current: Table) -> None:
    """Prevents a commit to another table that has taken the name since, whatever the commit itself requires."""
    if (why := difference(table, current)) is not None:
        raise CommitFailedError(f"table {'.'.join(table.identifier[1:])} is now a different table: {why}")


def metadata_version(location: str) -> int:
    """The number in a metadata file's name; -1 if it has none, so that the next version is 0."""
    m = _VERSION.fullmatch(location)
    return int(m[1]) if m else -1


class BaseCatalog(ABC):
    """A catalog whose tables are found by the location of their current metadata file."""

    _WAY_OUT: ClassVar[str] = WITHOUT_PURGE
    """What to do if a table cannot be dropped with its files."""
    _PURGES_FOLDER: ClassVar[bool] = False
    """Whether a purge deletes every file in the table's folder."""

    def __init__(self, name: str, io: FileIO, *, warehouse: str | None = None, clock: Callable[[], int] = now_ms) -> None:
        self._name = name
        self._io = io
        self._warehouse = absolute_under(io, warehouse).rstrip("/") if warehouse else None
        self._clock = clock

    @property
    def name(self) -> str:
        return self._name

    @property
    def io(self) -> FileIO:
        return self._io

    # the methods that a subclass defines

    @abstractmethod
    def _current_location(self, identifier: Identifier) -> str | None:
        """Location of the table's current metadata file; None if there is no such table."""

    @abstractmethod
    def _publish_first(self, identifier: Identifier, metadata: TableMetadata, tried: Tried) -> str:
        """Create a table of ``metadata``; returns its metadata location. Raises AlreadyExistsError."""

    @abstractmethod
    def _publish_next(
        self, identifier: Identifier, current_location: str, current: TableMetadata, metadata: TableMetadata, tried: Tried
    ) -> str:
        """Publish ``metadata`` after ``current``; returns its location. Raises CommitFailedError, CommitStateUnknownError,
        CatalogUnavailableError, TerminalError (certainly not published, and a retry does not help)."""

    @abstractmethod
    def _namespace_exists(self, namespace: tuple[str, ...]) -> bool: ...

    @abstractmethod
    def _forget(self, identifier: Identifier, location: str) -> None:
        """Remove the pointer to ``location``. Raises NoSuchTableError if it is gone, CommitFailedError if it moved."""

    @abstractmethod
    def each_table(self, namespace: tuple[str, ...]) -> Iterator[Identifier]: ...

    @abstractmethod
    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]: ...

    @abstractmethod
    def namespace_properties(self, namespace: tuple[str, ...]) -> Mapping[str, str]: ...

    # tables

    def list_tables(self, namespace: tuple[str, ...]) -> list[Identifier]:
        return sorted(set(self.each_table(namespace)))

    def load_table(self, identifier: Identifier) -> Table:
        location, metadata = self._current(identifier)
        return self._table(identifier, metadata, location)

    def _current(self, identifier: Identifier, known: Table | None = None) -> tuple[str, TableMetadata]:
        """The pointer and its metadata, which is not read again if ``known`` has it. If commits delete old metadata files, the file
        may be gone when it is read: then the pointer has moved, and is read again."""
        location = self._existing_location(identifier)
        while True:
            try:
                return location, self._read(location) if known is None else self._metadata_at(known, location)
            except CorruptTableError:
                newer = self._existing_location(identifier)
                if newer == location:
                    raise
                location = newer

    def table_exists(self, identifier: Identifier) -> bool:
        return can_be_stored(identifier) and self._current_location(identifier) is not None

    def create_table(
        self,
        identifier: Identifier,
        schema: Schema,
        *,
        spec: PartitionSpec = UNPARTITIONED,
        sort_order: SortOrder = UNSORTED,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        staged = self.stage_table(identifier, schema, spec=spec, sort_order=sort_order, location=location, properties=properties)
        return self._created(identifier, staged.metadata)

    def _created(self, identifier: Identifier, metadata: TableMetadata) -> Table:
        what = f"table {'.'.join(identifier)}"
        with nothing_published(f"{what} could not be created"):
            check_can_be_stored(metadata, None, what)
        with unknown_once_tried(f"creating {what}") as tried:
            return self._table(identifier, metadata, self._publish_first(identifier, metadata, tried))

    def stage_table(
        self,
        identifier: Identifier,
        schema: Schema,
        *,
        spec: PartitionSpec = UNPARTITIONED,
        sort_order: SortOrder = UNSORTED,
        location: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> Table:
        """See ``StagesTables``."""
        self._check_new(identifier)
        place = location or self._default_location(identifier)
        check_place(f"the location of table {'.'.join(identifier)}", place)
        metadata = new_table_metadata(
            schema,
            spec,
            sort_order,
            absolute_under(self._io, place).rstrip("/"),
            dict(properties or {}),
            now_ms=self._clock(),
        )
        return self._table(identifier, metadata, "")

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        identifier = table.identifier[1:]
        what = f"table {'.'.join(identifier)}"
        if AssertCreate() in requirements:
            self._check_new(identifier)
            with nothing_published(f"{what} could not be created"):
                created = apply_updates(table.metadata, updates, now_ms=max(self._clock(), table.metadata.last_updated_ms))
                forbid_relative(self._io, created.location, f"{what}: location")
            return self._created(identifier, created)
        with nothing_published(f"{what} could not be read"):
            location, current = self._current(identifier, table)
        check_same_table(table, self._table(identifier, current, location))
        with nothing_published(f"{what} could not be changed"):
            updated = next_metadata(current, requirements, updates, now_ms=self._clock(), metadata_location=location)
            if updated is current:
                return self._table(identifier, current, location)
            if updated.location != current.location:
                forbid_relative(self._io, updated.location, f"{what}: location")
            check_can_be_stored(updated, current, what)
        with unknown_once_tried(f"a commit to {what}") as tried:
            published = self._table(identifier, updated, self._publish_next(identifier, location, current, updated, tried))
            try:
                delete_outlived_metadata(published, current, location)
            except Exception as e:  # noqa: BLE001 - the commit is done, whatever becomes of old metadata files
                log.warning("old metadata files of %s are left for remove_orphan_files: %s", published.name, e)
            return published

    def drop_table(self, identifier: Identifier, purge: bool = False) -> Deletion:
        if not purge:
            location = self._existing_location(identifier)
            self._forget(identifier, location)
            return Deletion(undone_by=location)
        location, metadata = self._current(identifier)
        table = self._table(identifier, metadata, location)
        return drop_with_files(
            cast("Catalog", self),
            table,
            forget=lambda: self._forget(identifier, location),
            folders=self._own_folders(table),
            files_of=lambda: self._files_to_purge(table),
            shares_folder=self._PURGES_FOLDER,
            way_out=self._WAY_OUT,
        )

    # for subclasses

    def _read(self, location: str) -> TableMetadata:
        """Raises CorruptTableError if the file is missing or cannot be read."""
        return read_metadata(self._io, location)

    def _metadata_at(self, table: Table, location: str) -> TableMetadata:
        """The metadata at ``location``; taken from ``table`` if it was read from there. A catalog that uses a location more than
        once must read it again."""
        return table.metadata if location == table.metadata_location else self._read(location)

    def _files_to_purge(self, table: Table) -> tuple[str, ...]:
        """The files that a purge of the table deletes. Raises CorruptTableError if a manifest cannot be read."""
        return all_files(table)

    def _own_folders(self, table: Table) -> list[str]:
        """The folders in which a purge of the table deletes files; the first is the table's own location."""
        return folders_of(table)

    def _existing_location(self, identifier: Identifier) -> str:
        location = self._current_location(identifier) if can_be_stored(identifier) else None
        if location is None:
            raise NoSuchTableError(f"catalog {self._name} has no table {shown(identifier)}")
        return location

    def _table(self, identifier: Identifier, metadata: TableMetadata, location: str) -> Table:
        return Table((self._name, *identifier), metadata, location, self._io)

    def _check_new(self, identifier: Identifier) -> None:
        check_new_table_name(identifier)
        self._check_namespace(identifier[:-1])
        if self.table_exists(identifier):
            raise AlreadyExistsError(f"table {'.'.join(identifier)} already exists in catalog {self._name}")

    def _check_namespace(self, namespace: tuple[str, ...]) -> None:
        if not can_be_stored(namespace) or not self._namespace_exists(namespace):
            raise NoSuchNamespaceError(f"catalog {self._name} has no namespace {shown(namespace)}")

    def _check_empty(self, namespace: tuple[str, ...]) -> None:
        self._check_namespace(namespace)
        forbid_content(namespace, self.each_table(namespace), lambda: self.list_namespaces(namespace))

    def _default_location(self, identifier: Identifier) -> str:
        if base := self.namespace_properties(identifier[:-1]).get("location"):
            return f"{base.rstrip('/')}/{identifier[-1]}"
        if self._warehouse is None:
            raise BadInputError(f"catalog {self._name} has no warehouse: give table {'.'.join(identifier)} a location")
        return "/".join((self._warehouse, *identifier))
