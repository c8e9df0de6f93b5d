"""Converts the result of a statement, deleted rows and new rows, to one operation to commit, in either write mode.

Merge-on-read deletes the old rows by position (v2) or deletion vector (v3) in one ``RowDelta``; copy-on-write replaces the affected
files with ``OverwriteFiles``. The engine finds these rows and copies the others; the caller commits, and deletes the staged files
if there is no commit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyroaring import BitMap64

from iceberg_ops.actions.rows.row_commits import RowFields
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.properties import TARGET_FILE_SIZE_BYTES, WriteMode
from iceberg_ops.config.row_options import Isolation
from iceberg_ops.data.rewriting.copy_without import taken_in
from iceberg_ops.data.writing.row_deletes import check_row_deletes, write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.deletion.own_files import discard_own
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.locations import identity_under
from iceberg_ops.scan.live_entries import with_other_entries
from iceberg_ops.scan.planning import ScanPlan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.table import Table

Positions = npt.NDArray[np.int64] | BitMap64
"""Distinct positions of rows in a data file."""
Matched = Sequence[tuple[FileScanTask, Positions]]
"""Tasks with the positions of their deleted rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyWork:
    """The rows that copy-on-write has to write: the rows of the files of ``matched`` without the matched ones, and every row of
    ``taken_in``, some of the files that the statement has ``staged`` for its new rows."""

    matched: Matched
    taken_in: Sequence[DataFile] = ()
    staged: Sequence[DataFile] = ()

    @property
    def rows_that_go(self) -> int:
        return row_count(self.matched)


Copy = Callable[[CopyWork, WriteContext], list[DataFile]]
"""Returns the new files of a copy; a call that raises leaves no files."""


@dataclass(frozen=True, kw_only=True)
class ChangedRows:
    """One evaluation of a statement on ``found``. ``context`` defines how its files are written; ``granularity`` (v2,
    merge-on-read): file or partition, None: the table's; ``conflict_filter`` selects the rows that decided the change."""

    table: Table
    scan_plan: ScanPlan
    context: WriteContext
    mode: WriteMode
    isolation: Isolation
    conflict_filter: Expression
    operation_id: str
    fields: RowFields
    copy: Copy
    granularity: str | None = None

    def check_formats(self, *, writes_rows: bool) -> None:
        """Raise UnsupportedError, before a row is read, for a file format that cannot be written."""
        if writes_rows or self.mode == "copy-on-write":
            self.context.check_format()
        if self.mode == "merge-on-read":
            check_row_deletes(self.context)

    def touched(self, matched: Matched) -> Matched:
        """``matched``, and the other entries of its files, which are removed with them."""
        return with_other_entries(matched, self.scan_plan.tasks, identity_under(self.table.io), np.empty(0, np.int64))

    def operation(self, matched: Matched, staged: list[DataFile], *, reads_table: bool = False) -> RowDelta | OverwriteFiles:
        """``staged`` are the files of the new rows; every file written here is added to it, also by a call that fails. Files that
        were copied (``taken_in``) are deleted and removed from it.

        ``reads_table`` as in ``RowDelta``. Raises VerificationError if the rows of a copy do not add up.
        """
        start = None if self.scan_plan.snapshot is None else self.scan_plan.snapshot.snapshot_id
        matched = self.touched(matched)
        if self.mode == "copy-on-write":
            whole = [(replace(task, residual=ALWAYS_TRUE), positions) for task, positions in matched]
            # The unchanged rows keep their lineage in v3.
            context = replace(self.context, row_lineage=self.table.metadata.format_version >= 3)
            small = taken_in(
                staged,
                ((task, len(positions)) for task, positions in whole),
                context.spec,
                TARGET_FILE_SIZE_BYTES.of(context.properties),
            )
            staged += self.copy(CopyWork(matched=whole, taken_in=small, staged=tuple(staged)), context)
            gone = {file.file_path for file in small}
            discard_own(self.table.io, gone)
            staged[:] = [file for file in staged if file.file_path not in gone]
            return OverwriteFiles(
                added=tuple(staged),
                removed=tuple(task.data_file for task, _ in matched),
                conflict_filter=self.conflict_filter,
                isolation=self.isolation,
                reads_table=reads_table,
                starting_snapshot_id=start,
                **self.fields,
            )
        added = tuple(staged)
        places = [(task, as_array(positions)) for task, positions in matched]
        deletes = write_row_deletes(
            self.table.io, self.context, places, operation_id=self.operation_id, granularity=self.granularity
        )
        staged += deletes.added
        return RowDelta(
            added_data=added,
            added_deletes=deletes.added,
            removed_deletes=deletes.replaced,
            referenced_data_files=tuple(task.file_path for task, _ in matched),
            conflict_filter=self.conflict_filter,
            isolation=self.isolation,
            reads_table=reads_table,
            merges_vectors=True,
            starting_snapshot_id=start,
            **self.fields,
        )


def row_count(matched: Matched) -> int:
    """The number of deleted rows."""
    return sum(len(positions) for _, positions in matched)


def as_array(positions: Positions) -> npt.NDArray[np.int64]:
    """A bitmap becomes an array in ascending order."""
    return np.asarray(positions.to_array(), np.int64) if isinstance(positions, BitMap64) else positions
