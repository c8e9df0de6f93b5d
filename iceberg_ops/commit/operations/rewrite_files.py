"""Replaces files by others with the same rows: compaction of data and of deletes (Java: RewriteFiles).

Every replaced file must still be live. Concurrent deletes for a replaced data file would be lost with it, so they are conflicts.
Equality deletes are not conflicts if the new files keep the data sequence number of the snapshot that was read and the partition
spec of the files they replace, and hold every column that the deletes compare: then the deletes still apply to them."""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_ops.commit.manifests.removals import Removals
from iceberg_ops.commit.manifests.snapshot_draft import Changes, NewFile, SnapshotDraft
from iceberg_ops.commit.manifests.snapshot_operation import SnapshotOperationFields
from iceberg_ops.commit.protocol.history import History
from iceberg_ops.commit.protocol.operation import StagedCommit
from iceberg_ops.commit.validation import checks as validation
from iceberg_ops.commit.validation import schema_conflicts, vectors_and_positions
from iceberg_ops.errors import BadInputError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.snapshots import SnapshotOperation
from iceberg_ops.table.table import Table


@dataclass(frozen=True, kw_only=True)
class RewriteFiles(SnapshotOperationFields):
    """``data_sequence_number`` is assigned to all added data files (normally the starting snapshot's), ``delete_sequence_number``
    to all added delete files (the highest of the replaced ones); None: the commit's own."""

    removed_data: tuple[DataFile, ...] = ()
    added_data: tuple[DataFile, ...] = ()
    removed_deletes: tuple[DataFile, ...] = ()
    added_deletes: tuple[DataFile, ...] = ()
    data_sequence_number: int | None = None
    delete_sequence_number: int | None = None
    carried_deletes: tuple[DataFile, ...] = ()
    """Concurrent deletes, carried over to the added data files; they get the commit's own sequence number."""
    builds_on: tuple[int, ...] = ()
    """Snapshots that replaced files to which ``removed_deletes`` apply besides ``removed_data``."""
    name: str = "rewrite_data_files"

    def __post_init__(self) -> None:
        if not self.removed_data and not self.removed_deletes:
            raise BadInputError("Files to delete cannot be empty")
        if self.added_data and not self.removed_data:
            raise BadInputError("Data files to add must be empty because there's no data file to be rewritten")
        if self.added_deletes and not self.removed_deletes and not self.removed_data:
            raise BadInputError("Delete files to add must be empty because there's no delete file to be rewritten")
        validation.no_file_twice((*self.added_data, *self.added_deletes, *self.carried_deletes))

    def validate(self, table: Table, history: History) -> None:
        validation.no_wrong_delete_format(table, history, (*self.added_deletes, *self.carried_deletes))
        if self.removed_data and self.added_data:
            validation.no_other_row_ids(table, history, self.removed_data)
            schema_conflicts.no_columns_that_came_back(table, history, [f.file_path for f in self.removed_data])
            schema_conflicts.no_files_of_other_columns(table, history, self.added_data)
            if self.data_sequence_number is not None:
                schema_conflicts.no_deletes_by_columns_not_copied(table, history, self.removed_data)
        if self.removed_deletes:
            history.no_other_line()
            validation.no_deletes_that_count_again(table, history, self.builds_on, self.removed_deletes)
        if self.data_sequence_number is not None and (moved := self._moved_to_another_spec()):
            validation.no_deletes_left_behind(table, history, moved)
            validation.no_rows_caught_up(table, history, moved, self.added_data)
        if any(f.is_deletion_vector for f in self.added_deletes):
            validation.no_second_deletion_vector(history, self.added_deletes, validation.every_row(table))
            vectors_and_positions.no_positions_left_out(table, history, self.added_deletes)
        # This check is last: its conflicts can be carried over, if there is no other one (``carry_over``).
        if self.removed_data:
            keeps_number = self.data_sequence_number is not None
            validation.no_resurrected_rows(table, history, self.removed_data, ignore_equality_deletes=keeps_number)

    def _moved_to_another_spec(self) -> tuple[DataFile, ...]:
        """Removed data files whose rows may now be in a file of another partition spec."""
        specs = {f.spec_id for f in self.added_data}
        return tuple(f for f in self.removed_data if specs - {f.spec_id})

    def stage(self, prepared: SnapshotDraft, table: Table) -> StagedCommit:
        changes = Changes(
            operation=SnapshotOperation.REPLACE,
            data=tuple(NewFile(f, self.data_sequence_number) for f in self.added_data),
            deletes=(
                *(NewFile(f, self.delete_sequence_number) for f in self.added_deletes),
                *(NewFile(f) for f in self.carried_deletes),
            ),
            removals=Removals(files=self.removed_data, deletes=self.removed_deletes, must_exist=True, every_entry=True),
        )
        return prepared.stage(table, self.target, changes)
