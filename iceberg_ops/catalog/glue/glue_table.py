"""Glue's record of an Iceberg table (Java: ``IcebergToGlueConverter``, ``GlueTableOperations``).

Only ``metadata_location`` defines the table. Columns, description and locations are for people who look at Glue.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iceberg_ops.catalog.hive_types import hive_type
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import NestedField

METADATA_LOCATION = "metadata_location"
PREVIOUS_METADATA_LOCATION = "previous_metadata_location"
TABLE_TYPE = "table_type"
ICEBERG = "ICEBERG"
FORMER_METADATA_LOCATION = "iceberg-ops.former_metadata_location"
"""Of a record that is about to be deleted: where its table's metadata is."""
ATTEMPT = "iceberg-ops.attempt"
"""Of a record that a drop or rename has written: which one it was."""
DESCRIPTION = "comment"
_PLACES = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_KEPT = ("Description", "Owner", "Retention", "StorageDescriptor", "PartitionKeys", "TableType", "Parameters")
"""What of a record goes into the next one."""


def location_in(record: Mapping[str, Any]) -> str | None:
    """The location of the table's metadata in Glue; None if it is not an Iceberg table."""
    parameters: Mapping[str, str] = record.get("Parameters") or {}
    return parameters.get(METADATA_LOCATION) if parameters.get(TABLE_TYPE, "").upper() == ICEBERG else None


def table_input(record: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The unchanged record in the form for an update, under ``name``."""
    return {"Name": name, **{key: record[key] for key in _KEPT if record.get(key) is not None}}


def new_input(
    name: str, location: str, metadata: TableMetadata, *, record: Mapping[str, Any] | None = None, expected: str | None = None
) -> dict[str, Any]:
    """The record of a table whose current metadata is ``metadata``, at ``location``. ``record`` and ``expected``: its former record
    and location, None for a new table. Comments on columns that only Glue has are kept."""
    current = {} if record is None else table_input(record, name)
    parameters = {**current.get("Parameters", {}), TABLE_TYPE: ICEBERG, METADATA_LOCATION: location}
    parameters.pop(ATTEMPT, None)
    if expected is not None:
        parameters[PREVIOUS_METADATA_LOCATION] = expected
    if (description := metadata.properties.get(DESCRIPTION)) is not None:
        current["Description"] = description
    comments = {c["Name"]: c["Comment"] for c in current.get("StorageDescriptor", {}).get("Columns", ()) if c.get("Comment")}
    storage: dict[str, Any] = {"Location": metadata.location, "Columns": _columns(metadata, comments)}
    storage["AdditionalLocations"] = sorted({metadata.properties[key] for key in _PLACES if key in metadata.properties})
    return {**current, "Name": name, "TableType": "EXTERNAL_TABLE", "Parameters": parameters, "StorageDescriptor": storage}


def _columns(metadata: TableMetadata, comments: Mapping[str, str]) -> list[dict[str, Any]]:
    """Columns of the current schema, then those that only former schemas have."""
    columns: dict[str, dict[str, Any]] = {}
    former = [schema for schema in metadata.schemas if schema.schema_id != metadata.schema.schema_id]
    for schema in (metadata.schema, *former):
        for field in schema.fields:
            columns.setdefault(field.name, _column(field, schema is metadata.schema, comments))
    return list(columns.values())


def _column(field: NestedField, is_current: bool, comments: Mapping[str, str]) -> dict[str, Any]:
    parameters = {
        "iceberg.field.id": str(field.field_id),
        "iceberg.field.optional": str(not field.required).lower(),
        "iceberg.field.current": str(is_current).lower(),
    }
    column: dict[str, Any] = {"Name": field.name, "Type": hive_type(field.type), "Parameters": parameters}
    comment = field.doc or comments.get(field.name)
    return {**column, "Comment": comment} if comment else column
