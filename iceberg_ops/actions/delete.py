"""DELETE FROM without an engine: the delete job on lane local."""

from __future__ import annotations

from typing import cast

from iceberg_ops.actions.changed_rows import Mode
from iceberg_ops.actions.context import Run
from iceberg_ops.actions.delete_rows import DeleteRows
from iceberg_ops.actions.row_commits import exact_where, row_fields
from iceberg_ops.config import properties as p
from iceberg_ops.config.row_options import Isolation, WriteOptions
from iceberg_ops.errors import OptionError


def delete(run: Run) -> None:
    """Delete the matching rows. Raises OptionError without a WHERE, UnsupportedError for one that only Spark can evaluate, and what
    ``DeleteRows.run`` raises."""
    if not run.job.where:
        raise OptionError('delete needs a WHERE (write "true" to delete every row)')
    options = WriteOptions.parse("delete", run.job.options, run.table.properties)
    where = exact_where(run, run.job.where)
    properties, change = run.table.properties, run.job.change
    head = run.table.metadata.branch_head(run.job.branch)
    rows = DeleteRows(
        where=where,
        isolation=options.isolation or cast("Isolation", p.DELETE_ISOLATION.of(properties)),
        granularity=options.delete_granularity,
        mode=(change.mode if change else None) or cast("Mode", p.DELETE_MODE.of(properties)),
        operation_id=run.operation_id,
        **row_fields(run),
    )
    with run.lease(None if head is None else head.snapshot_id), run.step("delete"):
        done = rows.run(run.catalog, run.table, check=run.check_files, on_commit=run.outcome.record)
    run.outcome.metrics["evaluations-count"] = done.evaluations
    if done.dropped_files:
        run.outcome.metrics |= {"deleted-data-files": done.dropped_files, "metadata-only": 1}
    else:
        run.outcome.metrics["deleted-records"] = done.rows
    if done.added_deletes:
        run.outcome.metrics["added-delete-files"] = done.added_deletes
    if done.rewritten_files:
        run.outcome.metrics |= {"rewritten-data-files-count": done.rewritten_files, "added-data-files": done.added_files}
