"""Reads data of a table that another engine has replaced (CREATE OR REPLACE TABLE): the table keeps its uuid and its former
snapshots, and a new column gets the id of the former one with its name, whatever its type. Manifests do not record the types of
partition values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from iceberg_ops.errors import CorruptTableError, FormerColumnsError
from iceberg_ops.serde.manifests.manifest_avro import read_table_schema
from iceberg_ops.spec.manifests import ManifestEntry, ManifestFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.manifests import entries_of
from iceberg_ops.table.stored_files import read_stored
from iceberg_ops.table.table import Table


def table_with_schema(table: Table, schema: Schema) -> Table:
    """The table as needed to read a snapshot of ``schema``: the snapshot's columns give the types of partition values that the
    table's do not (``TableMetadata.schema_of_values``). The table may no longer have such a column, too."""
    schema_of_rows = table.metadata.schema_of_values(schema)
    if schema_of_rows.schema_id == table.metadata.current_schema_id:
        return table
    return replace(table, metadata=replace(table.metadata, current_schema_id=schema_of_rows.schema_id))


def as_written(table: Table, snapshot: Snapshot, manifest: ManifestFile) -> Table:
    """The table as needed to read a manifest of ``snapshot``: with the columns of the snapshot that made it, as long as that
    exists. A branch of the former table may have new commits, whose snapshots have the current columns and still list its
    manifests."""
    maker = table.metadata.snapshots_by_id.get(manifest.added_snapshot_id or -1, snapshot)
    return table_with_schema(table, table.metadata.schema_of(maker))


def former_entries_of(table: Table, snapshot: Snapshot, manifest: ManifestFile) -> Sequence[ManifestEntry]:
    """Entries of a manifest of ``snapshot``, for callers that do not use partition values: if the snapshot that made it has
    expired, with the columns of any schema that can read it. Raises CorruptTableError if none can."""
    try:
        return entries_of(as_written(table, snapshot, manifest), manifest)
    except CorruptTableError:
        for schema in _of_each_type(table.metadata, manifest.partition_spec_id):
            with suppress(CorruptTableError):
                then = replace(table.metadata, current_schema_id=schema.schema_id)
                return entries_of(replace(table, metadata=then), manifest)
        raise


def live_entries_of(table: Table, snapshot: Snapshot, manifest: ManifestFile) -> Sequence[ManifestEntry]:
    """The live entries of ``former_entries_of``."""
    return [e for e in former_entries_of(table, snapshot, manifest) if e.is_live]


def schema_when_made(table: Table, manifest: ManifestFile) -> Schema | None:
    """The table's schema when the manifest was written, as recorded in it; None if it is not. Raises CorruptTableError."""
    return read_table_schema(read_stored(table.io, manifest.manifest_path, "manifest"), manifest.manifest_path)


def schema_of_maker(table: Table, manifest: ManifestFile) -> Schema | None:
    """The schema of the snapshot that made the manifest. If that has expired, or if the manifest carries files of other snapshots,
    the schema recorded in the manifest: it may be one of former columns that lost a file. Raises CorruptTableError."""
    maker = table.metadata.snapshots_by_id.get(manifest.added_snapshot_id or -1)
    if maker is not None and manifest.existing_files_count == 0:
        return table.metadata.schema_of(maker)
    known = schema_when_made(table, manifest)
    return table.metadata.schema_of(maker) if known is None and maker is not None else known


def of_former_columns(table: Table, manifests: Iterable[ManifestFile]) -> dict[str, Schema]:
    """The schemas, by path, of those of the manifests that were made while the table had other columns with these ids. A copy of
    their entries would not show that, and their partition values need not have any of the current types. Raises
    CorruptTableError."""
    metadata = table.metadata
    if all(map(metadata.reads_columns_of, metadata.schemas)):
        return {}
    made = ((m, schema_of_maker(table, m)) for m in manifests)
    return {m.manifest_path: schema for m, schema in made if schema is not None and not metadata.reads_columns_of(schema)}


def with_former_columns(table: Table, schema: Schema) -> Table:
    """The table with the columns of a former schema, to rewrite a manifest of them. Raises FormerColumnsError if the table no
    longer has that schema."""
    known = table.metadata.schemas_by_id.get(schema.schema_id)
    if known is None or known.struct != schema.struct:
        raise FormerColumnsError(
            f"table {table.name}: files of former columns cannot be removed one by one, because the table does not have their "
            f"schema {schema.schema_id} any more: another engine has replaced it since (CREATE OR REPLACE TABLE)"
        )
    return replace(table, metadata=replace(table.metadata, current_schema_id=schema.schema_id))


def _of_each_type(metadata: TableMetadata, spec_id: int) -> list[Schema]:
    """The latest schema for each set of types that the sources of a partition spec have had: other schemas give the same result,
    and each attempt reads the file again."""
    spec = metadata.specs_by_id.get(spec_id)
    sources = [] if spec is None else [i for f in spec.fields for i in f.source_ids]
    latest = {tuple(f and f.type for f in map(schema.fields_by_id.get, sources)): schema for schema in metadata.schemas}
    return [*reversed(latest.values())] if sources else []
