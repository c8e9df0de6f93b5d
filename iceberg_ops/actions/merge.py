"""MERGE INTO table USING source ON condition WHEN ...: the merge job.

A row of the table that several rows of the source match is an error of the whole statement (``merge_checks``).
"""

from __future__ import annotations

from functools import partial

from iceberg_ops.actions.rows.evaluations import run_statement
from iceberg_ops.actions.rows.merge_checks import check_clauses, needs_cardinality_check
from iceberg_ops.actions.rows.row_engine import RowEvaluator
from iceberg_ops.actions.rows.row_statement import StatementKind, change_rows, planned
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Result
from iceberg_ops.config import properties as p


def merge(run: Run, rows: RowEvaluator) -> Result:
    """Merge the source into the table; re-evaluated if others changed it in the meantime.

    Raises OptionError for clauses that make no valid statement, DataError if two source rows match one target row, and the errors
    of the engine and the committer.
    """
    change = check_clauses(run.job.change)
    kind = StatementKind(p.MERGE_MODE, p.MERGE_ISOLATION, once_each=needs_cardinality_check(change))
    changes = partial(rows.merge_changes, change=change)
    return run_statement(run, lambda now: change_rows(planned(now, rows, kind), rows, kind, changes))
