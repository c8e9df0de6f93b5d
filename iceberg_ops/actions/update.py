"""UPDATE table SET column = expression WHERE condition: the update job."""

from __future__ import annotations

from iceberg_ops.actions.rows.evaluations import run_statement
from iceberg_ops.actions.rows.row_engine import RowEvaluator
from iceberg_ops.actions.rows.row_statement import StatementKind, change_rows, planned
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Result
from iceberg_ops.config import properties as p
from iceberg_ops.errors import OptionError

_KIND = StatementKind(p.UPDATE_MODE, p.UPDATE_ISOLATION)


def update(run: Run, rows: RowEvaluator) -> Result:
    """Update matching rows; re-evaluated if others changed them in the meantime. Raises OptionError without SET, and the errors of
    the engine and the committer."""
    if run.job.change is None or not run.job.change.set:
        raise OptionError("update needs at least one SET column")
    return run_statement(run, lambda now: change_rows(planned(now, rows, _KIND), rows, _KIND, rows.update_changes))
