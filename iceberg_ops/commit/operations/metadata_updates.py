"""Operations that change a table's metadata and none of its files (Java: UpdateProperties, UpdateSchema, UpdatePartitionSpec,
ReplaceSortOrder, UpdateLocation, UpdateStatistics).

Properties, location and statistics are re-applied to the current table, whatever it is. A schema, partition spec or sort order was
computed on one state of the table: it is refused if that state has changed (COMMIT-04), and staged again if only a property that
follows the schema has changed. A promotion is also refused if a concurrent commit added partition fields whose values it would
change. With a run key the change is entered in the ledger, because no snapshot can carry the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from iceberg_ops.commit.operations.schema_followers import schema_followers
from iceberg_ops.commit.protocol.operation import CallersView, MetadataOperation, StagedCommit, staged_updates, still_there
from iceberg_ops.commit.validation.dropped_keys import no_dropped_delete_keys
from iceberg_ops.commit.validation.promoted_dates import no_dates_beyond_nanoseconds
from iceberg_ops.config.properties import FORMAT_VERSION, NAME_MAPPING
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import ValidationError
from iceberg_ops.spec.nesting import check_nesting
from iceberg_ops.spec.partition_names import name_clashes, new_clashes
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.promotion import changed_partition_field
from iceberg_ops.spec.requirements import (
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertProperty,
    TableRequirement,
)
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import SortOrder
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import NestedField
from iceberg_ops.spec.updates import (
    LAST_ADDED,
    AddPartitionSpec,
    AddSchema,
    AddSortOrder,
    RemovePartitionStatistics,
    RemoveProperties,
    RemoveStatistics,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetPartitionStatistics,
    SetProperties,
    SetStatistics,
    TableUpdate,
)
from iceberg_ops.spec.updates import UpgradeFormatVersion as UpgradeFormatVersionUpdate
from iceberg_ops.table.table import Table

Promotion = tuple[NestedField, NestedField]
"""A column before and after a change of its type."""


@dataclass(frozen=True, kw_only=True)
class UpdateProperties(MetadataOperation):
    updates: Mapping[str, str] = field(default_factory=dict)
    removals: tuple[str, ...] = ()
    name: str = "update_properties"

    @property
    def property_changes(self) -> Mapping[str, str | None]:
        return {**dict.fromkeys(self.removals), **self.updates}

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        properties = table.properties
        new_values = dict(self.updates)
        if (version := new_values.get(FORMAT_VERSION.name)) is not None and _has_format(version, prepared, table):
            del new_values[FORMAT_VERSION.name]
        updates: list[TableUpdate] = []
        if any(properties.get(k) != v for k, v in new_values.items()):
            updates.append(SetProperties(new_values))
        if gone := tuple(k for k in self.removals if k in properties and k not in self.updates):
            updates.append(RemoveProperties(gone))
        return staged_updates(table.metadata, *updates, run=self.run)


@dataclass(frozen=True, kw_only=True)
class UpdateLocation(MetadataOperation):
    location: str
    name: str = "update_location"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        if table.location == self.location.rstrip("/"):
            return StagedCommit()
        return staged_updates(table.metadata, SetLocation(self.location), run=self.run)


@dataclass(frozen=True, kw_only=True)
class UpgradeFormatVersion(MetadataOperation):
    format_version: int
    name: str = "upgrade_format_version"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        if _has_format(str(self.format_version), prepared, table):
            return StagedCommit()
        return staged_updates(table.metadata, UpgradeFormatVersionUpdate(self.format_version), run=self.run)


def _has_format(version: str, callers: CallersView, table: Table) -> bool:
    """Whether the table has the format version, or a later one from a concurrent upgrade. A version below the one that the caller
    saw is an error, which the catalog raises; so is a text that is not a version."""
    number = parse_count(version)
    return number is not None and callers.metadata.format_version <= number <= table.metadata.format_version


@dataclass(frozen=True, kw_only=True)
class UpdateSchema(MetadataOperation):
    """Make ``schema`` the current one, and adapt name mapping and column properties to it. It was computed on the caller's table
    (``spec.schema_evolution``). ``keep_delete_keys``: a column that live equality deletes compare is not dropped
    (``dropped_keys``); Iceberg Java drops it."""

    schema: Schema
    keep_delete_keys: bool = False
    name: str = "update_schema"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        metadata, base = table.metadata, prepared.metadata
        if metadata.schema.same_columns(self.schema):
            return StagedCommit()
        _unchanged(table, "schema", base.current_schema_id, metadata.current_schema_id)
        _unchanged(table, "last column id", base.last_column_id, metadata.last_column_id)
        requirements: tuple[TableRequirement, ...] = (
            AssertLastAssignedFieldId(base.last_column_id),
            AssertCurrentSchemaId(base.current_schema_id),
        )
        check_nesting(self.schema, metadata.schema)
        no_columns_named_like_partition_fields(table, base, self.schema)
        if not self.schema.ids_by_name.items() <= metadata.schema.ids_by_name.items():
            requirements += (AssertDefaultSpecId(metadata.default_spec_id),)
        if self.keep_delete_keys:
            requirements += no_dropped_delete_keys(table, self.schema)
        if promoted := _promoted(metadata.schema, self.schema):
            no_moved_partition_values(table, promoted)
            requirements += no_dates_beyond_nanoseconds(table, self.schema)
            requirements += (AssertLastAssignedPartitionId(metadata.last_partition_id),)
        followers = schema_followers(metadata, self.schema)
        updates = (*followers, AddSchema(self.schema), SetCurrentSchema(LAST_ADDED))
        requirements += _unchanged_properties(metadata, followers)
        return staged_updates(metadata, *updates, requirements=requirements, run=self.run)


@dataclass(frozen=True, kw_only=True)
class UpdateSpec(MetadataOperation):
    """Make ``spec`` the default one (``spec.spec_evolution``)."""

    spec: PartitionSpec
    name: str = "update_spec"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        metadata, base = table.metadata, prepared.metadata
        if metadata.spec.compatible_with(self.spec):
            return StagedCommit()
        _unchanged(table, "default partition spec", base.default_spec_id, metadata.default_spec_id)
        _unchanged(table, "last partition field id", base.last_partition_id, metadata.last_partition_id)
        no_partition_fields_named_like_columns(table, base, self.spec)
        requirements = (
            AssertLastAssignedPartitionId(base.last_partition_id),
            AssertDefaultSpecId(base.default_spec_id),
            AssertCurrentSchemaId(metadata.current_schema_id),
        )
        updates = (AddPartitionSpec(self.spec), SetDefaultSpec(LAST_ADDED))
        return staged_updates(metadata, *updates, requirements=requirements, run=self.run)


@dataclass(frozen=True, kw_only=True)
class UpdateSortOrder(MetadataOperation):
    sort_order: SortOrder
    name: str = "update_sort_order"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        metadata, base = table.metadata, prepared.metadata
        if metadata.sort_order.fields == self.sort_order.fields:
            return StagedCommit()
        _unchanged(table, "default sort order", base.default_sort_order_id, metadata.default_sort_order_id)
        updates = (AddSortOrder(self.sort_order), SetDefaultSortOrder(LAST_ADDED))
        requirements = (AssertDefaultSortOrderId(base.default_sort_order_id),)
        return staged_updates(metadata, *updates, requirements=requirements, run=self.run)


@dataclass(frozen=True, kw_only=True)
class UpdateStatistics(MetadataOperation):
    """Register statistics files, and remove those of the snapshots in ``removed`` and ``removed_partition``."""

    added: tuple[StatisticsFile, ...] = ()
    added_partition: tuple[PartitionStatisticsFile, ...] = ()
    removed: tuple[int, ...] = ()
    removed_partition: tuple[int, ...] = ()
    name: str = "update_statistics"

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        metadata = table.metadata
        ids = {*(f.snapshot_id for f in self.added), *(f.snapshot_id for f in self.added_partition)}
        for snapshot_id in ids:
            if snapshot_id not in metadata.snapshots_by_id:
                raise ValidationError(f"statistics for snapshot {snapshot_id}: it is not in table {table.name}")
        updates = self._updates(metadata)
        needed = [update for snapshot_id in sorted(ids) for update in still_there(snapshot_id)] if updates else []
        return staged_updates(metadata, *needed, *updates, run=self.run)

    def _updates(self, metadata: TableMetadata) -> list[TableUpdate]:
        with_statistics = {s.snapshot_id for s in metadata.statistics}
        with_partition = {s.snapshot_id for s in metadata.partition_statistics}
        updates: list[TableUpdate] = [SetStatistics(f) for f in self.added if f not in metadata.statistics]
        updates += [SetPartitionStatistics(f) for f in self.added_partition if f not in metadata.partition_statistics]
        updates += [RemoveStatistics(i) for i in self.removed if i in with_statistics]
        updates += [RemovePartitionStatistics(i) for i in self.removed_partition if i in with_partition]
        return updates


def no_moved_partition_values(table: Table, promoted: Sequence[Promotion]) -> None:
    """Prevents rows of one value in two partitions: the promotion was computed before another commit created a partition field of
    the column, whose values the promotion would change (``spec.promotion``)."""
    for old, new in promoted:
        field = changed_partition_field(new.field_id, old.type, new.type, table.metadata.partition_specs)
        if field is not None:
            raise ValidationError(
                f"table {table.name}: column {new.name!r} cannot be changed from {old.type} to {new.type}: the values of "
                f"partition field {field.name!r} ({field.transform}), added since this change was planned, would change"
            )


def no_columns_named_like_partition_fields(table: Table, base: TableMetadata, schema: Schema) -> None:
    """Prevents a table that Iceberg Java cannot load: the column was computed before another commit created a partition field of
    the same name (``spec.partition_names``)."""
    metadata = table.metadata
    known = (*name_clashes(metadata.schema, metadata.partition_specs), *name_clashes(schema, base.partition_specs))
    for clash in new_clashes(schema, metadata.partition_specs, known):
        raise ValidationError(
            f"table {table.name}: no column can be called {clash.name!r}: a partition field of this name and another source "
            "column was added since this change was planned"
        )


def no_partition_fields_named_like_columns(table: Table, base: TableMetadata, spec: PartitionSpec) -> None:
    """Prevents the same in the other direction: another commit created the column."""
    metadata = table.metadata
    for clash in new_clashes(metadata.schema, (spec,), name_clashes(base.schema, (spec,))):
        raise ValidationError(
            f"table {table.name}: no partition field can be called {clash.name!r}: a column of this name was added since this "
            "change was planned"
        )


def _unchanged_properties(metadata: TableMetadata, followers: Sequence[TableUpdate]) -> tuple[AssertProperty, ...]:
    """Prevents overwriting properties that follow the schema: names that a concurrent import adds to the name mapping would be
    lost, and columns of its files would read as null."""
    names = {NAME_MAPPING.name}
    for update in followers:
        if isinstance(update, SetProperties):
            names |= update.updates.keys()
        elif isinstance(update, RemoveProperties):
            names |= set(update.removals)
    return tuple(AssertProperty(name, metadata.properties.get(name)) for name in sorted(names))


def _promoted(before: Schema, after: Schema) -> list[Promotion]:
    """Columns whose type changes, before and after."""
    held = before.fields_by_id
    changed = ((held[f.field_id], f) for f in after.fields_by_id.values() if f.field_id in held)
    return [(old, new) for old, new in changed if old.type.is_primitive and new.type.is_primitive and old.type != new.type]


def _unchanged(table: Table, what: str, expected: object, current: object) -> None:
    """Prevents a lost schema, spec or order: of two changes computed on the same state, one would undo the other."""
    if expected != current:
        raise ValidationError(f"table {table.name}: {what} has changed from {expected} to {current} since this change was planned")
