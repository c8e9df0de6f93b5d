"""INSERT OVERWRITE: new rows replace the rows that a filter selects, or (without a filter) the partitions of the new rows."""

from __future__ import annotations

from iceberg_ops.actions.rows.evaluations import run_statement
from iceberg_ops.actions.rows.row_commits import row_fields
from iceberg_ops.actions.rows.row_engine import RowEvaluator, WrittenSource
from iceberg_ops.actions.rows.source_commits import commit_source
from iceberg_ops.actions.rows.write_options import options_of, write_context
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Result
from iceberg_ops.commit.operations.overwrite_files import OverwriteFiles
from iceberg_ops.commit.operations.replace_partitions import ReplacePartitions
from iceberg_ops.commit.protocol.history import base_snapshot
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.config.row_options import Isolation
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import Expression


def overwrite(run: Run, rows: RowEvaluator) -> Result:
    """Write the source's rows and replace the old ones, in one commit; re-evaluated if others changed those in the meantime.

    Raises WhereError, and the errors of ``write_source`` and the committer.
    """
    return run_statement(run, lambda now: _evaluate(now, rows))


def _evaluate(run: Run, rows: RowEvaluator) -> Result:
    options = options_of(run.job, run.table)
    write_context(run.table, options).check_format()
    where = None
    if run.job.where is not None:
        where = rows.condition(run, run.job.where, subqueries=False)
        bind(run.table.schema, where, case_sensitive=False)
    written = rows.write_source(run, options)
    return commit_source(run, build_operation(run, written, options.isolation, where), written)


def build_operation(run: Run, written: WrittenSource, isolation: Isolation | None, where: Expression | None) -> Operation:
    """``where`` None: replace the partitions of the new rows."""
    base = base_snapshot(run.table.metadata, run.job.branch)
    start, added, fields = None if base is None else base.snapshot_id, tuple(written.files), row_fields(run)
    if where is None:
        return ReplacePartitions(
            added=added, isolation=isolation, reads_table=written.reads_table, starting_snapshot_id=start, **fields
        )
    return OverwriteFiles(
        added=added,
        overwrite_filter=where,
        isolation=isolation,
        reads_table=written.reads_table,
        starting_snapshot_id=start,
        **fields,
    )
