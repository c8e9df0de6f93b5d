"""The table properties that must change together with the schema (Java: SchemaUpdate.commit).

The name mapping is updated, and properties of single columns follow a renamed column and are removed with a dropped one.
"""

from __future__ import annotations

from iceberg_ops.config.properties import METRICS_COLUMN_PREFIX, PARQUET_BLOOM_FILTER_FPP_PREFIX, PARQUET_BLOOM_FILTER_PREFIX
from iceberg_ops.serde.json.name_mapping_json import name_mapping_update
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import RemoveProperties, SetProperties, TableUpdate

COLUMN_PREFIXES = (METRICS_COLUMN_PREFIX, PARQUET_BLOOM_FILTER_PREFIX, PARQUET_BLOOM_FILTER_FPP_PREFIX)


def schema_followers(metadata: TableMetadata, schema: Schema) -> tuple[TableUpdate, ...]:
    """The updates to commit when ``schema`` becomes current; empty if no property follows it. Raises CorruptTableError for a
    name mapping that cannot be read."""
    updates: dict[str, str] = {}
    removals: list[str] = []
    for key, value in metadata.properties.items():
        prefix = next((p for p in COLUMN_PREFIXES if key.startswith(p)), None)
        column = metadata.schema.find(key.removeprefix(prefix)) if prefix is not None else None
        if prefix is None or column is None:
            continue
        new_name = schema.names_by_id.get(column.field_id)
        if new_name is not None and schema.find(key.removeprefix(prefix)) == schema.fields_by_id[column.field_id]:
            continue
        removals.append(key)
        if new_name is not None:
            updates[prefix + new_name] = value
    removals = [key for key in removals if key not in updates]
    followers: list[TableUpdate] = [update] if (update := name_mapping_update(metadata, schema)) is not None else []
    if updates:
        followers.append(SetProperties(updates))
    if removals:
        followers.append(RemoveProperties(tuple(removals)))
    return tuple(followers)
