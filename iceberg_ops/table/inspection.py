"""The metadata tables of ``iceberg-ops inspect``, as rows of plain JSON values.

Times are ISO 8601 UTC with milliseconds, values have the spec's JSON single-value form, and partition values of time transforms the
text of partition paths (``2017-12-01-10``). Topics about a snapshot use main's head by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from iceberg_ops.errors import BadInputError, CorruptTableError, UnsupportedError
from iceberg_ops.serde.json.single_value_json import to_json_value
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.epoch import iso_timestamp
from iceberg_ops.spec.manifests import FieldSummary, ManifestFile
from iceberg_ops.spec.partition_keys import PartitionKey, partition_key
from iceberg_ops.spec.partitioning import PartitionField
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.transform_functions import human_value
from iceberg_ops.spec.types import MISSING, UNKNOWN, GeographyType, GeometryType, IcebergType, NestedField
from iceberg_ops.spec.values import from_bytes, geo_bound_from_bytes, human
from iceberg_ops.spec.wkb import point_wkt
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table, require_spec

Row = dict[str, Any]
_TIMES = frozenset({"year", "month", "day", "hour"})


def inspect(table: Table, topic: str, snapshot: Snapshot | None = None) -> list[Row]:
    """Rows of one topic (see TOPICS). Raises BadInputError for an unknown topic, CorruptTableError for a broken file."""
    if topic not in TOPICS:
        raise BadInputError(f"unknown topic {topic!r}: must be one of {', '.join(TOPICS)}")
    return TOPICS[topic](table, snapshot or table.metadata.current_snapshot)


def snapshots(table: Table, _: Snapshot | None = None) -> list[Row]:
    """One row per snapshot, oldest first."""
    return [
        {
            "committed_at": _time(s.timestamp_ms),
            "snapshot_id": s.snapshot_id,
            "parent_id": s.parent_snapshot_id,
            "sequence_number": s.sequence_number,
            "operation": s.operation,
            "schema_id": s.schema_id,
            "manifest_list": s.manifest_list,
            "summary": dict(s.summary),
        }
        for s in sorted(table.metadata.snapshots, key=lambda s: s.timestamp_ms)
    ]


def refs(table: Table, _: Snapshot | None = None) -> list[Row]:
    """One row per branch and tag."""
    return [
        {
            "name": name,
            "type": ref.type,
            "snapshot_id": ref.snapshot_id,
            "max_ref_age_ms": ref.max_ref_age_ms,
            "min_snapshots_to_keep": ref.min_snapshots_to_keep,
            "max_snapshot_age_ms": ref.max_snapshot_age_ms,
        }
        for name, ref in sorted(table.metadata.refs.items())
    ]


def history(table: Table, _: Snapshot | None = None) -> list[Row]:
    """The snapshot log: what was current when."""
    metadata = table.metadata
    ancestors = {s.snapshot_id for s in metadata.ancestors(metadata.current_snapshot_id)}
    return [
        {
            "made_current_at": _time(entry.timestamp_ms),
            "snapshot_id": entry.snapshot_id,
            "parent_id": s.parent_snapshot_id if (s := metadata.snapshots_by_id.get(entry.snapshot_id)) else None,
            "is_current_ancestor": entry.snapshot_id in ancestors,
        }
        for entry in metadata.snapshot_log
    ]


def manifests(table: Table, snapshot: Snapshot | None) -> list[Row]:
    """One row per manifest of the snapshot."""
    return [
        {
            "content": m.content.name.lower(),
            "path": m.manifest_path,
            "length": m.manifest_length,
            "partition_spec_id": m.partition_spec_id,
            "added_snapshot_id": m.added_snapshot_id,
            "sequence_number": m.sequence_number,
            "min_sequence_number": m.min_sequence_number,
            "added_files_count": m.added_files_count,
            "existing_files_count": m.existing_files_count,
            "deleted_files_count": m.deleted_files_count,
            "added_rows_count": m.added_rows_count,
            "existing_rows_count": m.existing_rows_count,
            "deleted_rows_count": m.deleted_rows_count,
            "first_row_id": m.first_row_id,
            "partition_summaries": _summaries(table, m),
        }
        for m in manifests_of(table, snapshot)
    ]


def files(table: Table, snapshot: Snapshot | None) -> list[Row]:
    """One row per live data and delete file of the snapshot."""
    names = {i: table.metadata.schema.names_by_id.get(i, str(i)) for i in table.metadata.all_fields_by_id}
    rows = []
    for m in manifests_of(table, snapshot):
        for entry in entries_of(table, m, live_only=True):
            row = _file(table, entry.data_file, names)
            row["sequence_number"] = entry.sequence_number
            row["snapshot_id"] = entry.snapshot_id
            rows.append(row)
    return rows


def partitions(table: Table, snapshot: Snapshot | None) -> list[Row]:
    """One row per partition with live files: the number of files, rows and bytes, separately for data and for deletes."""
    rows_by_partition: dict[PartitionKey, Row] = {}
    for m in manifests_of(table, snapshot):
        for entry in entries_of(table, m, live_only=True):
            _add_to_partition(rows_by_partition, table, entry.data_file)
    return sorted(rows_by_partition.values(), key=lambda row: (row["spec_id"], str(row["partition"])))


def schema(table: Table, _: Snapshot | None = None) -> list[Row]:
    """One row per column of the current schema at every depth."""
    current = table.metadata.schema
    return [
        {
            "id": f.field_id,
            "name": current.names_by_id[f.field_id],
            "type": str(f.type),
            "required": f.required,
            "identifier": f.field_id in current.identifier_field_ids,
            "doc": f.doc,
            "initial_default": _default(f, f.initial_default),
            "write_default": _default(f, f.write_default),
        }
        for f in current.fields_by_id.values()
    ]


def properties(table: Table, _: Snapshot | None = None) -> list[Row]:
    """One row per table property."""
    return [{"key": key, "value": value} for key, value in sorted(table.properties.items())]


def metadata(table: Table, _: Snapshot | None = None) -> list[Row]:
    """One row: the table's metadata file and its top-level fields."""
    m = table.metadata
    return [
        {
            "metadata_location": table.metadata_location,
            "format_version": m.format_version,
            "table_uuid": m.table_uuid,
            "location": m.location,
            "last_updated": _time(m.last_updated_ms),
            "last_sequence_number": m.last_sequence_number,
            "current_snapshot_id": m.current_snapshot_id,
            "current_schema_id": m.current_schema_id,
            "partition_spec": [f"{f.transform}({_source(table, f)}) as {f.name}" for f in m.spec.fields],
            "sort_order": [
                f"{f.transform}({_name(table, f.source_id)}) {f.direction.value} {f.null_order.value}" for f in m.sort_order.fields
            ],
            "snapshots": len(m.snapshots),
            "schemas": len(m.schemas),
            "partition_specs": len(m.partition_specs),
            "next_row_id": m.next_row_id,
            "metadata_log": [e.metadata_file for e in m.metadata_log],
        }
    ]


TOPICS: Mapping[str, Callable[[Table, Snapshot | None], list[Row]]] = {
    "snapshots": snapshots,
    "refs": refs,
    "history": history,
    "manifests": manifests,
    "files": files,
    "partitions": partitions,
    "schema": schema,
    "properties": properties,
    "metadata": metadata,
}


def partition_row(table: Table, spec_id: int, partition: Sequence[Any]) -> Row:
    """A partition tuple by field name, in JSON values; a value of unknown type as it is stored, bytes in hex."""
    spec, known = require_spec(table.metadata, spec_id), table.metadata.all_fields_by_id
    types = spec.partition_type(known).fields
    row = {}
    for field, typed, value in zip(spec.fields, types, partition, strict=True):
        source = known[field.source_id].type if field.source_id in known else UNKNOWN
        if typed.type == UNKNOWN:
            row[field.name] = value.hex() if isinstance(value, bytes) else value
        elif value is not None and field.transform.name in _TIMES:
            row[field.name] = human_value(field.transform, source, value)
        else:
            row[field.name] = to_json_value(typed.type, value)
    return row


def _file(table: Table, f: DataFile, names: Mapping[int, str]) -> Row:
    row: Row = {
        "content": f.content.name.lower(),
        "file_path": f.file_path,
        "file_format": f.file_format.value,
        "spec_id": f.spec_id,
        "partition": partition_row(table, f.spec_id, f.partition),
        "record_count": f.record_count,
        "file_size_in_bytes": f.file_size_in_bytes,
    }
    for key in ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"):
        counts = getattr(f, key)
        row[key] = None if counts is None else {names.get(i, str(i)): n for i, n in counts.items()}
    for key in ("lower_bounds", "upper_bounds"):
        bounds = getattr(f, key)
        row[key] = None if bounds is None else {names.get(i, str(i)): _bound(table, i, raw) for i, raw in bounds.items()}
    row["split_offsets"] = None if f.split_offsets is None else list(f.split_offsets)
    row["equality_ids"] = None if f.equality_ids is None else list(f.equality_ids)
    for key in ("sort_order_id", "first_row_id", "referenced_data_file", "content_offset", "content_size_in_bytes"):
        row[key] = getattr(f, key)
    return row


def _bound(table: Table, field_id: int, raw: bytes) -> Any:
    field = table.metadata.all_fields_by_id.get(field_id)
    return raw.hex() if field is None else _value(field.type, raw)


def _value(type_: IcebergType, raw: bytes) -> Any:
    """A readable form of a binary single value; hex if it has no other form or does not fit its type."""
    try:
        if isinstance(type_, GeometryType | GeographyType):
            return point_wkt(*geo_bound_from_bytes(raw))
        return to_json_value(type_, from_bytes(type_, raw))
    except (CorruptTableError, UnsupportedError):
        return raw.hex()


def _summaries(table: Table, m: ManifestFile) -> list[Row] | None:
    if m.partitions is None:
        return None
    spec = require_spec(table.metadata, m.partition_spec_id)
    types = spec.partition_type(table.metadata.all_fields_by_id).fields
    return [_summary(field, type_, s) for field, type_, s in zip(spec.fields, types, m.partitions, strict=False)]


def _summary(field: PartitionField, type_: NestedField, s: FieldSummary) -> Row:
    return {
        "field": field.name,
        "contains_null": s.contains_null,
        "contains_nan": s.contains_nan,
        "lower_bound": None if s.lower_bound is None else _value(type_.type, s.lower_bound),
        "upper_bound": None if s.upper_bound is None else _value(type_.type, s.upper_bound),
    }


def _add_to_partition(rows: dict[PartitionKey, Row], table: Table, f: DataFile) -> None:
    key = partition_key(f.spec_id, f.partition)
    row = rows.get(key)
    if row is None:
        row = rows[key] = {
            "spec_id": f.spec_id,
            "partition": partition_row(table, f.spec_id, f.partition),
            "data_files": 0,
            "records": 0,
            "data_bytes": 0,
            "position_delete_files": 0,
            "position_deletes": 0,
            "equality_delete_files": 0,
            "equality_deletes": 0,
            "deletion_vectors": 0,
        }
    if f.content is FileContent.DATA:
        row["data_files"] += 1
        row["records"] += f.record_count
        row["data_bytes"] += f.file_size_in_bytes
    elif f.content is FileContent.EQUALITY_DELETES:
        row["equality_delete_files"] += 1
        row["equality_deletes"] += f.record_count
    else:
        row["deletion_vectors" if f.is_deletion_vector else "position_delete_files"] += 1
        row["position_deletes"] += f.record_count


def _default(field: NestedField, value: Any) -> Any:
    return None if value is MISSING else human(field.type, value)


def _source(table: Table, field: PartitionField) -> str:
    return ", ".join(_name(table, i) for i in field.source_ids)


def _name(table: Table, field_id: int) -> str:
    return table.metadata.schema.names_by_id.get(field_id, f"#{field_id}")


def _time(timestamp_ms: int) -> str:
    return iso_timestamp(timestamp_ms, 1000, utc=True, digits=3)
