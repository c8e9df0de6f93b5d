"""The last step of a row operation: one commit, and no file left behind where it is known not to have happened."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from iceberg_ops.actions.context import Run
from iceberg_ops.actions.staged_files import commit_staged
from iceberg_ops.commit.protocol import run_keys
from iceberg_ops.commit.protocol.operation import Committed, Operation
from iceberg_ops.config.row_options import WAP_ID
from iceberg_ops.spec.content_files import DataFile


class RowFields(TypedDict):
    """What every operation of a row job is made with."""

    branch: str
    run_key: str | None
    summary: dict[str, str]
    staged: bool


def row_fields(run: Run) -> RowFields:
    """Branch, run key and summary; with a wap id the snapshot is staged under it."""
    wap_id = run.job.options.get(WAP_ID)
    summary = run.summary | ({} if wap_id is None else {run_keys.WAP_ID: wap_id})
    return RowFields(branch=run.job.branch, run_key=run.run_key, summary=summary, staged=wap_id is not None)


def commit_rows(run: Run, operation: Operation, staged: Sequence[DataFile]) -> Committed:
    """``commit_staged`` as a step of the run; ``staged`` are the files written for ``operation``. Rows and files that were counted
    for it are reported only where this run has committed them."""
    with run.step("commit"):
        try:
            return commit_staged(run, operation, [f.file_path for f in staged])
        finally:
            if not run.outcome.changed:
                run.outcome.metrics = {k: v for k, v in run.outcome.metrics.items() if k == "evaluations-count"}
