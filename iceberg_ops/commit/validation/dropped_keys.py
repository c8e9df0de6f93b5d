"""Refuses to drop a column that live equality deletes compare.

This package can still read such a table. Iceberg Java allows the drop, and then fails every scan of a file that such a delete
applies to ("Cannot find required field for ID"), of tags as well, because it looks the column up in the current schema. Only the
heads of branches and tags are checked, not the snapshots before them.
"""

from __future__ import annotations

from iceberg_ops.errors import SchemaError
from iceberg_ops.spec.manifests import ManifestContent
from iceberg_ops.spec.requirements import TableRequirement, same_heads
from iceberg_ops.spec.schema import Schema
from iceberg_ops.table.former_columns import live_entries_of
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table


def no_dropped_delete_keys(table: Table, schema: Schema) -> tuple[TableRequirement, ...]:
    """The requirements for ``schema`` to replace the current one: no branch or tag was moved or created since they were read. Empty
    if the change drops no column: then no file is read. Raises SchemaError, CorruptTableError."""
    dropped = table.schema.fields_by_id.keys() - schema.fields_by_id.keys()
    if not dropped:
        return ()
    seen: set[str] = set()
    for name, ref in table.metadata.refs.items():
        snapshot = table.metadata.snapshot(ref.snapshot_id)
        for manifest in manifests_of(table, snapshot):
            if manifest.content is not ManifestContent.DELETES or manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            for entry in live_entries_of(table, snapshot, manifest):
                if lost := dropped.intersection(entry.data_file.equality_ids or ()):
                    raise SchemaError(_refusal(table, min(lost), name, ref.is_branch, entry.data_file.file_path))
    return same_heads(table.metadata)


def _refusal(table: Table, field_id: int, ref: str, is_branch: bool, path: str) -> str:
    first = f"run convert_equality_deletes on branch {ref!r} first" if is_branch else f"drop tag {ref!r} first"
    return (
        f"cannot drop column {table.schema.names_by_id[field_id]!r}: equality delete file {path}, live in "
        f"{'branch' if is_branch else 'tag'} {ref!r}, compares it, and Iceberg Java could not scan the table: {first}, or allow "
        f"incompatible changes (--allow-incompatible) where only iceberg-ops reads the table"
    )
