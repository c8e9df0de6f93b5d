"""Replaces rows by files: copy-on-write updates and deletes, and overwrites by filter (Java: OverwriteFiles).

Conflicts are searched among rows that match ``conflict_filter``; without one, among those of ``overwrite_filter`` if no files are
named, else among all rows. ``serializable`` refuses concurrent new rows, ``snapshot`` only deletes and removals that affect
replaced files.
"""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_ops.commit.manifests.removals import Removals, RowFilter
from iceberg_ops.commit.manifests.snapshot_draft import Changes, NewFile, SnapshotDraft
from iceberg_ops.commit.manifests.snapshot_operation import SnapshotOperationFields
from iceberg_ops.commit.protocol.history import History
from iceberg_ops.commit.protocol.operation import StagedCommit
from iceberg_ops.commit.validation import checks as validation
from iceberg_ops.commit.validation import schema_conflicts
from iceberg_ops.config.row_options import Isolation
from iceberg_ops.errors import BadInputError
from iceberg_ops.expressions.predicates import ALWAYS_FALSE, ALWAYS_TRUE, Expression
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.table import Table


@dataclass(frozen=True, kw_only=True)
class OverwriteFiles(SnapshotOperationFields):
    """Remove ``removed`` and all files whose rows all match ``overwrite_filter``, add ``added``.

    A file of which only some rows match the filter is refused. ``only_matching``: every added row must match the filter too.
    ``reads_table``: any rows of the table may have decided the change, so they must not have changed.
    """

    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    overwrite_filter: Expression | None = None
    conflict_filter: Expression | None = None
    isolation: Isolation | None = "serializable"
    only_matching: bool = False
    reads_table: bool = False
    case_sensitive: bool = False
    name: str = "overwrite"

    def __post_init__(self) -> None:
        if not self.added and not self.removed and self.overwrite_filter is None:
            raise BadInputError("overwrite needs files to add, files to remove or a filter")
        validation.no_file_twice(self.added)

    def validate(self, table: Table, history: History) -> None:
        self._validate_rows(table, history)
        schema_conflicts.no_files_of_other_columns(table, history, self.added)

    def _validate_rows(self, table: Table, history: History) -> None:
        if self.only_matching:
            validation.no_foreign_rows(self._rows(table, self.overwrite_filter or ALWAYS_FALSE), self.added)
        if self.isolation is None:
            return
        history.no_other_line()
        if self.reads_table:
            validation.no_change_of_rows_read(history, additions=self.isolation == "serializable")
        if self.isolation == "serializable":
            validation.no_unseen_rows(history, self._rows(table, self._data_conflict_filter()))
        if self.overwrite_filter is not None:
            rows = self._rows(table, self.conflict_filter or self.overwrite_filter)
            validation.no_lost_update(history, rows)
            validation.no_vanished_rows(history, rows)
        if self.added:
            validation.no_other_row_ids(table, history, self.removed)
            schema_conflicts.no_columns_that_came_back(table, history, [f.file_path for f in self.removed])
        validation.no_resurrected_rows(table, history, self.removed, ignore_equality_deletes=False)

    def stage(self, prepared: SnapshotDraft, table: Table) -> StagedCommit:
        removals = Removals(
            files=self.removed,
            matching=self.overwrite_filter or ALWAYS_FALSE,
            case_sensitive=self.case_sensitive,
            must_exist=self.isolation is not None,
            every_entry=True,
        )
        return prepared.stage(table, self.target, Changes(data=tuple(NewFile(f) for f in self.added), removals=removals))

    def _data_conflict_filter(self) -> Expression:
        if self.conflict_filter is not None:
            return self.conflict_filter
        return ALWAYS_TRUE if self.removed or self.overwrite_filter is None else self.overwrite_filter

    def _rows(self, table: Table, expression: Expression) -> RowFilter:
        return RowFilter(table, expression, case_sensitive=self.case_sensitive)
