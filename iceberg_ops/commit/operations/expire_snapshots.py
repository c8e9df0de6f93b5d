"""Removes expired snapshots and refs from a table's metadata (Java: RemoveSnapshots).

Every attempt decides again which ones are removed (``retention``), leases included. Run keys of removed snapshots enter the ledger.
Files are not deleted here: ``expiry`` does that after the swap. The commit requires that everything it was decided on is unchanged
(``AssertRetention``): a concurrent snapshot may need a schema or partition spec that is about to be removed, and garbage collection
may have been switched off.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from iceberg_ops.commit.protocol.ledger import Ledger
from iceberg_ops.commit.protocol.operation import MetadataOperation, StagedCommit, staged_updates
from iceberg_ops.commit.protocol.retention import ExpiryDecision, expired
from iceberg_ops.commit.protocol.run_keys import entries_of_expiring, ledger_entries, not_committed_yet, with_first_publishers
from iceberg_ops.commit.validation.remembered_copies import entries_of_copies
from iceberg_ops.config.properties import GC_ENABLED
from iceberg_ops.deletion.leases import active_leases
from iceberg_ops.errors import GcDisabledError
from iceberg_ops.spec.manifests import ManifestContent, ManifestFile
from iceberg_ops.spec.promotion import first_schemas, moved_by_promotion
from iceberg_ops.spec.requirements import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertRetention,
    TableRequirement,
)
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import DATE
from iceberg_ops.spec.updates import RemovePartitionSpecs, RemoveSchemas, RemoveSnapshotRef, RemoveSnapshots, TableUpdate
from iceberg_ops.table.former_columns import live_entries_of, of_former_columns
from iceberg_ops.table.manifests import ManifestLists
from iceberg_ops.table.table import Table


@dataclass(frozen=True, slots=True)
class ExpiryDraft:
    """The ``Prepared`` of an expiry: the ledger files it wrote."""

    ledger: Ledger = field(default_factory=Ledger)

    @property
    def written(self) -> tuple[str, ...]:
        return tuple(self.ledger.written)


@dataclass(frozen=True, kw_only=True)
class ExpireSnapshots(MetadataOperation):
    """Times are milliseconds since the epoch; ``older_than_ms`` and ``retain_last`` None: the table's properties decide.

    ``clean_expired_metadata`` also removes schemas and partition specs that no remaining snapshot uses. ``now_ms`` None: now."""

    older_than_ms: int | None = None
    retain_last: int | None = None
    snapshot_ids: tuple[int, ...] = ()
    clean_expired_metadata: bool = False
    now_ms: int | None = None
    name: str = "expire_snapshots"

    def prepare(self, table: Table) -> ExpiryDraft:  # type: ignore[override]
        return ExpiryDraft()

    def decided(self, table: Table) -> ExpiryDecision:
        """Which snapshots and refs of the current table are removed, and why the others stay. Raises ValidationError if gc.enabled
        is false."""
        if not GC_ENABLED.of(table.properties):
            raise GcDisabledError(
                "Cannot expire snapshots: GC is disabled (deleting files may corrupt other tables, or branches of Nessie, where "
                "nessie-gc deletes files)"
            )
        now = self._now_ms
        return expired(
            table.metadata,
            now_ms=now,
            older_than_ms=self.older_than_ms,
            retain_last=self.retain_last,
            snapshot_ids=self.snapshot_ids,
            leased=[lease.snapshot_id for lease in active_leases(table, now) if lease.snapshot_id is not None],
        )

    def removals(self, table: Table, decided: ExpiryDecision | None = None) -> tuple[TableUpdate, ...]:
        """The removals from the metadata; nothing is written. ``decided`` None: the result of ``decided``, with the same errors."""
        gone = self.decided(table) if decided is None else decided
        updates: list[TableUpdate] = [RemoveSnapshotRef(name) for name in gone.refs]
        if gone.snapshot_ids:
            updates.append(RemoveSnapshots(gone.snapshot_ids))
        if self.clean_expired_metadata:
            updates += _unused(table, set(gone.snapshot_ids))
        return tuple(updates)

    def stage(self, prepared: ExpiryDraft, table: Table) -> StagedCommit:
        updates = self.removals(table)
        if not updates:
            return StagedCommit()
        metadata = table.metadata
        gone = [i for update in updates if isinstance(update, RemoveSnapshots) for i in update.snapshot_ids]
        entries = with_first_publishers(table, {**entries_of_expiring(metadata, gone), **entries_of_copies(table, frozenset(gone))})
        if self.run is not None:
            entries |= ledger_entries({self.run: None}, self._now_ms)
        entered, file = prepared.ledger.updates(table, entries)
        requirements = (*_requirements(metadata), *not_committed_yet(self.run, metadata))
        staged = staged_updates(metadata, *updates, *entered, requirements=requirements)
        return replace(staged, referenced=frozenset(() if file is None else (file,)))

    @property
    def _now_ms(self) -> int:
        return time.time_ns() // 1_000_000 if self.now_ms is None else self.now_ms


def _requirements(metadata: TableMetadata) -> tuple[TableRequirement, ...]:
    refs = (AssertRefSnapshotId(name, ref.snapshot_id) for name, ref in metadata.refs.items())
    ids = (AssertCurrentSchemaId(metadata.current_schema_id), AssertDefaultSpecId(metadata.default_spec_id))
    return (*refs, *ids, AssertRetention(metadata))


def _unused(table: Table, gone: set[int]) -> list[TableUpdate]:
    """Removal of schemas and partition specs that only snapshots in ``gone`` use. Manifest lists are read only if specs or schemas
    can be removed."""
    metadata = table.metadata
    kept = [s for s in metadata.snapshots if s.snapshot_id not in gone]
    schemas = {metadata.current_schema_id, *(s.schema_id for s in kept if s.schema_id is not None)}
    specs = {metadata.default_spec_id}
    if specs >= metadata.specs_by_id.keys() and schemas >= metadata.schemas_by_id.keys():
        return []
    lists = ManifestLists(table.io)
    manifests = {m.manifest_path: (m, snapshot) for snapshot in kept for m in lists.of(snapshot)}
    specs |= {m.partition_spec_id for m, _ in manifests.values()}
    if schemas < metadata.schemas_by_id.keys():
        schemas |= _schemas_with(metadata, schemas, _needed_fields(table, specs, manifests.values()))
        schemas |= _schemas_of_old_types(metadata, specs) | _former_schemas(table, manifests.values())
    updates: list[TableUpdate] = []
    if unused := tuple(sorted(metadata.specs_by_id.keys() - specs)):
        updates.append(RemovePartitionSpecs(unused))
    if unused := tuple(sorted(metadata.schemas_by_id.keys() - schemas)):
        updates.append(RemoveSchemas(unused))
    return updates


def _needed_fields(table: Table, spec_ids: set[int], manifests: Iterable[tuple[ManifestFile, Snapshot]]) -> set[int]:
    """Ids of fields whose types readers need, in whatever schema they are: columns that equality deletes compare, and the sources
    of partition fields and sort orders. Each of them may have been dropped from the table since."""
    metadata = table.metadata
    field_ids = {i for o in metadata.sort_orders for f in o.fields for i in f.source_ids}
    field_ids |= {i for s in spec_ids & metadata.specs_by_id.keys() for f in metadata.specs_by_id[s].fields for i in f.source_ids}
    for manifest, snapshot in manifests:
        if manifest.content is ManifestContent.DELETES:
            for entry in live_entries_of(table, snapshot, manifest):
                field_ids |= set(entry.data_file.equality_ids or ())
    return field_ids


def _former_schemas(table: Table, manifests: Iterable[tuple[ManifestFile, Snapshot]]) -> set[int]:
    """Schemas of columns that another engine has replaced, as long as files with them are live, on a branch that has snapshots with
    the current schema. Without these schemas a long of a former column is read, and filtered, as the timestamp that has its id
    now."""
    if not of_former_columns(table, (manifest for manifest, _ in manifests)):
        return set()
    return {s.schema_id for s in table.metadata.schemas if not table.metadata.reads_columns_of(s)}


def _schemas_with(metadata: TableMetadata, kept: set[int], field_ids: set[int]) -> set[int]:
    """The latest schema of each field that no schema in ``kept`` has."""
    known = {i for schema_id in kept & metadata.schemas_by_id.keys() for i in metadata.schemas_by_id[schema_id].fields_by_id}
    schema_ids: set[int] = set()
    for schema in sorted(metadata.schemas, key=lambda s: -s.schema_id):
        if schema.schema_id not in kept and (field_ids - known) & schema.fields_by_id.keys():
            schema_ids.add(schema.schema_id)
            known |= schema.fields_by_id.keys()
    return schema_ids


def _schemas_of_old_types(metadata: TableMetadata, spec_ids: set[int]) -> set[int]:
    """Schemas in which the source of a partition field has another type than now, or than it had last. Only they show that a
    promotion may have moved rows, and they are needed to read partition values of a table that another engine has replaced.
    Included are schemas without which a later upsert or scan could not exclude a promotion."""
    now = metadata.all_fields_by_id
    specs = [metadata.specs_by_id[i] for i in spec_ids & metadata.specs_by_id.keys()]
    sources = {i for spec in specs for f in spec.fields for i in f.source_ids} & now.keys()
    schema_ids = {
        s.schema_id for s in metadata.schemas for i in sources if i in s.fields_by_id and s.fields_by_id[i].type != now[i].type
    }
    for moved in moved_by_promotion((), metadata.schema, specs, metadata.format_version):
        if moved.old == DATE:
            schema_ids |= first_schemas(metadata.schemas, moved.field.source_id).schema_ids
    return schema_ids
