"""What every catalog can do: find tables and swap their metadata, atomically.

A commit is a list of requirements (what must still be true of the table) and a list of updates; a catalog checks the first and
applies the second to the metadata that is current *at that moment*, as the REST specification defines it. So a catalog never
needs to know what an operation was, and an operation never needs to know how the pointer is kept.

What ``commit_table`` may raise is the contract the committer is built on:

- ``CommitFailedError``: a requirement did not hold or another commit was faster. Nothing was changed.
- ``CatalogUnavailableError``: the catalog could not be asked. Nothing was changed.
- ``TerminalError``: the store does not take or give a metadata file, for a reason that does not pass. Nothing was changed.
- ``CommitStateUnknownError``: the swap may have happened. Nothing may be cleaned up. So it is once an interrupt, or any other
  exception, comes after the swap was tried (of a Ctrl-C a ``CommitInterruptedError``); a bare one comes from before.

``create_table``, ``register_table`` and ``rename_table`` say the same of their change.

An identifier is ``(*namespace, name)``; ``Table.identifier`` has the catalog's name before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """A catalog by name. Implementations are safe to use from several threads and from several processes."""

    @property
    def name(self) -> str: ...

    @property
    def io(self) -> FileIO: ...

    def load_table(self, identifier: Identifier) -> Table:
        """The table as it is now. Raises NoSuchTableError."""
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
        """Forget the table; with ``purge`` its files go too: what became of them. Raises NoSuchTableError, and ValidationError for
        a purge where gc.enabled is false."""
        ...

    def rename_table(self, old: Identifier, new: Identifier) -> Table:
        """Raises NoSuchTableError, AlreadyExistsError, NoSuchNamespaceError."""
        ...

    def register_table(self, identifier: Identifier, metadata_location: str) -> Table:
        """Take an existing metadata file as a table of this catalog. Raises AlreadyExistsError, NoSuchNamespaceError,
        UnsupportedError where the catalog has the same table, with the same files, under another name, and CatalogUnavailableError
        while its files are being deleted."""
        ...

    def table_exists(self, identifier: Identifier) -> bool: ...

    def list_tables(self, namespace: tuple[str, ...]) -> list[Identifier]:
        """Identifiers of the tables directly in a namespace, sorted. Raises NoSuchNamespaceError."""
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
    """A catalog in which a table can come to be with content in it (REST: stage-create)."""

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
        """A table that nobody sees: ``commit_table`` creates it, with the requirement AssertCreate and the updates that fill it.

        ``metadata_location`` is empty. Raises AlreadyExistsError, NoSuchNamespaceError, SchemaError.
        """
        ...


@runtime_checkable
class KeepsTablesInFolders(Protocol):
    """A catalog in which a table is its folder: files of tables that it does not list may lie there."""

    def dropped_tables(self, identifier: Identifier) -> frozenset[str]:
        """Keys of the uuids (``uuid_key``) of the tables of that name that were dropped: their metadata files may still come, or be
        left."""
        ...

    def all_tables(self) -> list[Identifier]:
        """Every table that lies in the catalog's folders, also those that no namespace lists: right below the warehouse (also the
        warehouse itself, whose name is empty), in the folder of another table, under a name that begins with a dot. Another engine
        may have made them; this package refuses to. Raises UnsupportedError where a folder cannot be looked into."""
        ...

    def forbid_copy(self, table: Table) -> None:
        """Raise UnsupportedError where the table's folder was copied, with its metadata, from where its location is: files that are
        written for it would lie among those of the original, and its own are the original's."""
        ...
