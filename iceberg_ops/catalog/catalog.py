"""The protocol of every catalog: find tables and swap their metadata, atomically.

A commit is a list of requirements (conditions that must still hold for the table) and a list of updates. A catalog checks the first
and applies the second to the metadata that is current *at that moment*, as the REST specification defines it. So a catalog never
needs to know the operation, and an operation never needs to know how the pointer is kept.

The committer relies on this contract of ``commit_table``:

- ``CommitFailedError``: a requirement did not hold or another commit was faster. Nothing was changed.
- ``CatalogUnavailableError``: the catalog could not be reached. Nothing was changed.
- ``TerminalError``: the store does not write or read a metadata file, for a lasting reason. Nothing was changed.
- ``CommitStateUnknownError``: the swap may have happened. Nothing may be cleaned up. An interrupt or any other exception after the
  swap was tried also becomes this error (a Ctrl-C becomes a ``CommitInterruptedError``); a bare exception comes from before the
  swap.

``create_table``, ``register_table`` and ``rename_table`` have the same contract for their change.

An identifier is ``(*namespace, name)``; ``Table.identifier`` starts with the catalog's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

from iceberg_ops.deletion.gate import Deletion
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionSpec
from iceberg_ops.spec.requirements import TableRequirement
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, SortOrder
from iceberg_ops.spec.updates import TableUpdate
from iceberg_ops.table.table import Table

Identifier = tuple[str, ...]


@runtime_checkable
class Catalog(Protocol):
    """A catalog with a name. Implementations are safe to use from several threads and from several processes."""

    @property
    def name(self) -> str: ...

    @property
    def io(self) -> FileIO: ...

    def load_table(self, identifier: Identifier) -> Table:
        """The current table. Raises NoSuchTableError."""
        ...

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
        """Create a table (field ids are assigned again). Raises AlreadyExistsError, NoSuchNamespaceError, SchemaError."""
        ...

    def commit_table(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        """Check requirements against the current metadata, apply updates to it and swap. See the module docstring."""
        ...

    def drop_table(self, identifier: Identifier, purge: bool = False) -> Deletion:
        """Remove the table from the catalog; ``purge`` deletes its files as well. Returns which files were deleted, or by which
        metadata file the table comes back. Raises NoSuchTableError, and ValidationError for a purge if gc.enabled is false."""
        ...

    def rename_table(self, old: Identifier, new: Identifier) -> Table:
        """Raises NoSuchTableError, AlreadyExistsError, NoSuchNamespaceError."""
        ...

    def register_table(self, identifier: Identifier, metadata_location: str) -> Table:
        """Add an existing metadata file as a table of this catalog. Raises AlreadyExistsError, NoSuchNamespaceError,
        UnsupportedError if the catalog has the same table, with the same files, under another name, and CatalogUnavailableError
        while its files are being deleted."""
        ...

    def table_exists(self, identifier: Identifier) -> bool: ...

    def each_table(self, namespace: tuple[str, ...]) -> Iterator[Identifier]:
        """Identifiers of the tables directly in a namespace, in the catalog's own order. The first ones come before later pages are
        asked for; a table that is renamed in the meantime may occur twice or not at all. Raises NoSuchNamespaceError with the
        first."""
        ...

    def list_tables(self, namespace: tuple[str, ...]) -> list[Identifier]:
        """All of ``each_table``, sorted, each once. Raises NoSuchNamespaceError."""
        ...

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        """Namespaces directly below ``parent``, sorted."""
        ...

    def create_namespace(self, namespace: tuple[str, ...], properties: Mapping[str, str] | None = None) -> None:
        """Raises AlreadyExistsError."""
        ...

    def drop_namespace(self, namespace: tuple[str, ...]) -> None:
        """Raises NoSuchNamespaceError, and BadInputError while it holds tables or namespaces."""
        ...

    def namespace_properties(self, namespace: tuple[str, ...]) -> Mapping[str, str]:
        """Raises NoSuchNamespaceError."""
        ...


@runtime_checkable
class StagesTables(Protocol):
    """A catalog that can create a table together with its first content (REST: stage-create)."""

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
        """A table that does not exist yet: ``commit_table`` creates it, with the requirement AssertCreate and the updates that fill
        it.

        ``metadata_location`` is empty. Raises AlreadyExistsError, NoSuchNamespaceError, SchemaError.
        """
        ...


@runtime_checkable
class KeepsTablesInFolders(Protocol):
    """A catalog in which a table is its folder: the folder may also hold files of tables that the catalog does not list."""

    def dropped_tables(self, identifier: Identifier) -> frozenset[str]:
        """Keys of the uuids (``uuid_key``) of dropped tables of that name: their metadata files may still be created by a late
        writer, or may be left over."""
        ...

    def all_tables(self) -> list[Identifier]:
        """Every table in the catalog's folders, also those that no namespace lists: right below the warehouse (also the
        warehouse itself, whose name is empty), in the folder of another table, under a name that begins with a dot. Another engine
        may have created them; this package refuses to. Raises UnsupportedError if a folder cannot be read."""
        ...

    def forbid_copy(self, table: Table) -> None:
        """Raise UnsupportedError if the table's folder is a copy and its metadata still names the original location: new files
        would be written among those of the original, and the table's current files belong to the original."""
        ...
