"""Reading what another engine has replaced (CREATE OR REPLACE TABLE): the table keeps its uuid and its former snapshots, and a
column gets the id of the former one of its name, whatever its type. Manifests do not say of which types partition values are."""

from __future__ import annotations

from dataclasses import replace

from iceberg_ops.spec.promotion import can_promote
from iceberg_ops.spec.schema import Schema
from iceberg_ops.table.table import Table


def as_it_was(table: Table, schema: Schema) -> Table:
    """The table as a snapshot of ``schema`` is to be read: its own columns tell of which types partition values are. That differs
    from what the current ones tell only where another engine has replaced the table: a column of the former one's name got its id,
    whatever its type."""
    metadata, now = table.metadata, table.metadata.schema.fields_by_id
    if schema.schema_id == metadata.current_schema_id:
        return table
    pairs = [(f.type, now[i].type) for i, f in schema.fields_by_id.items() if i in now]
    if all((a.is_nested and b.is_nested) or can_promote(a, b, metadata.format_version) for a, b in pairs):
        return table
    return replace(table, metadata=replace(metadata, current_schema_id=schema.schema_id))
