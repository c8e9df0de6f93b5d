"""Applies a list of updates to table metadata (Java: TableMetadata.Builder).

Pure: times come in as arguments, nothing is read or written. This module assigns ids (schema, spec, sort order, partition field),
keeps the logs, and refuses updates that would break the table, whichever catalog the commit goes to. Spec: "Table Metadata",
"Snapshots", "Row Lineage".
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from iceberg_ops.config.properties import FORMAT_VERSION, METADATA_PREVIOUS_VERSIONS_MAX, RESERVED
from iceberg_ops.errors import (
    AlreadyExistsError,
    BadInputError,
    CommitFailedError,
    OptionError,
    SchemaError,
    UnsupportedError,
)
from iceberg_ops.spec import updates as u
from iceberg_ops.spec import validity
from iceberg_ops.spec.new_table import new_table_metadata, stripped_location
from iceberg_ops.spec.partition_names import check_names, name_clashes
from iceberg_ops.spec.partition_sources import check_sources
from iceberg_ops.spec.partitioning import FIRST_PARTITION_FIELD_ID, PartitionSpec
from iceberg_ops.spec.ref_rules import check_ref
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import MAIN_BRANCH, MetadataLogEntry, Snapshot, SnapshotLogEntry
from iceberg_ops.spec.sorting import UNSORTED
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile
from iceberg_ops.spec.table_metadata import SUPPORTED_FORMAT_VERSIONS, TableMetadata
from iceberg_ops.spec.table_uuid import same_uuid

__all__ = ["apply_updates", "creation_updates", "new_table_metadata"]

T = TypeVar("T")
_NOT_SET = -1


def apply_updates(
    metadata: TableMetadata | None,
    updates: Sequence[u.TableUpdate],
    *,
    now_ms: int,
    previous_metadata_file: str | None = None,
) -> TableMetadata:
    """The next metadata. ``metadata`` None starts a new table (then the updates must be complete).

    ``previous_metadata_file``, from which ``metadata`` was read, is added to the metadata log, which is limited to
    ``write.metadata.previous-versions-max``. Updates without effect return the same object.

    Raises CommitFailedError if a snapshot was staged on older metadata (stage again), SchemaError, OptionError,
    NoSuchSnapshotError, AlreadyExistsError, BadInputError or UnsupportedError if the updates are wrong.
    """
    builder = _Builder(metadata, now_ms)
    for update in updates:
        builder.apply(update)
    return builder.build(previous_metadata_file)


def creation_updates(metadata: TableMetadata) -> tuple[u.TableUpdate, ...]:
    """The updates that create a table without snapshots: a catalog that only accepts updates gets them on creation."""
    return (
        u.AssignUUID(metadata.table_uuid),
        u.UpgradeFormatVersion(metadata.format_version),
        u.AddSchema(metadata.schema),
        u.SetCurrentSchema(u.LAST_ADDED),
        u.AddPartitionSpec(metadata.spec),
        u.SetDefaultSpec(u.LAST_ADDED),
        u.AddSortOrder(metadata.sort_order),
        u.SetDefaultSortOrder(u.LAST_ADDED),
        u.SetLocation(metadata.location),
        u.SetProperties(dict(metadata.properties)),
    )


_EMPTY = TableMetadata(
    format_version=2,
    table_uuid="",
    location="",
    last_updated_ms=0,
    last_column_id=0,
    current_schema_id=_NOT_SET,
    schemas=(),
    default_spec_id=_NOT_SET,
    partition_specs=(),
    last_partition_id=FIRST_PARTITION_FIELD_ID - 1,
    default_sort_order_id=_NOT_SET,
    sort_orders=(),
)


class _Builder:
    """The metadata under construction. Each update that changes something replaces ``state``."""

    def __init__(self, base: TableMetadata | None, now_ms: int) -> None:
        self.base = base
        self.state = base or _EMPTY
        self.now_ms = now_ms if base is None else max(now_ms, base.last_updated_ms)
        self.updated_ms: int | None = None
        self.added_snapshots: dict[int, Snapshot] = {}
        self.passed_through_main: list[int] = []
        self.removed_snapshots = False
        self.last_schema_id: int | None = None
        self.last_spec_id: int | None = None
        self.last_order_id: int | None = None

    def set(self, **changes: Any) -> None:
        self.state = replace(self.state, **changes)

    @property
    def schema(self) -> Schema:
        """The current schema, which a new table must get before its spec and sort order."""
        if self.state.current_schema_id == _NOT_SET:
            raise BadInputError("the updates of a new table must set its schema before its partition spec and sort order")
        return self.state.schema

    def touched_at(self, timestamp_ms: int) -> int:
        """Record the time of a change; never before the base's, because readers of the logs would refuse it."""
        self.updated_ms = timestamp_ms if self.base is None else max(timestamp_ms, self.base.last_updated_ms)
        return self.updated_ms

    def apply(self, update: u.TableUpdate) -> None:
        handler = _HANDLERS.get(type(update))
        if handler is None:
            raise UnsupportedError(f"not supported: table update {type(update).__name__}, because the builder does not know it")
        handler(self, update)

    def build(self, previous_metadata_file: str | None) -> TableMetadata:
        if self.base is not None and self.state is self.base:
            return self.base
        state = self.state
        self._check_complete()
        self._check_fit()
        log = state.metadata_log
        if previous_metadata_file is not None and self.base is not None:
            keep = METADATA_PREVIOUS_VERSIONS_MAX.of(state.properties)
            log = (*log, MetadataLogEntry(self.base.last_updated_ms, previous_metadata_file))[-keep:]
        return replace(
            state,
            table_uuid=state.table_uuid or str(uuid.uuid4()),
            last_updated_ms=self.now_ms if self.updated_ms is None else self.updated_ms,
            snapshot_log=self._snapshot_log(),
            metadata_log=log,
        )

    def _check_fit(self) -> None:
        """The default spec and order must fit the current schema, and so must names and sources of all specs. A table that was
        already inconsistent in this way is not refused."""
        base, state = self.base, self.state
        if base is None or (base.schema, base.partition_specs) != (state.schema, state.partition_specs):
            known = () if base is None else name_clashes(base.schema, base.partition_specs)
            check_names(state.schema, state.partition_specs, known)
            check_sources(state.schema, state.partition_specs, None if base is None else base.schema)
        if base is None or (base.schema, base.spec, base.sort_order) != (state.schema, state.spec, state.sort_order):
            validity.check_spec_sources(state.spec, state.schema)
            validity.check_sort_order(state.sort_order, state.schema, new=False)

    def _check_complete(self) -> None:
        state = self.state
        for what, missing in (
            ("location", not state.location),
            ("current schema", state.current_schema_id == _NOT_SET),
            ("default partition spec", state.default_spec_id == _NOT_SET),
            ("default sort order", state.default_sort_order_id == _NOT_SET),
        ):
            if missing:
                raise BadInputError(f"the updates of a new table do not set its {what}")

    def _snapshot_log(self) -> tuple[SnapshotLogEntry, ...]:
        """Without snapshots that were main's head only within this commit, and without entries before a removed snapshot."""
        current, known = self.state.current_snapshot_id, self.state.snapshots_by_id
        passed = {i for i in self.passed_through_main if i in self.added_snapshots and i != current}
        if not passed and not self.removed_snapshots:
            return self.state.snapshot_log
        kept: list[SnapshotLogEntry] = []
        for entry in self.state.snapshot_log:
            if entry.snapshot_id not in known:
                kept.clear()
            elif entry.snapshot_id not in passed:
                kept.append(entry)
        return tuple(kept)


def _assign_uuid(b: _Builder, update: u.AssignUUID) -> None:
    if b.base is not None and b.base.table_uuid and not same_uuid(b.base.table_uuid, update.uuid):
        raise BadInputError(f"table {b.base.table_uuid}: cannot be given uuid {update.uuid}: a table keeps its uuid")
    if not same_uuid(b.state.table_uuid, update.uuid):
        b.set(table_uuid=update.uuid)


def _upgrade_format_version(b: _Builder, update: u.UpgradeFormatVersion) -> None:
    version, current = update.format_version, b.state.format_version
    if type(version) is not int:
        raise BadInputError(f"format-version {version!r} must be a whole number")
    if version not in SUPPORTED_FORMAT_VERSIONS:
        raise UnsupportedError(f"not supported: format-version {version}, because only {SUPPORTED_FORMAT_VERSIONS} are known")
    if b.base is not None and version < current:
        raise BadInputError(f"table {b.state.location}: cannot go from v{current} back to v{version}")
    validity.check_upgrade(b.state.schemas_by_id.get(b.state.current_schema_id), current, version)
    if version != current or (version >= 3 and b.state.next_row_id is None):
        b.set(format_version=version, next_row_id=(b.state.next_row_id or 0) if version >= 3 else None)


def _reused_id(numbered: Iterable[tuple[int, T]], same: Callable[[T], bool], first: int) -> tuple[int, bool]:
    """The id of an equal existing value, else the next free id; and whether the value exists."""
    next_id = first
    for value_id, value in numbered:
        if same(value):
            return value_id, True
        next_id = max(next_id, value_id + 1)
    return next_id, False


def _resolve(requested: int, last_added: int | None, what: str) -> int:
    if requested != u.LAST_ADDED:
        return requested
    if last_added is None:
        raise BadInputError(f"cannot set the {what} to the last added one: these updates add none")
    return last_added


def _add_schema(b: _Builder, update: u.AddSchema) -> None:
    state, schema = b.state, update.schema
    validity.check_schema(schema, state.format_version, state.schemas_by_id.get(state.current_schema_id))
    _check_initial_defaults(state, schema)
    first = max(state.current_schema_id, 0)
    schema_id, known = _reused_id(((s.schema_id, s) for s in state.schemas), schema.same_columns, first)
    b.last_schema_id = schema_id
    last_column_id = max(state.last_column_id, schema.highest_field_id)
    if not known:
        b.set(schemas=(*state.schemas, replace(schema, schema_id=schema_id)), last_column_id=last_column_id)
    elif last_column_id != state.last_column_id:
        b.set(last_column_id=last_column_id)


def _check_initial_defaults(state: TableMetadata, schema: Schema) -> None:
    if state.format_version < 3 or state.current_schema_id not in state.schemas_by_id:
        return
    for field_id, f in schema.fields_by_id.items():
        old = state.schema.fields_by_id.get(field_id)
        if old is not None and old.type == f.type and not validity.same_default(old.initial_default, f.initial_default):
            raise SchemaError(f"column {f.name!r}: its initial-default cannot change once the column is there")


def _set_current_schema(b: _Builder, update: u.SetCurrentSchema) -> None:
    schema_id = _resolve(update.schema_id, b.last_schema_id, "current schema")
    if schema_id not in b.state.schemas_by_id:
        raise SchemaError(f"cannot make schema {schema_id} current: it is not in the table")
    if schema_id != b.state.current_schema_id:
        b.set(current_schema_id=schema_id)


def _add_spec(b: _Builder, update: u.AddPartitionSpec) -> None:
    state = b.state
    spec_id, known = _reused_id(((s.spec_id, s) for s in state.partition_specs), update.spec.compatible_with, 0)
    b.last_spec_id = spec_id
    if known:
        return
    spec = replace(_with_field_ids(state, update.spec), spec_id=spec_id)
    validity.check_new_spec(spec, b.schema, state.format_version)
    last = max(state.last_partition_id, spec.last_assigned_field_id)
    b.set(partition_specs=(*state.partition_specs, spec), last_partition_id=last)


def _with_field_ids(state: TableMetadata, spec: PartitionSpec) -> PartitionSpec:
    """Fields without an id (below 1) get that of an equal older field, else the next free one."""
    known = {(f.source_ids, f.transform): f.field_id for s in state.partition_specs for f in s.fields}
    last, fields = max(state.last_partition_id, spec.last_assigned_field_id), []
    for f in spec.fields:
        if f.field_id <= 0:
            field_id = known.get((f.source_ids, f.transform))
            if field_id is None:
                last += 1
                field_id = last
            f = replace(f, field_id=field_id)
        fields.append(f)
    return replace(spec, fields=tuple(fields))


def _set_default_spec(b: _Builder, update: u.SetDefaultSpec) -> None:
    spec_id = _resolve(update.spec_id, b.last_spec_id, "default partition spec")
    if spec_id not in b.state.specs_by_id:
        raise SchemaError(f"cannot make partition spec {spec_id} the default: it is not in the table")
    if spec_id != b.state.default_spec_id:
        b.set(default_spec_id=spec_id)


def _add_sort_order(b: _Builder, update: u.AddSortOrder) -> None:
    state, order = b.state, update.sort_order
    if order.is_unsorted:
        order_id, known = 0, 0 in state.sort_orders_by_id
    else:
        numbered = ((o.order_id, o) for o in state.sort_orders)
        order_id, known = _reused_id(numbered, lambda o: o.fields == order.fields, 1)
    b.last_order_id = order_id
    if not known:
        validity.check_sort_order(order, b.schema)
        added = UNSORTED if order.is_unsorted else replace(order, order_id=order_id)
        b.set(sort_orders=(*state.sort_orders, added))


def _set_default_sort_order(b: _Builder, update: u.SetDefaultSortOrder) -> None:
    order_id = _resolve(update.sort_order_id, b.last_order_id, "default sort order")
    if order_id not in b.state.sort_orders_by_id:
        raise SchemaError(f"cannot make sort order {order_id} the default: it is not in the table")
    if order_id != b.state.default_sort_order_id:
        b.set(default_sort_order_id=order_id)


def _add_snapshot(b: _Builder, update: u.AddSnapshot) -> None:
    state, snapshot = b.state, update.snapshot
    name = f"snapshot {snapshot.snapshot_id}"
    if snapshot.snapshot_id in state.snapshots_by_id:
        raise AlreadyExistsError(f"{name} is already in the table")
    number, last = snapshot.sequence_number, state.last_sequence_number
    if state.format_version > 1 and snapshot.parent_snapshot_id is not None and number <= last:
        raise CommitFailedError(f"cannot add {name} with sequence number {number}: the table is at {last}")
    if state.format_version > 1 and snapshot.manifest_list is None:
        raise BadInputError(f"cannot add {name} without a manifest list to a v{state.format_version} table")
    changes: dict[str, Any] = {"snapshots": (*state.snapshots, snapshot)}
    if state.format_version > 1:
        changes["last_sequence_number"] = max(last, number)
    if state.format_version >= 3:
        changes["next_row_id"] = _next_row_id(state, snapshot)
    b.touched_at(snapshot.timestamp_ms)
    b.added_snapshots[snapshot.snapshot_id] = snapshot
    b.set(**changes)


def _next_row_id(state: TableMetadata, snapshot: Snapshot) -> int:
    first, added, next_row_id = snapshot.first_row_id, snapshot.added_rows, state.next_row_id or 0
    if first is None or added is None:
        raise BadInputError(f"cannot add snapshot {snapshot.snapshot_id} to a v3 table: it lacks first-row-id or added-rows")
    if added < 0:
        raise BadInputError(f"cannot add snapshot {snapshot.snapshot_id}: added-rows {added} must be 0 or more")
    if first < next_row_id:
        raise CommitFailedError(
            f"cannot add snapshot {snapshot.snapshot_id}: its first-row-id {first} is behind the table's next-row-id {next_row_id}"
        )
    return first + added


def _set_ref(b: _Builder, update: u.SetSnapshotRef) -> None:
    state, name, ref = b.state, update.ref_name, update.ref
    if state.refs.get(name) == ref:
        return
    check_ref(state, name, ref)
    changes: dict[str, Any] = {"refs": {**state.refs, name: ref}}
    if ref.snapshot_id in b.added_snapshots:
        b.touched_at(b.added_snapshots[ref.snapshot_id].timestamp_ms)
    if name == MAIN_BRANCH and ref.snapshot_id != state.current_snapshot_id:
        made_current = b.touched_at(b.now_ms) if b.updated_ms is None else b.updated_ms
        b.passed_through_main.append(ref.snapshot_id)
        changes["current_snapshot_id"] = ref.snapshot_id
        changes["snapshot_log"] = (*state.snapshot_log, SnapshotLogEntry(made_current, ref.snapshot_id))
    b.set(**changes)


def _remove_ref(b: _Builder, update: u.RemoveSnapshotRef) -> None:
    changes: dict[str, Any] = {}
    if update.ref_name in b.state.refs:
        changes["refs"] = {name: ref for name, ref in b.state.refs.items() if name != update.ref_name}
    if update.ref_name == MAIN_BRANCH and b.state.current_snapshot_id is not None:
        changes |= {"current_snapshot_id": None, "snapshot_log": ()}
    if changes:
        b.set(**changes)


def _remove_snapshots(b: _Builder, update: u.RemoveSnapshots) -> None:
    state = b.state
    gone = set(update.snapshot_ids) & state.snapshots_by_id.keys()
    if not gone:
        return
    b.removed_snapshots = True
    b.set(
        snapshots=tuple(s for s in state.snapshots if s.snapshot_id not in gone),
        statistics=tuple(s for s in state.statistics if s.snapshot_id not in gone),
        partition_statistics=tuple(s for s in state.partition_statistics if s.snapshot_id not in gone),
    )
    for name in [name for name, ref in state.refs.items() if ref.snapshot_id in gone]:
        _remove_ref(b, u.RemoveSnapshotRef(name))
    if b.state.current_snapshot_id in gone:
        b.set(current_snapshot_id=None, snapshot_log=())


def _set_location(b: _Builder, update: u.SetLocation) -> None:
    location = stripped_location(update.location)
    if location != b.state.location:
        b.set(location=location)


def _set_properties(b: _Builder, update: u.SetProperties) -> None:
    updates = dict(update.updates)
    if (version := updates.pop(FORMAT_VERSION.name, None)) is not None:
        _upgrade_format_version(b, u.UpgradeFormatVersion(FORMAT_VERSION.of({FORMAT_VERSION.name: version})))
    if reserved := sorted(RESERVED & updates.keys()):
        raise OptionError(f"table properties must not contain reserved properties, but got {', '.join(reserved)}")
    for key, value in updates.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise OptionError(f"table property {key!r}: {value!r}: both must be text")
    properties = {**b.state.properties, **updates}
    if properties != b.state.properties:
        b.set(properties=properties)


def _remove_properties(b: _Builder, update: u.RemoveProperties) -> None:
    properties = {key: value for key, value in b.state.properties.items() if key not in update.removals}
    if len(properties) != len(b.state.properties):
        b.set(properties=properties)


def _set_statistics(b: _Builder, update: u.SetStatistics) -> None:
    others = (s for s in b.state.statistics if s.snapshot_id != update.statistics.snapshot_id)
    b.set(statistics=(*others, update.statistics))


def _remove_statistics(b: _Builder, update: u.RemoveStatistics) -> None:
    kept: tuple[StatisticsFile, ...] = tuple(s for s in b.state.statistics if s.snapshot_id != update.snapshot_id)
    if len(kept) != len(b.state.statistics):
        b.set(statistics=kept)


def _set_partition_statistics(b: _Builder, update: u.SetPartitionStatistics) -> None:
    others = (s for s in b.state.partition_statistics if s.snapshot_id != update.partition_statistics.snapshot_id)
    b.set(partition_statistics=(*others, update.partition_statistics))


def _remove_partition_statistics(b: _Builder, update: u.RemovePartitionStatistics) -> None:
    kept: tuple[PartitionStatisticsFile, ...] = tuple(
        s for s in b.state.partition_statistics if s.snapshot_id != update.snapshot_id
    )
    if len(kept) != len(b.state.partition_statistics):
        b.set(partition_statistics=kept)


def _remove_specs(b: _Builder, update: u.RemovePartitionSpecs) -> None:
    if b.state.default_spec_id in update.spec_ids:
        raise SchemaError(f"cannot remove partition spec {b.state.default_spec_id}: it is the default")
    kept = tuple(s for s in b.state.partition_specs if s.spec_id not in update.spec_ids)
    if len(kept) != len(b.state.partition_specs):
        b.set(partition_specs=kept)


def _remove_schemas(b: _Builder, update: u.RemoveSchemas) -> None:
    if b.state.current_schema_id in update.schema_ids:
        raise SchemaError(f"cannot remove schema {b.state.current_schema_id}: it is the current one")
    kept = tuple(s for s in b.state.schemas if s.schema_id not in update.schema_ids)
    if len(kept) != len(b.state.schemas):
        b.set(schemas=kept)


def _add_encryption_key(b: _Builder, update: u.AddEncryptionKey) -> None:
    others = (k for k in b.state.encryption_keys if k.get("key-id") != update.key.get("key-id"))
    b.set(encryption_keys=(*others, dict(update.key)))


def _remove_encryption_key(b: _Builder, update: u.RemoveEncryptionKey) -> None:
    b.set(encryption_keys=tuple(k for k in b.state.encryption_keys if k.get("key-id") != update.key_id))


_HANDLERS: Mapping[type[u.TableUpdate], Callable[[_Builder, Any], None]] = {
    u.AssignUUID: _assign_uuid,
    u.UpgradeFormatVersion: _upgrade_format_version,
    u.AddSchema: _add_schema,
    u.SetCurrentSchema: _set_current_schema,
    u.AddPartitionSpec: _add_spec,
    u.SetDefaultSpec: _set_default_spec,
    u.AddSortOrder: _add_sort_order,
    u.SetDefaultSortOrder: _set_default_sort_order,
    u.AddSnapshot: _add_snapshot,
    u.SetSnapshotRef: _set_ref,
    u.RemoveSnapshotRef: _remove_ref,
    u.RemoveSnapshots: _remove_snapshots,
    u.SetLocation: _set_location,
    u.SetProperties: _set_properties,
    u.RemoveProperties: _remove_properties,
    u.SetStatistics: _set_statistics,
    u.RemoveStatistics: _remove_statistics,
    u.SetPartitionStatistics: _set_partition_statistics,
    u.RemovePartitionStatistics: _remove_partition_statistics,
    u.RemovePartitionSpecs: _remove_specs,
    u.RemoveSchemas: _remove_schemas,
    u.AddEncryptionKey: _add_encryption_key,
    u.RemoveEncryptionKey: _remove_encryption_key,
}
