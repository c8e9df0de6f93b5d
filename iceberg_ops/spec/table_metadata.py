"""Table metadata as one immutable value (spec: "Table Metadata").

``updates`` defines the possible changes, and ``metadata_builder`` applies a list of updates; the
JSON form is in ``iceberg_ops.serde.json.metadata_json``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from iceberg_ops.errors import CorruptTableError, NoSuchSnapshotError
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.promotion import can_promote, fields_ever
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import MAIN_BRANCH, MetadataLogEntry, Snapshot, SnapshotLogEntry, SnapshotRef
from iceberg_ops.spec.sorting import SortOrder
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile
from iceberg_ops.spec.types import DATE, TIMESTAMP_NS, NestedField

T = TypeVar("T")

SUPPORTED_FORMAT_VERSIONS = (1, 2, 3)


@dataclass(frozen=True, kw_only=True)
class TableMetadata:
    """The whole state of a table. Times are milliseconds since the epoch. ``extra`` holds unknown JSON keys."""

    format_version: int
    table_uuid: str
    location: str
    last_sequence_number: int = 0
    last_updated_ms: int
    last_column_id: int
    current_schema_id: int
    schemas: tuple[Schema, ...]
    default_spec_id: int
    partition_specs: tuple[PartitionSpec, ...]
    last_partition_id: int
    default_sort_order_id: int
    sort_orders: tuple[SortOrder, ...]
    properties: Mapping[str, str] = field(default_factory=dict)
    current_snapshot_id: int | None = None
    snapshots: tuple[Snapshot, ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    refs: Mapping[str, SnapshotRef] = field(default_factory=dict)
    statistics: tuple[StatisticsFile, ...] = ()
    partition_statistics: tuple[PartitionStatisticsFile, ...] = ()
    next_row_id: int | None = None
    encryption_keys: tuple[Mapping[str, Any], ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def schemas_by_id(self) -> Mapping[int, Schema]:
        return {s.schema_id: s for s in self.schemas}

    @cached_property
    def specs_by_id(self) -> Mapping[int, PartitionSpec]:
        return {s.spec_id: s for s in self.partition_specs}

    @cached_property
    def sort_orders_by_id(self) -> Mapping[int, SortOrder]:
        return {o.order_id: o for o in self.sort_orders}

    @cached_property
    def snapshots_by_id(self) -> Mapping[int, Snapshot]:
        return {s.snapshot_id: s for s in self.snapshots}

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self._by_id(self.schemas_by_id, self.current_schema_id, "schema")

    @property
    def spec(self) -> PartitionSpec:
        """The default partition spec."""
        return self._by_id(self.specs_by_id, self.default_spec_id, "partition spec")

    @property
    def sort_order(self) -> SortOrder:
        """The default sort order."""
        return self._by_id(self.sort_orders_by_id, self.default_sort_order_id, "sort order")

    def _by_id(self, known: Mapping[int, T], current_id: int, what: str) -> T:
        try:
            return known[current_id]
        except KeyError:
            raise CorruptTableError(
                f"table {self.table_uuid}: {what} {current_id} is not in the metadata (it has {sorted(known)})"
            ) from None

    @cached_property
    def all_fields_by_id(self) -> Mapping[int, NestedField]:
        """Fields of every schema; the current schema overrides others, then later schemas: types of dropped columns stay known."""
        now = self.schemas_by_id.get(self.current_schema_id)
        return fields_ever(self.schemas, now or Schema.of(), self.format_version)

    def reads_columns_of(self, schema: Schema, field_ids: Collection[int] | None = None) -> bool:
        """Whether the current columns, of ``field_ids`` or all, are those of ``schema``, or promoted since. If not, another engine
        has replaced the table: a column has the id of the former one with its name, whatever its type."""
        then = schema.fields_by_id
        ids = then if field_ids is None else [i for i in field_ids if i in then]
        pairs = ((then[i].type, self.all_fields_by_id[i].type) for i in ids if i in self.all_fields_by_id)
        return all((a.is_nested and b.is_nested) or can_promote(a, b, self.format_version) for a, b in pairs)

    def schema_of_values(self, schema: Schema) -> Schema:
        """The schema that gives the types of partition values in a snapshot of ``schema``: the current schema, unless that has
        other columns with these ids, or one whose type does not hold every value (not every date is a timestamp_ns)."""
        if schema.schema_id == self.current_schema_id:
            return self.schema
        now = self.all_fields_by_id
        dates = (i for i, f in schema.fields_by_id.items() if f.type == DATE and i in now)
        as_now = self.reads_columns_of(schema) and not any(now[i].type == TIMESTAMP_NS for i in dates)
        return self.schema if as_now else schema

    @property
    def current_snapshot(self) -> Snapshot | None:
        """Head of main, or None for an empty table. Raises CorruptTableError if the metadata names a missing snapshot."""
        if self.current_snapshot_id is None:
            return None
        return self._by_id(self.snapshots_by_id, self.current_snapshot_id, "snapshot")

    def snapshot(self, snapshot_id: int) -> Snapshot:
        """The snapshot with that id. Raises NoSuchSnapshotError."""
        try:
            return self.snapshots_by_id[snapshot_id]
        except KeyError:
            raise NoSuchSnapshotError(
                f"table {self.location} has no snapshot {snapshot_id} (iceberg-ops inspect TABLE snapshots lists them)"
            ) from None

    def ref(self, name: str) -> SnapshotRef | None:
        """The branch or tag with that name; ``main`` also if only current-snapshot-id defines it."""
        ref = self.refs.get(name)
        if ref is None and name == MAIN_BRANCH and self.current_snapshot_id is not None:
            return SnapshotRef(snapshot_id=self.current_snapshot_id)
        return ref

    def branch_head(self, branch: str = MAIN_BRANCH) -> Snapshot | None:
        """Head snapshot of a branch, or None if the branch has none yet."""
        ref = self.ref(branch)
        return None if ref is None else self._by_id(self.snapshots_by_id, ref.snapshot_id, "snapshot")

    def ancestors(self, snapshot_id: int | None) -> Iterator[Snapshot]:
        """The snapshot, its parent and so on, as far as the metadata still has them."""
        seen: set[int] = set()
        while snapshot_id is not None and snapshot_id not in seen:
            snapshot = self.snapshots_by_id.get(snapshot_id)
            if snapshot is None:
                return
            seen.add(snapshot_id)
            yield snapshot
            snapshot_id = snapshot.parent_snapshot_id

    def schema_of(self, snapshot: Snapshot) -> Schema:
        """The schema with which a snapshot was written; the current one if it records none or an unknown one."""
        if snapshot.schema_id is None:
            return self.schema
        return self.schemas_by_id.get(snapshot.schema_id, self.schema)
