"""INSERT OVERWRITE without an engine: rows replace what a filter selects, or the partitions they fall into, on lane local."""

from __future__ import annotations

from iceberg_ops.actions.context import Run
from iceberg_ops.actions.row_commits import commit_rows, exact_where, row_fields
from iceberg_ops.actions.source_files import write_source
from iceberg_ops.commit.history import base_of
from iceberg_ops.commit.operation import Operation
from iceberg_ops.commit.overwrite_files import OverwriteFiles
from iceberg_ops.commit.replace_partitions import ReplacePartitions
from iceberg_ops.commit.statement import evaluate_until_committed
from iceberg_ops.config.row_options import WriteOptions
from iceberg_ops.expressions.predicates import Expression


def overwrite(run: Run) -> None:
    """Write the source's rows and replace what was there, in one commit; anew where others changed that meanwhile.

    Raises UnsupportedError for a WHERE that only Spark can evaluate, and what ``write_source`` and the committer raise.
    """
    options = WriteOptions.parse("overwrite", run.job.options, run.table.properties)
    where = None if run.job.where is None else exact_where(run, run.job.where)
    head = base_of(run.table.metadata, run.job.branch)
    with run.lease(None if head is None else head.snapshot_id):
        evaluate_until_committed(
            run.catalog, run.table, run.job.branch, lambda now, number: _evaluate(run.anew(now, number), options, where)
        )


def _evaluate(run: Run, options: WriteOptions, where: Expression | None) -> None:
    with run.step("write") as detail:
        files = write_source(run, options)
        detail.append(f"{len(files)} files")
    run.outcome.metrics |= {"added-records": sum(f.record_count for f in files), "added-data-files": len(files)}
    head = base_of(run.table.metadata, run.job.branch)
    start = None if head is None else head.snapshot_id
    added, isolation, fields = tuple(files), options.isolation, row_fields(run)
    operation: Operation
    if where is None:
        operation = ReplacePartitions(added=added, isolation=isolation, starting_snapshot_id=start, **fields)
    else:
        operation = OverwriteFiles(added=added, overwrite_filter=where, isolation=isolation, starting_snapshot_id=start, **fields)
    commit_rows(run, operation, files)
