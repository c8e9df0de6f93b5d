"""DELETE FROM table WHERE condition, from Python and without an engine.

For deletes of some rows by a program, and the delete job on lane local. The condition is evaluated here, row by row, so it must be
one that this package understands wholly; what only Spark understands is a job for ``spark_jobs``. Rows are read once, and of them
only the columns of the condition; copy-on-write then reads the touched files whole. Files that match with all rows are not read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypedDict

import numpy as np
import numpy.typing as npt

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.delete_files import DeleteFiles
from iceberg_ops.commit.operation import Committed, Isolation
from iceberg_ops.commit.overwrite_files import OverwriteFiles
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.commit.run_keys import find_run
from iceberg_ops.commit.staged_files import commit_staged
from iceberg_ops.commit.statement import evaluate_until_committed
from iceberg_ops.data.copy_without import CopyCounts, check_counts, copy_context, copy_without
from iceberg_ops.data.read_context import ReadContext
from iceberg_ops.data.reader import read_task
from iceberg_ops.data.row_deletes import check_row_deletes, write_row_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.data.writer import PartitionedWriter
from iceberg_ops.errors import UnsupportedError, VerificationError
from iceberg_ops.expressions.metrics_evaluators import metrics_all_match
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression, is_exact
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan, ScanPlan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.metadata_columns import POS
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from iceberg_ops.table.table import Table

Mode = Literal["merge-on-read", "copy-on-write"]
_Matched = list[tuple[FileScanTask, npt.NDArray[np.int64]]]
"""Tasks with the positions of their matching rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """``committed`` is None where no row matched. ``evaluations``: how often the condition was evaluated (``commit.statement``).

    ``dropped_files``: data files that went by metadata alone (then ``rows`` is 0: none was read); ``rewritten_files`` and
    ``added_files`` of copy-on-write; ``added_deletes``: delete files or vectors of merge-on-read."""

    committed: Committed | None
    rows: int
    evaluations: int
    dropped_files: int = 0
    rewritten_files: int = 0
    added_files: int = 0
    added_deletes: int = 0


@dataclass(frozen=True, kw_only=True)
class DeleteRows:
    """``where`` is SQL text or an expression. ``isolation`` as in ``RowDelta``; ``granularity`` (v2, merge-on-read): file or
    partition, None: the table's. ``summary`` goes into the snapshot's; ``staged``: no branch moves until it is published."""

    where: str | Expression
    branch: str = MAIN_BRANCH
    isolation: Isolation = "serializable"
    granularity: str | None = None
    mode: Mode = "merge-on-read"
    run_key: str | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    staged: bool = False
    operation_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def run(self, catalog: Catalog, table: Table) -> DeletedRows:
        """Delete the matching rows.

        Raises UnsupportedError (a condition not wholly understood; a v1 table; ORC delete files), WhereError, ValidationError
        (others were faster each time) and what the committer raises. The files of a refused evaluation are deleted; after an
        unknown outcome none is.
        """
        where = parse_where(self.where) if isinstance(self.where, str) else self.where
        if not is_exact(where):
            raise UnsupportedError(
                f"not supported: deleting rows by {self.where} here, because only Spark can evaluate it: run a job"
            )
        return evaluate_until_committed(
            catalog, table, self.branch, lambda now, number: self._evaluate(catalog, now, where, number)
        )

    def _evaluate(self, catalog: Catalog, table: Table, where: Expression, number: int) -> DeletedRows:
        earlier = find_run(table.metadata, self.run_key)
        if earlier is not None:
            done = Committed(table=table, snapshot=earlier.snapshot, attempts=0, already_committed=True)
            return DeletedRows(committed=done, rows=0, evaluations=number)
        context = WriteContext.for_table(table.metadata)
        if self.mode == "merge-on-read":
            check_row_deletes(context)
        else:
            context.check_format()
        found = plan(table, Scan(ref=None if self.branch == MAIN_BRANCH else self.branch, where=where))
        if found.tasks and whole_files_match(found):
            done = commit_staged(catalog, table, DeleteFiles(filter=where, **self._fields(found)), ())
            return DeletedRows(committed=done, rows=0, evaluations=number, dropped_files=len(found.tasks))
        matched = _matched(table, found.tasks)
        if not matched:
            return DeletedRows(committed=None, rows=0, evaluations=number)
        if self.mode == "merge-on-read":
            return self._mark(catalog, table, found, where, matched, number)
        return self._copy(catalog, table, found, where, matched, number)

    def _mark(
        self, catalog: Catalog, table: Table, found: ScanPlan, where: Expression, matched: _Matched, number: int
    ) -> DeletedRows:
        """Merge-on-read: position deletes or deletion vectors."""
        deletes = write_row_deletes(
            table.io,
            WriteContext.for_table(table.metadata),
            matched,
            operation_id=f"{self.operation_id}-{number}",
            granularity=self.granularity,
        )
        operation = RowDelta(
            added_deletes=deletes.added,
            removed_deletes=deletes.replaced,
            referenced_data_files=tuple(task.file_path for task, _ in matched),
            conflict_filter=where,
            isolation=self.isolation,
            merges_vectors=True,
            **self._fields(found),
        )
        done = commit_staged(catalog, table, operation, [f.file_path for f in deletes.added])
        return DeletedRows(committed=done, rows=_count(matched), evaluations=number, added_deletes=len(deletes.added))

    def _copy(
        self, catalog: Catalog, table: Table, found: ScanPlan, where: Expression, matched: _Matched, number: int
    ) -> DeletedRows:
        """Copy-on-write: the touched files anew. Raises VerificationError where rows do not add up."""
        context = replace(WriteContext.for_table(table.metadata), row_lineage=table.metadata.format_version >= 3)
        writer = PartitionedWriter(context, table.io, operation_id=f"{self.operation_id}-{number}")
        counts = CopyCounts()
        try:
            whole = [(replace(task, residual=ALWAYS_TRUE), positions) for task, positions in matched]
            copy_without(whole, copy_context(table.metadata), table.io, writer, counts)
            added = tuple(writer.close())
        except BaseException:
            writer.abort()
            raise
        staged = [f.file_path for f in added]
        try:
            check_counts(counts, asked=_count(matched), written=sum(f.record_count for f in added))
        except VerificationError:
            table.io.delete_many(staged)
            raise
        operation = OverwriteFiles(
            added=added,
            removed=tuple(task.data_file for task, _ in matched),
            conflict_filter=where,
            isolation=self.isolation,
            **self._fields(found),
        )
        done = commit_staged(catalog, table, operation, staged)
        return DeletedRows(
            committed=done,
            rows=_count(matched),
            evaluations=number,
            rewritten_files=len(matched),
            added_files=len(added),
        )

    def _fields(self, found: ScanPlan) -> _Fields:
        return _Fields(
            branch=self.branch,
            run_key=self.run_key,
            summary=dict(self.summary),
            staged=self.staged,
            starting_snapshot_id=None if found.snapshot is None else found.snapshot.snapshot_id,
        )


class _Fields(TypedDict):
    branch: str
    run_key: str | None
    summary: dict[str, str]
    staged: bool
    starting_snapshot_id: int | None


def whole_files_match(found: ScanPlan) -> bool:
    """Every planned file matches the scan's filter with all its rows, so that deleting them is a matter of metadata. The filter
    must be wholly understood (``is_exact``)."""
    return all(t.residual == ALWAYS_TRUE or metrics_all_match(found.filter, t.data_file) for t in found.tasks)


def _count(matched: _Matched) -> int:
    return sum(len(positions) for _, positions in matched)


def _matched(table: Table, tasks: list[FileScanTask]) -> _Matched:
    """Positions of the live rows for which each task's residual is true; tasks without any left out."""
    context = ReadContext.for_table(table.metadata, columns=[POS])
    found = []
    for task in tasks:
        positions = [np.asarray(batch.column(0), np.int64) for batch in read_task(task, context, table.io)]
        if any(len(p) for p in positions):
            found.append((task, np.concatenate(positions)))
    return found
