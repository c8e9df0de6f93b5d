"""DELETE FROM table WHERE condition, merge-on-read, from Python and without an engine.

For deletes of some rows by a program. The condition is evaluated here, row by row, so it must be one that this package understands
wholly; what only Spark understands is a job for ``spark_jobs``. Rows are read once, and of them only the columns of the condition.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.operation import Committed, Isolation
from iceberg_ops.commit.row_delta import RowDelta
from iceberg_ops.commit.run_keys import find_run
from iceberg_ops.commit.statement import evaluate_until_committed
from iceberg_ops.data.read_context import ReadContext
from iceberg_ops.data.reader import read_task
from iceberg_ops.data.row_deletes import check_row_deletes, write_row_deletes
from iceberg_ops.data.write_context import WriteContext
from iceberg_ops.errors import CommitStateUnknownError, IcebergOpsError, UnsupportedError
from iceberg_ops.expressions.predicates import Expression, is_exact
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.metadata_columns import POS
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from iceberg_ops.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """``committed`` is None where no row matched. ``evaluations``: how often the condition was evaluated (``commit.statement``)."""

    committed: Committed | None
    rows: int
    evaluations: int


@dataclass(frozen=True, kw_only=True)
class DeleteRows:
    """``where`` is SQL text or an expression. ``isolation`` as in ``RowDelta``; ``granularity`` (v2): file or partition, None: the
    table's."""

    where: str | Expression
    branch: str = MAIN_BRANCH
    isolation: Isolation = "serializable"
    granularity: str | None = None
    run_key: str | None = None
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
        check_row_deletes(context)
        found = plan(table, Scan(ref=None if self.branch == MAIN_BRANCH else self.branch, where=where))
        matched = _matched(table, found.tasks)
        if not matched:
            return DeletedRows(committed=None, rows=0, evaluations=number)
        deletes = write_row_deletes(
            table.io,
            context,
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
            branch=self.branch,
            run_key=self.run_key,
            starting_snapshot_id=None if found.snapshot is None else found.snapshot.snapshot_id,
            merges_vectors=True,
        )
        staged = [f.file_path for f in deletes.added]
        try:
            committed = commit(catalog, table, operation)
        except CommitStateUnknownError:
            raise
        except IcebergOpsError:
            table.io.delete_many(staged)
            raise
        if committed.already_committed:
            table.io.delete_many(staged)
        return DeletedRows(committed=committed, rows=sum(len(p) for _, p in matched), evaluations=number)


def _matched(table: Table, tasks: list[FileScanTask]) -> list[tuple[FileScanTask, npt.NDArray[np.int64]]]:
    """Positions of the live rows for which each task's residual is true; tasks without any left out."""
    context = ReadContext.for_table(table.metadata, columns=[POS.name])
    found = []
    for task in tasks:
        positions = [np.asarray(batch.column(0), np.int64) for batch in read_task(task, context, table.io)]
        if any(len(p) for p in positions):
            found.append((task, np.concatenate(positions)))
    return found
