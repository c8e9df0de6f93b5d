"""The run of a job spec: its run key together with the kind of work (``commit.run_keys``)."""

from __future__ import annotations

from iceberg_ops.commit.protocol.run_keys import WORK, RunIdentity
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.row_options import WAP_ID


def job_run_identity(job: JobSpec) -> RunIdentity | None:
    """None if the job has no run key."""
    if job.run_key is None:
        return None
    return RunIdentity(key=job.run_key, action=job.job, branch=job.branch, staged=WAP_ID in job.options, work=job.work)


def work_summary(job: JobSpec) -> dict[str, str]:
    """The summary keys that identify the job's work; empty if the job does not identify it."""
    return {} if job.work is None else {WORK: job.work}
