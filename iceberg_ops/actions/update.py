"""UPDATE table SET column = value WHERE condition, without an engine: the update job on lane local."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from iceberg_ops.actions.context import Run
from iceberg_ops.actions.row_commits import exact_where, only_local_options
from iceberg_ops.actions.row_statement import Positions, RowStatement, in_file
from iceberg_ops.actions.set_values import SetValue, Sides, set_values, values_of_row
from iceberg_ops.commit.statement import evaluate_until_committed
from iceberg_ops.config import properties as p
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.errors import OptionError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE
from iceberg_ops.scan.tasks import FileScanTask


def update(run: Run) -> None:
    """Update matching rows, anew where others changed them meanwhile.

    Raises OptionError without SET, UnsupportedError for what only Spark can evaluate, DataError for a value that does not fit, and
    what the committer raises.
    """
    if run.job.change is None or not run.job.change.set:
        raise OptionError("update needs at least one SET column")
    only_local_options(run)
    options = WriteOptions.parse("update", run.job.options, run.table.properties)
    head = run.table.metadata.branch_head(run.job.branch)
    with run.lease(None if head is None else head.snapshot_id):
        evaluate_until_committed(
            run.catalog, run.table, run.job.branch, lambda now, number: _evaluate(run.anew(now, number), options)
        )


def _evaluate(run: Run, options: WriteOptions) -> None:
    assert run.job.change is not None
    schema = run.table.schema
    where = ALWAYS_TRUE if run.job.where is None else exact_where(run, run.job.where)
    values = values_of_row(schema, set_values(Sides(schema), run.job.change.set), otherwise_kept=True)
    work = RowStatement(run, options, where, p.UPDATE_MODE, p.UPDATE_ISOLATION)
    with work.cleared_up():
        with run.step("evaluate"):
            found = [(task, _updated(work, task, values)) for task in work.tasks]
        work.commit([(task, positions) for task, positions in found if len(positions)])


def _updated(work: RowStatement, task: FileScanTask, values: Sequence[SetValue]) -> Positions:
    """Write the task's matching rows as they will be; their positions."""
    gone = [np.empty(0, np.int64)]
    for rows, positions in work.rows_of(task):
        if not rows.num_rows:
            continue
        work.write([v.of(rows, None, rows.num_rows) for v in values], rows, in_file(task, positions))
        gone.append(positions)
    return np.concatenate(gone)
