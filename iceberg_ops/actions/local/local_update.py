"""How an update changes rows, on lane local."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from iceberg_ops.actions.local.local_rows import LocalRows, Positions, in_file
from iceberg_ops.actions.local.set_values import SetValue, Sides, set_values, values_of_row
from iceberg_ops.actions.rows.row_engine import RowChanges, Statement
from iceberg_ops.scan.tasks import FileScanTask


def update_changes(statement: Statement) -> RowChanges:
    """The matching rows with their new values. Raises OptionError, UnsupportedError for an expression that needs Spark, DataError
    for a value that does not fit."""
    run, change = statement.run, statement.run.job.change
    assert change is not None
    values = values_of_row(statement.schema, set_values(Sides(statement.schema), change.set), otherwise_kept=True)
    work = LocalRows(statement)
    with work.cleared_up(), run.step("evaluate"):
        updated = [(task, _updated(work, task, values)) for task in work.tasks]
        return work.changes([(task, positions) for task, positions in updated if len(positions)])


def _updated(work: LocalRows, task: FileScanTask, values: Sequence[SetValue]) -> Positions:
    """Write the task's matching rows with their new values; returns their positions."""
    gone = [np.empty(0, np.int64)]
    for rows, positions in work.matching_rows(task):
        if not rows.num_rows:
            continue
        work.write([v.of(rows, None, rows.num_rows) for v in values], rows, in_file(task, positions))
        gone.append(positions)
    return np.concatenate(gone)
