"""DELETE FROM table WHERE condition: the delete job."""

from __future__ import annotations

from dataclasses import replace

from iceberg_ops.actions.local.delete_rows import whole_files_match
from iceberg_ops.actions.rows.evaluations import run_statement
from iceberg_ops.actions.rows.row_commits import commit_rows, nothing_to_do, row_fields
from iceberg_ops.actions.rows.row_engine import RowEvaluator, Statement
from iceberg_ops.actions.rows.row_statement import StatementKind, change_rows, planned
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import AlreadyCommitted, Committed, Result
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.config import properties as p
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.errors import OptionError
from iceberg_ops.expressions.predicates import is_exact
from iceberg_ops.spec import summary_keys

_KIND = StatementKind(p.DELETE_MODE, p.DELETE_ISOLATION, writes_rows=False)


def delete(run: Run, rows: RowEvaluator) -> Result:
    """Delete the matching rows, by metadata alone if whole files match; re-evaluated if others changed them in the meantime.

    Raises OptionError without a WHERE (``true`` deletes all), and the errors of the engine and the committer.
    """
    if not run.job.where:
        raise OptionError('delete needs a WHERE (write "true" to delete every row)')
    return run_statement(run, lambda now: _evaluate(now, rows))


def _evaluate(run: Run, rows: RowEvaluator) -> Result:
    statement = planned(run, rows, _KIND)
    if not (is_exact(statement.filter) and whole_files_match(statement.scan_plan)):
        return change_rows(statement, rows, _KIND, rows.delete_changes)
    if statement.tasks:
        return _drop_files(statement)
    return nothing_to_do(run, {summary_keys.DELETED_RECORDS: 0})


def _drop_files(statement: Statement) -> Committed:
    """Delete whole files; no row is read."""
    run, snapshot = statement.run, statement.scan_plan.snapshot
    start = None if snapshot is None else snapshot.snapshot_id
    operation = DeleteFiles(filter=statement.filter, starting_snapshot_id=start, **row_fields(run))
    result = commit_rows(run, operation, (), {"metadata-only": 1})
    if isinstance(result, AlreadyCommitted) or not result.snapshot_ids:
        return result
    # Others may have added or removed matching files: use the commit's own count.
    summary = result.table.metadata.snapshot(result.snapshot_ids[0]).summary
    run.outcome.metrics[summary_keys.DELETED_DATA_FILES] = parse_count(summary.get(summary_keys.DELETED_DATA_FILES)) or 0
    return replace(result, findings=run.outcome.findings())
