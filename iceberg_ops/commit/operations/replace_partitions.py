"""Replaces the partitions of the added files (Java: ReplacePartitions, dynamic overwrite).

Deletes in those partitions are removed with them. Files of an unpartitioned spec replace the whole table.
"""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_ops.commit.manifests.removals import Removals
from iceberg_ops.commit.manifests.snapshot_draft import Changes, NewFile, SnapshotDraft
from iceberg_ops.commit.manifests.snapshot_operation import SnapshotOperationFields
from iceberg_ops.commit.protocol.history import History
from iceberg_ops.commit.protocol.operation import StagedCommit
from iceberg_ops.commit.validation import checks as validation
from iceberg_ops.commit.validation import schema_conflicts
from iceberg_ops.config.row_options import Isolation
from iceberg_ops.expressions.predicates import ALWAYS_FALSE, ALWAYS_TRUE
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.partition_keys import PartitionKey, partition_key
from iceberg_ops.spec.snapshots import SnapshotOperation
from iceberg_ops.table.table import Table

REPLACE_PARTITIONS = "replace-partitions"


@dataclass(frozen=True, kw_only=True)
class ReplacePartitions(SnapshotOperationFields):
    """``append_only``: refuse to replace anything (the partitions must be empty). ``isolation`` None: validate nothing else.
    ``reads_table``: the added rows were made from the table's own rows, which must not have changed. The summary of such a snapshot
    does not mark it as a replacement of partitions, because a staged one must not be picked onto another head: others may have
    changed the partitions there."""

    added: tuple[DataFile, ...]
    isolation: Isolation | None = "serializable"
    append_only: bool = False
    reads_table: bool = False
    name: str = "overwrite"

    def __post_init__(self) -> None:
        validation.no_file_twice(self.added)

    def validate(self, table: Table, history: History) -> None:
        schema_conflicts.no_files_of_other_columns(table, history, self.added)
        if self.isolation is None:
            return
        partitions = self._partitions(table)
        if self.reads_table:
            validation.no_change_of_rows_read(history, additions=self.isolation == "serializable")
        if self.isolation == "serializable":
            validation.no_unseen_rows_in_partitions(table, history, partitions)
        validation.no_vanished_rows_in_partitions(table, history, partitions)
        validation.no_lost_update_in_partitions(table, history, partitions)

    def stage(self, prepared: SnapshotDraft, table: Table) -> StagedCommit:
        partitions = self._partitions(table)
        removals = Removals(
            partitions=frozenset() if partitions is None else partitions,
            matching=ALWAYS_TRUE if partitions is None else ALWAYS_FALSE,
            must_be_empty=self.append_only,
        )
        changes = Changes(
            operation=SnapshotOperation.OVERWRITE,
            data=tuple(NewFile(f) for f in self.added),
            removals=removals,
            properties={} if self.reads_table and self.isolation is not None else {REPLACE_PARTITIONS: "true"},
        )
        return prepared.stage(table, self.target, changes)

    def _partitions(self, table: Table) -> frozenset[PartitionKey] | None:
        """The replaced partitions; None: the whole table."""
        if any(
            table.metadata.specs_by_id[f.spec_id].is_unpartitioned for f in self.added if f.spec_id in table.metadata.specs_by_id
        ):
            return None
        return frozenset(partition_key(f.spec_id, f.partition) for f in self.added)
