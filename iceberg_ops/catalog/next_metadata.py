"""Computes the metadata of a commit, or the reason why the commit must be retried.

Besides the requirements of a commit, four conditions must hold for the metadata that it is applied to, in every catalog. If one
fails, the commit was built on older metadata, and a refresh can repair it:

- a new snapshot's sequence number is above the last assigned one (a commit to another branch may have taken it);
- a new snapshot's first row id is not below the table's next row id (v3);
- the schema and the partition specs of a new snapshot's manifests are in the table (an expiry may have removed them);
- a removed snapshot is the head of no branch or tag that the same commit leaves in place (a tag made during an expiry survives).

A commit that removes a folder from the table records the folder. This is done here, and not where the change is staged, because
only here the table's folders right before the commit are known.
"""

from __future__ import annotations

from collections.abc import Sequence

from iceberg_ops.errors import CommitFailedError
from iceberg_ops.spec.metadata_builder import apply_updates
from iceberg_ops.spec.requirements import TableRequirement
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import (
    AddSnapshot,
    RemoveSnapshotRef,
    RemoveSnapshots,
    SetProperties,
    SetSnapshotRef,
    TableUpdate,
    UpgradeFormatVersion,
)
from iceberg_ops.table.own_folders import former_folder_properties


def next_metadata(
    current: TableMetadata,
    requirements: Sequence[TableRequirement],
    updates: Sequence[TableUpdate],
    *,
    now_ms: int,
    metadata_location: str,
) -> TableMetadata:
    """``current`` with ``updates`` applied; ``current`` itself if they change nothing. Raises CommitFailedError."""
    return next_commit(current, requirements, updates, now_ms=now_ms, metadata_location=metadata_location)[0]


def next_commit(
    current: TableMetadata,
    requirements: Sequence[TableRequirement],
    updates: Sequence[TableUpdate],
    *,
    now_ms: int,
    metadata_location: str,
) -> tuple[TableMetadata, tuple[TableUpdate, ...]]:
    """The same metadata, with all its updates, including those that record folders: a server applies them itself.
    Raises CommitFailedError."""
    for requirement in requirements:
        requirement.check(current)
    if not updates:
        return current, ()
    _check_new_snapshots(current, updates)
    _check_removed_snapshots(current, updates)
    now_ms = max(now_ms, current.last_updated_ms)
    updated = apply_updates(current, updates, now_ms=now_ms, previous_metadata_file=metadata_location)
    if former := former_folder_properties(current, updated):
        updates = (*updates, SetProperties(former))
        updated = apply_updates(current, updates, now_ms=now_ms, previous_metadata_file=metadata_location)
    for update in updates:
        if isinstance(update, AddSnapshot):
            _check_schema_and_specs(updated, update)
    return updated, tuple(updates)


def _check_new_snapshots(current: TableMetadata, updates: Sequence[TableUpdate]) -> None:
    version, sequence, next_row_id = current.format_version, current.last_sequence_number, current.next_row_id or 0
    known = set(current.snapshots_by_id)
    for update in updates:
        if isinstance(update, UpgradeFormatVersion):
            version = update.format_version
        elif isinstance(update, AddSnapshot):
            snapshot = update.snapshot
            if snapshot.snapshot_id in known:
                raise CommitFailedError(f"snapshot {snapshot.snapshot_id} is already in the table")
            if version >= 2 and snapshot.sequence_number <= sequence:
                raise CommitFailedError(
                    f"snapshot {snapshot.snapshot_id} has sequence number {snapshot.sequence_number}, but {sequence} is "
                    f"already assigned"
                )
            if current.format_version >= 3 and snapshot.first_row_id is None:
                raise CommitFailedError(f"snapshot {snapshot.snapshot_id} was staged before the table was upgraded to v3")
            if version >= 3 and (snapshot.first_row_id or 0) < next_row_id:
                raise CommitFailedError(
                    f"snapshot {snapshot.snapshot_id} has first row id {snapshot.first_row_id}, but the table is at {next_row_id}"
                )
            known.add(snapshot.snapshot_id)
            sequence = snapshot.sequence_number
            next_row_id = (snapshot.first_row_id or 0) + (snapshot.added_rows or 0)


def _check_schema_and_specs(updated: TableMetadata, update: AddSnapshot) -> None:
    """Prevents a snapshot that no engine can read. The id alone does not identify a schema or spec: a free id is assigned again."""
    name = f"snapshot {update.snapshot.snapshot_id}"
    for spec in update.specs:
        if updated.specs_by_id.get(spec.spec_id) != spec:
            raise CommitFailedError(f"{name} has files of partition spec {spec.spec_id}, which the table does not have any more")
    if update.schema is not None and not _is_in(updated, update.schema):
        raise CommitFailedError(f"{name} was written with schema {update.schema.schema_id}, which the table does not have any more")


def _is_in(metadata: TableMetadata, schema: Schema) -> bool:
    existing = metadata.schemas_by_id.get(schema.schema_id)
    return existing is not None and existing.same_columns(schema)


def _check_removed_snapshots(current: TableMetadata, updates: Sequence[TableUpdate]) -> None:
    removed = {i for update in updates if isinstance(update, RemoveSnapshots) for i in update.snapshot_ids}
    if not removed:
        return
    heads = {name: ref.snapshot_id for name, ref in current.refs.items()}
    if current.current_snapshot_id is not None:
        heads["main"] = current.current_snapshot_id
    for update in updates:
        if isinstance(update, RemoveSnapshotRef):
            heads.pop(update.ref_name, None)
        elif isinstance(update, SetSnapshotRef):
            heads[update.ref_name] = update.ref.snapshot_id
    for name, snapshot_id in heads.items():
        if snapshot_id in removed:
            raise CommitFailedError(f"snapshot {snapshot_id} cannot be removed: it is the head of {name}")
