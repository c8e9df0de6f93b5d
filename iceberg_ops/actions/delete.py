"""DELETE FROM table WHERE condition: the delete job."""

from __future__ import annotations

from iceberg_ops.actions.context import Run
from iceberg_ops.actions.delete_rows import whole_files_match
from iceberg_ops.actions.evaluations import run_statement
from iceberg_ops.actions.row_commits import commit_rows, row_fields
from iceberg_ops.actions.row_engine import RowEvaluator, Statement
from iceberg_ops.actions.row_statement import StatementKind, change_rows, planned
from iceberg_ops.commit.operations.delete_files import DeleteFiles
from iceberg_ops.config import properties as p
from iceberg_ops.config.whole_numbers import count_of
from iceberg_ops.errors import OptionError
from iceberg_ops.expressions.predicates import is_exact

_KIND = StatementKind(p.DELETE_MODE, p.DELETE_ISOLATION, writes_rows=False)


def delete(run: Run, rows: RowEvaluator) -> None:
    """Delete the matching rows, by metadata alone where whole files match; again where others changed them meanwhile.

    Raises OptionError without a WHERE (``true`` deletes all), and what the engine and the committer raise.
    """
    if not run.job.where:
        raise OptionError('delete needs a WHERE (write "true" to delete every row)')
    run_statement(run, lambda now: _evaluate(now, rows))


def _evaluate(run: Run, rows: RowEvaluator) -> None:
    statement = planned(run, rows, _KIND)
    if not (is_exact(statement.filter) and whole_files_match(statement.found)):
        change_rows(statement, rows, _KIND, rows.delete_changes)
    elif statement.tasks:
        _drop_files(statement)
    else:
        run.outcome.metrics["deleted-records"] = 0


def _drop_files(statement: Statement) -> None:
    """No row is read."""
    run, snapshot = statement.run, statement.found.snapshot
    run.outcome.metrics["metadata-only"] = 1
    start = None if snapshot is None else snapshot.snapshot_id
    done = commit_rows(run, DeleteFiles(filter=statement.filter, starting_snapshot_id=start, **row_fields(run)), ())
    if done.snapshot is not None and run.outcome.changed:  # others may have added files that match, or removed some
        run.outcome.metrics["deleted-data-files"] = count_of(done.snapshot.summary.get("deleted-data-files")) or 0
