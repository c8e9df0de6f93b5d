"""The body of a commit request: the requirements that the server can check, and the updates in the order in which it applies
them.

The specification has requirements for refs and ids, but not for everything that a commit of this package depends on
(``spec.requirements``: no other run, the same retention, the same properties). Those are checked on the state that is loaded right
before. If the heads of refs matter, each head is also a requirement, so that the server holds that state as far as it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.serde.json.partition_json import spec_to_dict
from iceberg_ops.serde.json.schema_json import schema_to_dict
from iceberg_ops.serde.json.sort_json import sort_order_to_dict
from iceberg_ops.serde.json.update_json import requirement_to_dict, update_to_dict
from iceberg_ops.spec.requirements import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertRetention,
    AssertSameHeads,
    AssertSameRef,
    AssertTableUUID,
    TableRequirement,
)
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import (
    LAST_ADDED,
    AddPartitionSpec,
    AddSchema,
    AddSnapshot,
    AddSortOrder,
    AssignUUID,
    RemoveSnapshotRef,
    RemoveSnapshots,
    SetCurrentSchema,
    SetDefaultSortOrder,
    SetDefaultSpec,
    SetLocation,
    SetProperties,
    SetSnapshotRef,
    TableUpdate,
    UpgradeFormatVersion,
)

_OF_SERVERS = (
    AssertCreate,
    AssertTableUUID,
    AssertRefSnapshotId,
    AssertLastAssignedFieldId,
    AssertCurrentSchemaId,
    AssertLastAssignedPartitionId,
    AssertDefaultSpecId,
    AssertDefaultSortOrderId,
)


def server_requirements(
    current: TableMetadata, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
) -> tuple[TableRequirement, ...]:
    """The requirements for the server, from ``requirements``, which hold for ``current``: the same table, and unchanged refs if
    these or a removal of snapshots depend on them. Each once."""
    sent: list[TableRequirement] = [AssertTableUUID(current.table_uuid)] if current.table_uuid else []
    sent += [r for r in requirements if isinstance(r, _OF_SERVERS)]
    if any(isinstance(r, AssertRetention | AssertSameHeads) for r in requirements) or any(
        isinstance(u, RemoveSnapshots) for u in updates
    ):
        sent += (AssertRefSnapshotId(name, ref.snapshot_id) for name, ref in current.refs.items())
    for same in requirements:
        if isinstance(same, AssertSameRef):
            sent.append(AssertRefSnapshotId(same.ref, None if same.seen is None else same.seen.snapshot_id))
    return tuple(dict.fromkeys(sent))


def commit_body(
    identifier: Sequence[str],
    requirements: Iterable[TableRequirement],
    updates: Iterable[TableUpdate],
    last_column_id: int,
) -> Any:
    """The body of ``POST .../tables/{table}``; ``last_column_id`` is the table's before the updates. Raises UnsupportedError."""
    return {
        "identifier": table_identifier(identifier),
        "requirements": [requirement_to_dict(r) for r in requirements],
        "updates": list(_sent(updates, last_column_id)),
    }


def with_ids(updates: Sequence[TableUpdate], updated: TableMetadata) -> tuple[TableUpdate, ...]:
    """The updates that produce ``updated``, with its ids for new schemas, specs, their fields and sort orders: some servers use ids
    as they are sent."""

    def known(update: TableUpdate) -> TableUpdate:
        match update:
            case AddSchema(schema=schema):
                same = next((s for s in updated.schemas if s.same_columns(schema)), None)
                return update if same is None else AddSchema(same)
            case AddPartitionSpec(spec=spec):
                made = next((s for s in updated.partition_specs if s.compatible_with(spec)), None)
                return update if made is None else AddPartitionSpec(made)
            case AddSortOrder(sort_order=order):
                existing = next((o for o in updated.sort_orders if o.fields == order.fields), None)
                return update if existing is None else AddSortOrder(existing)
        return update

    return tuple(map(known, updates))


def _sent(updates: Iterable[TableUpdate], last_column_id: int) -> Iterator[dict[str, Any]]:
    """A new schema is sent with its last column id: the specification no longer requires it, but some servers do."""
    for update in updates:
        document = update_to_dict(update)
        if isinstance(update, AddSchema):
            last_column_id = max(last_column_id, update.schema.highest_field_id)
            document["last-column-id"] = last_column_id
        yield document


def forbid_refs_beside_main(catalog: str, updates: Sequence[TableUpdate]) -> None:
    """Prevents rows on main that were meant for a branch, or must not be published: Nessie keeps the last snapshot of a table,
    makes every new one current, and reports success. Raises UnsupportedError."""
    refs = [u for u in updates if isinstance(u, SetSnapshotRef)]
    on_main = {u.ref.snapshot_id for u in refs if u.ref_name == MAIN_BRANCH}
    refused = [f"{u.ref.type} {u.ref_name}" for u in refs if u.ref_name != MAIN_BRANCH]
    refused += [f"removing {u.ref_name}" for u in updates if isinstance(u, RemoveSnapshotRef)]
    if added_snapshots(updates) - on_main:
        refused.append("a snapshot that is not published")
    if refused:
        raise UnsupportedError(
            f"not supported: {refused[0]} in catalog {catalog}, because its server is Nessie, whose tables have one snapshot, on "
            f"main; use branches and tags of Nessie itself (the property prefix names one)"
        )


def table_identifier(identifier: Sequence[str]) -> dict[str, Any]:
    """A table's name in a body."""
    return {"namespace": list(identifier[:-1]), "name": identifier[-1]}


def creation_body(name: str, metadata: TableMetadata, location: str | None, properties: Mapping[str, str]) -> dict[str, Any]:
    """The body of ``POST .../tables`` for a table of ``metadata``; ``location`` None: the server chooses it. ``properties``
    are sent as they were given, including the format version."""
    body = {
        "name": name,
        "location": location,
        "schema": schema_to_dict(metadata.schema),
        "partition-spec": spec_to_dict(metadata.spec),
        "write-order": sort_order_to_dict(metadata.sort_order),
        "stage-create": False,
        "properties": dict(properties),
    }
    return {key: value for key, value in body.items() if value is not None}


def creation(staged: TableMetadata) -> tuple[TableUpdate, ...]:
    """Updates that create an empty table from ``staged`` (which a server has staged), in the order that Iceberg Java sends."""
    return (
        AssignUUID(staged.table_uuid),
        UpgradeFormatVersion(staged.format_version),
        AddSchema(staged.schema),
        SetCurrentSchema(LAST_ADDED),
        AddPartitionSpec(staged.spec),
        SetDefaultSpec(LAST_ADDED),
        AddSortOrder(staged.sort_order),
        SetDefaultSortOrder(LAST_ADDED),
        SetLocation(staged.location),
        SetProperties(dict(staged.properties)),
    )


def added_snapshots(updates: Iterable[TableUpdate]) -> frozenset[int]:
    """Ids of the snapshots that a commit adds and does not remove again."""
    removed = {i for u in updates if isinstance(u, RemoveSnapshots) for i in u.snapshot_ids}
    return frozenset(u.snapshot.snapshot_id for u in updates if isinstance(u, AddSnapshot)) - removed


def can_happen_once(requirements: Iterable[TableRequirement], updates: Sequence[TableUpdate]) -> bool:
    """Whether a second request for the same commit is refused after the first was carried out: it moves a ref from its old
    value."""
    added = added_snapshots(updates)
    moved = {u.ref_name for u in updates if isinstance(u, SetSnapshotRef) and u.ref.snapshot_id in added}
    return any(isinstance(r, AssertRefSnapshotId) and r.ref in moved for r in requirements)
