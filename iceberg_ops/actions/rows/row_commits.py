"""The last step of a row operation: one commit, and no file is left behind if it is known not to have happened."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Committed, NothingToDo, commit_result
from iceberg_ops.actions.run.staged_files import commit_staged
from iceberg_ops.commit.protocol import run_keys
from iceberg_ops.commit.protocol.operation import Operation
from iceberg_ops.config.row_options import WAP_ID
from iceberg_ops.spec.content_files import DataFile


class RowFields(TypedDict):
    """The fields of every operation of a row job."""

    branch: str
    run_key: str | None
    summary: dict[str, str]
    staged: bool


def row_fields(run: Run) -> RowFields:
    """Branch, run key and summary; with a wap id the snapshot is staged under this id."""
    wap_id = run.job.options.get(WAP_ID)
    summary = run.summary | ({} if wap_id is None else {run_keys.WAP_ID: wap_id})
    return RowFields(branch=run.job.branch, run_key=run.run_key, summary=summary, staged=wap_id is not None)


def commit_rows(run: Run, operation: Operation, staged: Sequence[DataFile], counts: Mapping[str, int]) -> Committed:
    """``commit_staged`` as a step of the run; ``staged`` are the files written for ``operation``. ``counts`` of its rows and files
    are reported only if this run has committed them."""
    run.outcome.metrics |= counts
    with run.step("commit"):
        try:
            done = commit_staged(run, operation, [f.file_path for f in staged])
        finally:
            if not run.outcome.changed:
                run.outcome.metrics = {k: v for k, v in run.outcome.metrics.items() if k == "evaluations-count"}
    return commit_result(done, run.outcome.findings())


def nothing_to_do(run: Run, counts: Mapping[str, int]) -> NothingToDo:
    """The result of an evaluation that changes no row."""
    run.outcome.metrics |= counts
    return NothingToDo(findings=run.outcome.findings())
