"""INSERT INTO without an engine: the append job on lane local."""

from __future__ import annotations

from iceberg_ops.actions.context import Run
from iceberg_ops.actions.row_commits import commit_rows, row_fields
from iceberg_ops.actions.source_files import write_source
from iceberg_ops.commit.append_files import AppendFiles
from iceberg_ops.commit.history import base_of
from iceberg_ops.config.row_options import WriteOptions


def append(run: Run) -> None:
    """Append the source's rows; a source without rows commits nothing. Raises what ``write_source`` and the committer raise."""
    head = base_of(run.table.metadata, run.job.branch)
    with run.lease(None if head is None else head.snapshot_id):
        with run.step("write") as detail:
            files = write_source(run, WriteOptions.parse("append", run.job.options, run.table.properties))
            detail.append(f"{len(files)} files")
        run.outcome.metrics |= {"added-records": sum(f.record_count for f in files), "added-data-files": len(files)}
        if files:
            commit_rows(run, AppendFiles(added=tuple(files), **row_fields(run)), files)
