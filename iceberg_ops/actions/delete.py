"""DELETE FROM table WHERE condition: the delete job."""

from __future__ import annotations

from iceberg_ops.actions.local.delete_rows import whole_files_match
from iceberg_ops.actions.rows.evaluations import run_statement
from iceberg_ops.actions.rows.row_commits import commit_rows, nothing_to_do, row_fields
from iceberg_ops.actions.rows.row_engine import RowEvaluator, Statement
from iceberg_ops.actions.rows.row_statement import StatementKind, change_rows, planned
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Committed, Result
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.config import properties as p
from iceberg_ops.errors import OptionError
from iceberg_ops.expressions.predicates import is_exact
from iceberg_ops.spec import summary_keys

_KIND = StatementKind(p.DELETE_MODE, p.DELETE_ISOLATION, writes_rows=False)


def delete(run: Run, rows: RowEvaluator) -> Result:
    """Delete the matching rows, by metadata alone where whole files match; again where others changed them meanwhile.

    Raises OptionError without a WHERE (``true`` deletes all), and what the engine and the committer raise.
    """
    if not run.job.where:
        raise OptionError('delete needs a WHERE (write "true" to delete every row)')
    return run_statement(run, lambda now: _evaluate(now, rows))


def _evaluate(run: Run, rows: RowEvaluator) -> Result:
    statement = planned(run, rows, _KIND)
    if not (is_exact(statement.filter) and whole_files_match(statement.found)):
        return change_rows(statement, rows, _KIND, rows.delete_changes)
    if statement.tasks:
        return _drop_files(statement)
    return nothing_to_do(run, {summary_keys.DELETED_RECORDS: 0})


def _drop_files(statement: Statement) -> Committed:
    """No row is read."""
    run, snapshot = statement.run, statement.found.snapshot
    counts = {summary_keys.DELETED_DATA_FILES: len(statement.tasks), "metadata-only": 1}
    start = None if snapshot is None else snapshot.snapshot_id
    return commit_rows(run, DeleteFiles(filter=statement.filter, starting_snapshot_id=start, **row_fields(run)), (), counts)
