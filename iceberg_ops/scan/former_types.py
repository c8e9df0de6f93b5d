"""Detects files whose columns had other types than the ones that a filter compares.

Another engine may replace a table (CREATE OR REPLACE TABLE) and leave its branches: a new column gets the id of the former one with
its name, whatever its type. Bounds and partition values do not record their type. Compared as values of the current type they would
exclude files that match, and a delete would drop files that do not match.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property

from iceberg_ops.errors import FormerColumnsError
from iceberg_ops.spec.manifests import ManifestFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.table.former_columns import schema_of_maker
from iceberg_ops.table.manifests import entries_of
from iceberg_ops.table.table import Table


class FormerTypes:
    """The former types of the columns ``compared`` (field ids) that differ from their current types."""

    def __init__(self, table: Table, compared: Collection[int]) -> None:
        self._table, self._compared = table, compared

    def forbid(self, manifest: ManifestFile) -> None:
        """Prevents a filter from judging files with these types. It checks files that the manifest's own snapshot added, and files
        of other snapshots if these snapshots still exist. Raises FormerColumnsError, CorruptTableError."""
        if not self._schemas:
            return
        written = schema_of_maker(self._table, manifest)
        self._forbid(None if written is None else self._other_column(written), manifest)
        if manifest.existing_files_count != 0 and self._snapshots:
            for entry in entries_of(self._table, manifest, live_only=True):
                self._forbid(self._snapshots.get(entry.snapshot_id or -1), manifest)

    def _forbid(self, column: str | None, manifest: ManifestFile) -> None:
        if column is not None:
            raise FormerColumnsError(
                f"{column} when files of manifest {manifest.manifest_path} were written, and another engine has replaced the table "
                f"since (CREATE OR REPLACE TABLE): they cannot be filtered by it; a scan of a snapshot from before that reads them"
            )

    @cached_property
    def _schemas(self) -> dict[int, str]:
        """By schema id."""
        return {s.schema_id: column for s in self._table.metadata.schemas if (column := self._other_column(s))}

    @cached_property
    def _snapshots(self) -> dict[int, str]:
        """By the id of a snapshot of such a schema."""
        made = self._table.metadata.snapshots
        return {s.snapshot_id: self._schemas[s.schema_id] for s in made if s.schema_id in self._schemas}

    def _other_column(self, written: Schema) -> str | None:
        metadata = self._table.metadata
        field_id = next((i for i in self._compared if not metadata.reads_columns_of(written, {i})), None)
        return (
            None
            if field_id is None
            else f"column {written.names_by_id[field_id]} was of type {written.fields_by_id[field_id].type}"
        )
