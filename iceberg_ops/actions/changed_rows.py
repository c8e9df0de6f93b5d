"""What a statement does to rows, as one operation to commit: rows that go and rows that come, in either write mode.

Merge-on-read deletes the old rows by position (v2) or deletion vector (v3) as one ``RowDelta``; copy-on-write replaces the touched
files with ``OverwriteFiles``. Which rows these are is the statement's to find; committing, and deleting what is staged when there
is no commit, is the caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from iceberg_ops.actions.row_commits import RowFields
from iceberg_ops.commit.overwrite_files import OverwriteFiles
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.config.row_options import Isolation
from iceberg_ops.data.copy_without import CopyCounts, check_counts, copy_context, copy_without
from iceberg_ops.data.row_deletes import check_row_deletes, write_row_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.data.writer import PartitionedWriter
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.io.locations import identity_under
from iceberg_ops.scan.live_entries import with_other_entries
from iceberg_ops.scan.planning import ScanPlan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.table import Table

Mode = Literal["merge-on-read", "copy-on-write"]
Matched = Sequence[tuple[FileScanTask, npt.NDArray[np.int64]]]
"""Tasks with the positions of their rows that go."""
_COPIES = "00001"
"""Task id of copies, apart from the files of new rows."""


@dataclass(frozen=True, kw_only=True)
class ChangedRows:
    """One evaluation of a statement on ``found``. ``context`` is how its files are written; ``granularity`` (v2, merge-on-read):
    file or partition, None: the table's; ``conflict_filter`` selects the rows that decided what is changed."""

    table: Table
    found: ScanPlan
    context: WriteContext
    mode: Mode
    isolation: Isolation
    conflict_filter: Expression
    operation_id: str
    fields: RowFields
    granularity: str | None = None

    def check_formats(self, *, writes_rows: bool) -> None:
        """Raise UnsupportedError, before a row is read, where what is to be written can not be."""
        if writes_rows or self.mode == "copy-on-write":
            self.context.check_format()
        if self.mode == "merge-on-read":
            check_row_deletes(self.context)

    def operation(self, matched: Matched, staged: list[DataFile]) -> RowDelta | OverwriteFiles:
        """``staged`` are the files of the rows that come; every file written here is added to it, also by a call that fails.

        Raises VerificationError where rows of a copy do not add up.
        """
        start = None if self.found.snapshot is None else self.found.snapshot.snapshot_id
        matched = with_other_entries(matched, self.found.tasks, identity_under(self.table.io), np.empty(0, np.int64))
        if self.mode == "copy-on-write":
            self._copy(matched, staged)
            return OverwriteFiles(
                added=tuple(staged),
                removed=tuple(task.data_file for task, _ in matched),
                conflict_filter=self.conflict_filter,
                isolation=self.isolation,
                starting_snapshot_id=start,
                **self.fields,
            )
        added = tuple(staged)
        deletes = write_row_deletes(
            self.table.io, self.context, matched, operation_id=self.operation_id, granularity=self.granularity
        )
        staged += deletes.added
        return RowDelta(
            added_data=added,
            added_deletes=deletes.added,
            removed_deletes=deletes.replaced,
            referenced_data_files=tuple(task.file_path for task, _ in matched),
            conflict_filter=self.conflict_filter,
            isolation=self.isolation,
            merges_vectors=True,
            starting_snapshot_id=start,
            **self.fields,
        )

    def _copy(self, matched: Matched, staged: list[DataFile]) -> None:
        """The touched files' other rows, which in v3 keep their lineage."""
        metadata = self.table.metadata
        context = replace(self.context, row_lineage=metadata.format_version >= 3)
        writer = PartitionedWriter(context, self.table.io, operation_id=self.operation_id, task_id=_COPIES)
        counts = CopyCounts()
        try:
            whole = [(replace(task, residual=ALWAYS_TRUE), positions) for task, positions in matched]
            copy_without(whole, copy_context(metadata), self.table.io, writer, counts)
            copies = list(writer.close())
        except BaseException:
            writer.abort()
            raise
        staged += copies
        check_counts(counts, asked=row_count(matched), written=sum(f.record_count for f in copies))


def row_count(matched: Matched) -> int:
    """How many rows go."""
    return sum(len(positions) for _, positions in matched)
