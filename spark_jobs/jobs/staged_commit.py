"""The last step of a job that staged files: one commit, and no file left behind where it is known not to have happened.

The commit is recorded (``JobRun.outcome``) before anything is cleaned up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from iceberg_ops.commit import staged_files
from iceberg_ops.commit.operation import Operation
from iceberg_ops.commit.snapshot_operation import SnapshotOperationFields
from iceberg_ops.config.report import ActionReport
from iceberg_ops.config.row_options import WAP_ID
from iceberg_ops.spec.content_files import DataFile
from spark_jobs.jobs.job_run import JobRun


def commit_staged(run: JobRun, operation: Operation, staged: Sequence[DataFile]) -> ActionReport:
    """Commit ``operation``; ``staged`` are the files this run wrote for it, deleted as ``commit.staged_files`` says."""
    with run.step("commit"):
        wanted = _for_audit(operation) if WAP_ID in run.job.options else operation
        paths = [f.file_path for f in staged]
        result = staged_files.commit_staged(
            run.catalog,
            run.table,
            wanted,
            paths,
            mark=run.operation_id,
            check=run.check_files,
            on_commit=run.outcome.record,
        )
    return run.committed(result)


def _for_audit(operation: Operation) -> Operation:
    """The same snapshot, on no branch until it is published (write-audit-publish)."""
    assert isinstance(operation, SnapshotOperationFields), "write_options lets no schema change wait for an audit"
    return replace(operation, staged=True)
