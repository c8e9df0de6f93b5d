"""Changes to table metadata, with the names of the REST catalog specification (``TableUpdate``).

A commit is a list of these plus a list of ``requirements``; every catalog, REST or not, accepts both.
``metadata_builder.apply_updates`` applies them to give the next TableMetadata.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot, SnapshotRef
from iceberg_ops.spec.sorting import SortOrder
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile

LAST_ADDED = -1
"""Used as an id: the schema, spec or sort order that the same list of updates added just before."""


class TableUpdate:
    """Base of all updates."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class AssignUUID(TableUpdate):
    uuid: str


@dataclass(frozen=True, slots=True)
class UpgradeFormatVersion(TableUpdate):
    format_version: int


@dataclass(frozen=True, slots=True)
class AddSchema(TableUpdate):
    """The builder assigns the schema's id (or reuses that of an equal schema)."""

    schema: Schema


@dataclass(frozen=True, slots=True)
class SetCurrentSchema(TableUpdate):
    schema_id: int


@dataclass(frozen=True, slots=True)
class AddPartitionSpec(TableUpdate):
    spec: PartitionSpec


@dataclass(frozen=True, slots=True)
class SetDefaultSpec(TableUpdate):
    spec_id: int


@dataclass(frozen=True, slots=True)
class AddSortOrder(TableUpdate):
    sort_order: SortOrder


@dataclass(frozen=True, slots=True)
class SetDefaultSortOrder(TableUpdate):
    sort_order_id: int


@dataclass(frozen=True, slots=True)
class AddSnapshot(TableUpdate):
    """``schema`` and ``specs`` are those of the snapshot's manifests. A catalog refuses the snapshot if the table no longer has
    them, or has others with their ids: an expiry may have removed them since. REST's ``add-snapshot`` does not contain them."""

    snapshot: Snapshot
    schema: Schema | None = None
    specs: tuple[PartitionSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class SetSnapshotRef(TableUpdate):
    ref_name: str
    ref: SnapshotRef


@dataclass(frozen=True, slots=True)
class RemoveSnapshots(TableUpdate):
    snapshot_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemoveSnapshotRef(TableUpdate):
    ref_name: str


@dataclass(frozen=True, slots=True)
class SetLocation(TableUpdate):
    location: str


@dataclass(frozen=True, slots=True)
class SetProperties(TableUpdate):
    updates: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RemoveProperties(TableUpdate):
    removals: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SetStatistics(TableUpdate):
    statistics: StatisticsFile


@dataclass(frozen=True, slots=True)
class RemoveStatistics(TableUpdate):
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class SetPartitionStatistics(TableUpdate):
    partition_statistics: PartitionStatisticsFile


@dataclass(frozen=True, slots=True)
class RemovePartitionStatistics(TableUpdate):
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class RemovePartitionSpecs(TableUpdate):
    spec_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RemoveSchemas(TableUpdate):
    schema_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class AddEncryptionKey(TableUpdate):
    """``key`` is the JSON object of the entry in ``encryption-keys``."""

    key: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RemoveEncryptionKey(TableUpdate):
    key_id: str
