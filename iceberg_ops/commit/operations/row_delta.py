"""Adds rows and deletes of rows in one snapshot: merge-on-read deletes, updates, merges and upserts (Java: RowDelta).

The content of the commit decides the checks. Deletes alone may refer to files that another delete has removed concurrently (those
rows are gone anyway). With new rows the commit is an update, and then a row that another commit deleted or rewrote must not come
back. New rows that match the filter are refused under ``serializable``. At every isolation level these are refused: deletes for
files that this commit removes, position deletes of files that were added again concurrently, and a second deletion vector for a
file, unless the operation ``merges_vectors`` (``row_delta_vectors``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from iceberg_ops.commit.manifests.removals import Removals, RowFilter
from iceberg_ops.commit.manifests.snapshot_draft import Changes, NewFile, SnapshotDraft
from iceberg_ops.commit.manifests.snapshot_operation import SnapshotOperationFields
from iceberg_ops.commit.operations.row_delta_vectors import unite
from iceberg_ops.commit.protocol.history import History
from iceberg_ops.commit.protocol.operation import StagedCommit
from iceberg_ops.commit.validation import checks as validation
from iceberg_ops.commit.validation import schema_conflicts, vectors_and_positions
from iceberg_ops.config.row_options import Isolation
from iceberg_ops.errors import BadInputError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.table.table import Table


@dataclass(frozen=True, kw_only=True)
class RowDelta(SnapshotOperationFields):
    """``referenced_data_files`` are those that the added position deletes and deletion vectors name; ``removed_deletes`` are
    replaced by added ones (for example the previous deletion vector). ``conflict_filter`` None: all rows.

    ``merges_vectors``: if a vector of ``added_deletes`` meets another for its data file, here or in the table, the two are united;
    an update is refused only if both delete the same row. Files of ``added_deletes`` that are then no longer used are listed in
    ``Committed.unused``: their writer deletes them."""

    added_data: tuple[DataFile, ...] = ()
    added_deletes: tuple[DataFile, ...] = ()
    removed_data: tuple[DataFile, ...] = ()
    removed_deletes: tuple[DataFile, ...] = ()
    referenced_data_files: tuple[str, ...] = ()
    conflict_filter: Expression | None = None
    isolation: Isolation | None = "serializable"
    case_sensitive: bool = False
    merges_vectors: bool = False
    reads_table: bool = False
    """Any rows of the table may have decided the change, so they must not have changed."""
    upserts: bool = False
    """The added equality deletes must reach every older row of their keys, in every partition spec."""
    name: str = "delta"

    def __post_init__(self) -> None:
        if not (self.added_data or self.added_deletes or self.removed_data or self.removed_deletes):
            raise BadInputError("a row delta needs files to add or to remove")
        if wrong := next((f for f in self.added_deletes if f.content is FileContent.DATA), None):
            raise BadInputError(f"a row delta's added_deletes hold data file {wrong.file_path}")
        vectors_may_meet = [f for f in self.added_deletes if not (self.merges_vectors and f.is_deletion_vector)]
        validation.no_file_twice((*self.added_data, *vectors_may_meet))

    @property
    def is_update(self) -> bool:
        """Whether this commit could bring back rows that were deleted concurrently."""
        return bool(self.added_data and (self.added_deletes or self.removed_data))

    @property
    def _writes_rows_again(self) -> bool:
        """Whether new rows may be changed versions of rows in the referenced files."""
        return bool(self.added_data and self.referenced_data_files)

    def validate(self, table: Table, history: History) -> None:
        self._validate_rows(table, history)
        by_columns = [f for f in self.added_deletes if f.equality_ids]
        schema_conflicts.no_files_of_other_columns(table, history, (*self.added_data, *by_columns))

    def _validate_rows(self, table: Table, history: History) -> None:
        rows = RowFilter(
            table, ALWAYS_TRUE if self.conflict_filter is None else self.conflict_filter, case_sensitive=self.case_sensitive
        )
        validation.no_wrong_delete_format(table, history, self.added_deletes)
        validation.no_unknown_columns(table, self.added_deletes)
        validation.no_deletes_for_own_removals(table, self.removed_data, self.added_deletes)
        if self.removed_deletes:
            history.no_other_line()
        if not self.merges_vectors:
            validation.no_second_deletion_vector(history, self.added_deletes, rows)
        if self.starting_snapshot_id is not None:
            vectors_and_positions.no_positions_left_out(table, history, self.added_deletes)
        validation.no_missing_references(history, self._references(), rows, forgive_deletes=not self.is_update)
        if self.starting_snapshot_id is not None:
            validation.no_reference_added_again(table, history, self._references(), self.added_deletes)
        if self.upserts:
            validation.no_rows_out_of_reach(table, self.branch, self.added_deletes)
        if self.isolation is None:
            return
        history.no_other_line()
        if self.reads_table:
            validation.no_change_of_rows_read(history, additions=self.isolation == "serializable")
        if self._writes_rows_again:
            validation.no_other_row_ids(table, history, (*self.removed_data, *self.added_deletes), self.referenced_data_files)
            schema_conflicts.no_columns_that_came_back(table, history, self.referenced_data_files)
        if self.isolation == "serializable":
            validation.no_unseen_rows(history, rows)
        if self.is_update:
            validation.no_resurrected_rows(table, history, self.removed_data, ignore_equality_deletes=False)
            validation.no_lost_update(history, rows, except_vectors=self.merges_vectors)

    def stage(self, prepared: SnapshotDraft, table: Table) -> StagedCommit:
        staged = self._staged(prepared, table)
        by_columns = any(f.equality_ids for f in self.added_deletes)
        return schema_conflicts.on_this_schema(staged, table) if by_columns else staged

    def _staged(self, prepared: SnapshotDraft, table: Table) -> StagedCommit:
        if not self.merges_vectors:
            return prepared.stage(table, self.target, self._changes(self.added_deletes, self.removed_deletes))
        deletes = unite(table, self.branch, prepared, self.added_deletes, self.removed_deletes, rows_must_differ=self.is_update)
        staged = prepared.stage(table, self.target, self._changes(deletes.added, deletes.removed))
        return replace(staged, referenced=staged.referenced | deletes.paths, unused=deletes.unused)

    def _changes(self, added_deletes: tuple[DataFile, ...], removed_deletes: tuple[DataFile, ...]) -> Changes:
        return Changes(
            data=tuple(NewFile(f) for f in self.added_data),
            deletes=tuple(NewFile(f) for f in added_deletes),
            removals=Removals(
                files=self.removed_data, deletes=removed_deletes, must_exist=self.isolation is not None, every_entry=True
            ),
        )

    def _references(self) -> tuple[str, ...]:
        named = (f.referenced_data_file for f in self.added_deletes)
        return (*self.referenced_data_files, *(p for p in named if p is not None))
