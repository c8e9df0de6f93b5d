"""Table updates and requirements <-> JSON, with the names of the REST catalog specification (TableUpdate, TableRequirement).

Reading a written update or requirement gives an equal one. Reading raises CorruptTableError for a malformed object and
UnsupportedError for an unknown action or requirement. It is the body of a REST catalog's commit (``catalog.rest``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.serde.json.json_objects import JsonObject, as_int, as_list, as_long, as_text, as_text_map
from iceberg_ops.serde.json.partition_json import spec_from_dict, spec_to_dict
from iceberg_ops.serde.json.schema_json import schema_from_dict, schema_to_dict
from iceberg_ops.serde.json.snapshot_json import (
    partition_statistics_from_dict,
    partition_statistics_to_dict,
    ref_from_dict,
    ref_to_dict,
    snapshot_from_dict,
    snapshot_to_dict,
    statistics_from_dict,
    statistics_to_dict,
)
from iceberg_ops.serde.json.sort_json import sort_order_from_dict, sort_order_to_dict
from iceberg_ops.spec import requirements as r
from iceberg_ops.spec import updates as u

_Writer = Callable[[Any], dict[str, Any]]
_UPDATES: Mapping[type[u.TableUpdate], tuple[str, _Writer]] = {
    u.AssignUUID: ("assign-uuid", lambda x: {"uuid": x.uuid}),
    u.UpgradeFormatVersion: ("upgrade-format-version", lambda x: {"format-version": x.format_version}),
    u.AddSchema: ("add-schema", lambda x: {"schema": schema_to_dict(x.schema)}),
    u.SetCurrentSchema: ("set-current-schema", lambda x: {"schema-id": x.schema_id}),
    u.AddPartitionSpec: ("add-spec", lambda x: {"spec": spec_to_dict(x.spec)}),
    u.SetDefaultSpec: ("set-default-spec", lambda x: {"spec-id": x.spec_id}),
    u.AddSortOrder: ("add-sort-order", lambda x: {"sort-order": sort_order_to_dict(x.sort_order)}),
    u.SetDefaultSortOrder: ("set-default-sort-order", lambda x: {"sort-order-id": x.sort_order_id}),
    u.AddSnapshot: ("add-snapshot", lambda x: {"snapshot": snapshot_to_dict(x.snapshot)}),
    u.SetSnapshotRef: ("set-snapshot-ref", lambda x: {"ref-name": x.ref_name, **ref_to_dict(x.ref)}),
    u.RemoveSnapshots: ("remove-snapshots", lambda x: {"snapshot-ids": list(x.snapshot_ids)}),
    u.RemoveSnapshotRef: ("remove-snapshot-ref", lambda x: {"ref-name": x.ref_name}),
    u.SetLocation: ("set-location", lambda x: {"location": x.location}),
    u.SetProperties: ("set-properties", lambda x: {"updates": dict(x.updates)}),
    u.RemoveProperties: ("remove-properties", lambda x: {"removals": list(x.removals)}),
    u.SetStatistics: (
        "set-statistics",
        lambda x: {"snapshot-id": x.statistics.snapshot_id, "statistics": statistics_to_dict(x.statistics)},
    ),
    u.RemoveStatistics: ("remove-statistics", lambda x: {"snapshot-id": x.snapshot_id}),
    u.SetPartitionStatistics: (
        "set-partition-statistics",
        lambda x: {"partition-statistics": partition_statistics_to_dict(x.partition_statistics)},
    ),
    u.RemovePartitionStatistics: ("remove-partition-statistics", lambda x: {"snapshot-id": x.snapshot_id}),
    u.RemovePartitionSpecs: ("remove-partition-specs", lambda x: {"spec-ids": list(x.spec_ids)}),
    u.RemoveSchemas: ("remove-schemas", lambda x: {"schema-ids": list(x.schema_ids)}),
    u.AddEncryptionKey: ("add-encryption-key", lambda x: {"encryption-key": dict(x.key)}),
    u.RemoveEncryptionKey: ("remove-encryption-key", lambda x: {"key-id": x.key_id}),
}


def update_to_dict(update: u.TableUpdate) -> dict[str, Any]:
    """The update's JSON object, with its ``action``. Raises UnsupportedError."""
    known = _UPDATES.get(type(update))
    if known is None:
        raise UnsupportedError(f"not supported: {type(update).__name__} as JSON, because the REST specification has no such update")
    action, write = known
    return {"action": action, **write(update)}


def _longs(value: Any, what: str) -> tuple[int, ...]:
    return tuple(as_long(v, what) for v in as_list(value, what))


def _ints(value: Any, what: str) -> tuple[int, ...]:
    return tuple(as_int(v, what) for v in as_list(value, what))


def _texts(value: Any, what: str) -> tuple[str, ...]:
    return tuple(as_text(v, what) for v in as_list(value, what))


def _object(value: Any, what: str) -> Any:
    JsonObject(value, what)
    return value


def _ref(document: JsonObject) -> u.SetSnapshotRef:
    name = document.get("ref-name", as_text)
    return u.SetSnapshotRef(name, ref_from_dict({k: v for k, v in document.extra().items() if k != "action"}, name))


def _removed_snapshots(document: JsonObject) -> u.RemoveSnapshots:
    return u.RemoveSnapshots(document.get("snapshot-ids", _longs))


_READ_UPDATE: Mapping[str, Callable[[JsonObject], u.TableUpdate]] = {
    "assign-uuid": lambda x: u.AssignUUID(x.get("uuid", as_text)),
    "upgrade-format-version": lambda x: u.UpgradeFormatVersion(x.get("format-version", as_int)),
    "add-schema": lambda x: u.AddSchema(x.get("schema", schema_from_dict)),
    "set-current-schema": lambda x: u.SetCurrentSchema(x.get("schema-id", as_int)),
    "add-spec": lambda x: u.AddPartitionSpec(x.get("spec", spec_from_dict)),
    "set-default-spec": lambda x: u.SetDefaultSpec(x.get("spec-id", as_int)),
    "add-sort-order": lambda x: u.AddSortOrder(x.get("sort-order", sort_order_from_dict)),
    "set-default-sort-order": lambda x: u.SetDefaultSortOrder(x.get("sort-order-id", as_int)),
    "add-snapshot": lambda x: u.AddSnapshot(x.get("snapshot", lambda v, _: snapshot_from_dict(v))),
    "set-snapshot-ref": _ref,
    "remove-snapshots": _removed_snapshots,
    "remove-snapshot-ref": lambda x: u.RemoveSnapshotRef(x.get("ref-name", as_text)),
    "set-location": lambda x: u.SetLocation(x.get("location", as_text)),
    "set-properties": lambda x: u.SetProperties(x.get("updates", as_text_map)),
    "remove-properties": lambda x: u.RemoveProperties(x.get("removals", _texts)),
    "set-statistics": lambda x: u.SetStatistics(x.get("statistics", lambda v, _: statistics_from_dict(v))),
    "remove-statistics": lambda x: u.RemoveStatistics(x.get("snapshot-id", as_long)),
    "set-partition-statistics": lambda x: u.SetPartitionStatistics(
        x.get("partition-statistics", lambda v, _: partition_statistics_from_dict(v))
    ),
    "remove-partition-statistics": lambda x: u.RemovePartitionStatistics(x.get("snapshot-id", as_long)),
    "remove-partition-specs": lambda x: u.RemovePartitionSpecs(x.get("spec-ids", _ints)),
    "remove-schemas": lambda x: u.RemoveSchemas(x.get("schema-ids", _ints)),
    "add-encryption-key": lambda x: u.AddEncryptionKey(x.get("encryption-key", _object)),
    "remove-encryption-key": lambda x: u.RemoveEncryptionKey(x.get("key-id", as_text)),
}


def update_from_dict(value: Any) -> u.TableUpdate:
    """The update of a JSON object. Raises CorruptTableError, UnsupportedError."""
    document = JsonObject(value, "a table update")
    action = document.get("action", as_text)
    document.what = f"table update {action}"
    read = _READ_UPDATE.get(action)
    if read is None:
        raise UnsupportedError(f"not supported: table update {action!r}, because only {', '.join(sorted(_READ_UPDATE))} are known")
    return read(document)


_REQUIREMENTS: Mapping[type[r.TableRequirement], tuple[str, _Writer]] = {
    r.AssertCreate: ("assert-create", lambda x: {}),
    r.AssertTableUUID: ("assert-table-uuid", lambda x: {"uuid": x.uuid}),
    r.AssertRefSnapshotId: ("assert-ref-snapshot-id", lambda x: {"ref": x.ref, "snapshot-id": x.snapshot_id}),
    r.AssertLastAssignedFieldId: ("assert-last-assigned-field-id", lambda x: {"last-assigned-field-id": x.last_assigned_field_id}),
    r.AssertCurrentSchemaId: ("assert-current-schema-id", lambda x: {"current-schema-id": x.current_schema_id}),
    r.AssertLastAssignedPartitionId: (
        "assert-last-assigned-partition-id",
        lambda x: {"last-assigned-partition-id": x.last_assigned_partition_id},
    ),
    r.AssertDefaultSpecId: ("assert-default-spec-id", lambda x: {"default-spec-id": x.default_spec_id}),
    r.AssertDefaultSortOrderId: ("assert-default-sort-order-id", lambda x: {"default-sort-order-id": x.default_sort_order_id}),
}
_READ_REQUIREMENT: Mapping[str, Callable[[JsonObject], r.TableRequirement]] = {
    "assert-create": lambda x: r.AssertCreate(),
    "assert-table-uuid": lambda x: r.AssertTableUUID(x.get("uuid", as_text)),
    "assert-ref-snapshot-id": lambda x: r.AssertRefSnapshotId(x.get("ref", as_text), x.maybe("snapshot-id", as_long)),
    "assert-last-assigned-field-id": lambda x: r.AssertLastAssignedFieldId(x.get("last-assigned-field-id", as_int)),
    "assert-current-schema-id": lambda x: r.AssertCurrentSchemaId(x.get("current-schema-id", as_int)),
    "assert-last-assigned-partition-id": lambda x: r.AssertLastAssignedPartitionId(x.get("last-assigned-partition-id", as_int)),
    "assert-default-spec-id": lambda x: r.AssertDefaultSpecId(x.get("default-spec-id", as_int)),
    "assert-default-sort-order-id": lambda x: r.AssertDefaultSortOrderId(x.get("default-sort-order-id", as_int)),
}


def requirement_to_dict(requirement: r.TableRequirement) -> dict[str, Any]:
    """The requirement's JSON object, with its ``type``; an absent ref has the ``snapshot-id`` null. Raises UnsupportedError."""
    known = _REQUIREMENTS.get(type(requirement))
    if known is None:
        raise UnsupportedError(
            f"not supported: {type(requirement).__name__} as JSON, because the REST specification has no such one"
        )
    kind, write = known
    return {"type": kind, **write(requirement)}


def requirement_from_dict(value: Any) -> r.TableRequirement:
    """The requirement of a JSON object. Raises CorruptTableError, UnsupportedError."""
    document = JsonObject(value, "a table requirement")
    kind = document.get("type", as_text)
    document.what = f"table requirement {kind}"
    read = _READ_REQUIREMENT.get(kind)
    if read is None:
        raise UnsupportedError(
            f"not supported: table requirement {kind!r}, because only {', '.join(sorted(_READ_REQUIREMENT))} are known"
        )
    return read(document)
