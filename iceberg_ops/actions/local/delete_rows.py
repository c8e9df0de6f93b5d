"""DELETE FROM table WHERE condition, from Python, without a job.

For programs that delete some rows: without lease and report. It finds and commits the same rows as a delete job on lane local. The
condition is evaluated here, row by row, so this package must understand all of it; a condition that only Spark understands needs a
job of ``spark_jobs``. Rows are read once, and only the columns of the condition; copy-on-write then reads the affected files as a
whole. Files whose rows all match are not read.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from iceberg_ops.actions.local.local_rows import copied
from iceberg_ops.actions.rows.changed_rows import ChangedRows, Matched, row_count
from iceberg_ops.actions.rows.row_commits import RowFields
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.loop.statement import evaluate_until_committed
from iceberg_ops.commit.manifests.staged_files import commit_staged, discard
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.commit.protocol.operation import Committed
from iceberg_ops.commit.protocol.run_keys import ACTION, WORK, RunIdentity, find_run_now
from iceberg_ops.config.properties import WriteMode
from iceberg_ops.config.row_options import Isolation
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.metrics_evaluators import metrics_all_match
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression, opaque_parts
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan, ScanPlan, plan
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.metadata_columns import POS
from iceberg_ops.spec.snapshots import MAIN_BRANCH
from iceberg_ops.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletedRows:
    """``committed`` is None if no row matched. ``rows`` is 0 if whole files were removed by metadata alone: none was read.
    ``evaluations``: how often the condition was evaluated (``commit.statement``)."""

    committed: Committed | None
    rows: int
    evaluations: int


@dataclass(frozen=True, kw_only=True)
class DeleteRows:
    """``where`` is SQL text or an expression. ``isolation`` as in ``RowDelta``; ``granularity`` (v2, merge-on-read): file or
    partition, None: the table's. ``summary`` is added to the snapshot's summary."""

    where: str | Expression
    branch: str = MAIN_BRANCH
    isolation: Isolation = "serializable"
    granularity: str | None = None
    mode: WriteMode = "merge-on-read"
    run_key: str | None = None
    summary: Mapping[str, str] = field(default_factory=dict)
    operation_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def run(self, catalog: Catalog, table: Table) -> DeletedRows:
        """Delete the matching rows. The commit may be that of an earlier run.

        Raises UnsupportedError (a condition that is not fully understood; a v1 table; ORC delete files), WhereError,
        ValidationError (others were faster each time) and the errors of the committer. The files of a refused evaluation are
        deleted; after an unknown outcome none is.
        """
        where = parse_where(self.where) if isinstance(self.where, str) else self.where
        if opaque := opaque_parts(bind(table.schema, where)):
            what = opaque[0].reason or "it"
            raise UnsupportedError(
                f"not supported: deleting rows by {self.where} here, because only Spark evaluates {what}: run a job"
            )
        return evaluate_until_committed(
            catalog, table, self.branch, lambda now, number: self._evaluate(catalog, now, where, number)
        )

    def _evaluate(self, catalog: Catalog, table: Table, where: Expression, number: int) -> DeletedRows:
        earlier = find_run_now(lambda: catalog.load_table(table.identifier[1:]), table, self._run)
        if earlier is not None:
            done = Committed(table=table, snapshot=earlier.snapshot, attempts=0, already_committed=True)
            return DeletedRows(committed=done, rows=0, evaluations=number)
        scan_plan = plan(table, Scan.of_branch(self.branch, where))
        operation_id = f"{self.operation_id}-{number}"
        changed = ChangedRows(
            table=table,
            scan_plan=scan_plan,
            context=WriteContext.for_table(table.metadata),
            mode=self.mode,
            isolation=self.isolation,
            conflict_filter=where,
            operation_id=operation_id,
            copy=lambda work, context: copied(table, operation_id, work, context),
            granularity=self.granularity,
            fields=self._fields,
        )
        if scan_plan.tasks and whole_files_match(scan_plan):
            start = None if scan_plan.snapshot is None else scan_plan.snapshot.snapshot_id
            dropping = DeleteFiles(filter=where, starting_snapshot_id=start, **self._fields)
            return DeletedRows(committed=commit_staged(catalog, table, dropping, ()), rows=0, evaluations=number)
        changed.check_formats(writes_rows=False)
        matched = matched_positions(table, scan_plan.tasks)
        if not matched:
            return DeletedRows(committed=None, rows=0, evaluations=number)
        return self._commit(catalog, changed, matched, number)

    def _commit(self, catalog: Catalog, changed: ChangedRows, matched: Matched, number: int) -> DeletedRows:
        staged: list[DataFile] = []
        try:
            operation = changed.operation(matched, staged)
        except BaseException as e:
            discard(catalog, changed.table, [f.file_path for f in staged], mark=self.operation_id, after=e)
            raise
        paths = [f.file_path for f in staged]
        done = commit_staged(catalog, changed.table, operation, paths, mark=self.operation_id)
        return DeletedRows(committed=done, rows=row_count(matched), evaluations=number)

    @property
    def _run(self) -> RunIdentity | None:
        if self.run_key is None:
            return None
        work = self.summary.get(WORK)
        action = self._fields["summary"][ACTION]
        return RunIdentity(key=self.run_key, action=action, branch=self.branch, staged=False, work=work)

    @property
    def _fields(self) -> RowFields:
        return RowFields(branch=self.branch, run_key=self.run_key, summary={ACTION: "delete", **self.summary}, staged=False)


def whole_files_match(scan_plan: ScanPlan) -> bool:
    """All rows of every planned file match the scan's filter, so deleting them needs only metadata. The filter must be fully
    understood (``is_exact``)."""
    return all(t.residual == ALWAYS_TRUE or metrics_all_match(scan_plan.filter, t.data_file) for t in scan_plan.tasks)


def matched_positions(table: Table, tasks: Sequence[FileScanTask]) -> Matched:
    """Positions of the live rows for which each task's residual is true; tasks without such rows are left out."""
    context = ReadContext.for_table(table.metadata, columns=[POS])
    matched = []
    for task in tasks:
        positions = [np.asarray(batch.column(0), np.int64) for batch in read_task(task, context, table.io)]
        if any(len(p) for p in positions):
            matched.append((task, np.concatenate(positions)))
    return matched
