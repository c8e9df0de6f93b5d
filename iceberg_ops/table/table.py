"""One table at one moment: its metadata, the location of the metadata, and the storage behind it.

A Table has no catalog and never changes; a refresh is a new Table from the catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.spec.manifests import ManifestFile
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import StructType


class LastLists:
    """The last two manifest lists that were read, by location: a snapshot's and its parent's. A list never changes."""

    def __init__(self) -> None:
        self._kept: tuple[tuple[str, tuple[ManifestFile, ...]], ...] = ()

    def of(self, location: str, read: Callable[[], list[ManifestFile]]) -> list[ManifestFile]:
        """The manifests of the list at ``location``; ``read`` reads it, if it is not kept."""
        kept = next((manifests for known, manifests in self._kept if known == location), None)
        if kept is None:
            kept = tuple(read())
            self._kept = ((location, kept), *self._kept[:1])
        return list(kept)


@dataclass(frozen=True, slots=True)
class Table:
    """``identifier`` is (catalog, *namespace, name); ``metadata_location`` the metadata file that ``metadata`` was read from.
    ``lists`` caches manifest lists for a commit, which would otherwise read the same list twice in a row."""

    identifier: tuple[str, ...]
    metadata: TableMetadata
    metadata_location: str
    io: FileIO = field(repr=False, compare=False)
    lists: LastLists | None = field(default=None, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The identifier with dots."""
        return ".".join(self.identifier)

    @property
    def location(self) -> str:
        return self.metadata.location

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.metadata.schema

    @property
    def spec(self) -> PartitionSpec:
        """The default partition spec."""
        return self.metadata.spec

    @property
    def properties(self) -> Mapping[str, str]:
        return self.metadata.properties

    def partition_type(self, spec_id: int) -> StructType:
        """Struct type of a spec's partition tuples. Raises CorruptTableError for an unknown spec."""
        return partition_type(self.metadata, spec_id)


def require_spec(metadata: TableMetadata, spec_id: int) -> PartitionSpec:
    """The partition spec of that id. Raises CorruptTableError."""
    try:
        return metadata.specs_by_id[spec_id]
    except KeyError:
        known = sorted(metadata.specs_by_id)
        raise CorruptTableError(
            f"table {metadata.location}: partition spec {spec_id} is not in the metadata (it has {known})"
        ) from None


def partition_type(metadata: TableMetadata, spec_id: int) -> StructType:
    """Struct type of a spec's partition tuples. Raises CorruptTableError for an unknown spec."""
    return require_spec(metadata, spec_id).partition_type(metadata.all_fields_by_id)
