"""Where a task's job specs and reports lie, and how they are named.

``ICEBERG_OPS_JOBS`` names the folder (default ``$AIRFLOW_HOME/iceberg_jobs``); it must be one that workers share if reports are
to be read elsewhere. One folder per try, so that a retry overwrites nothing. Job specs may hold a catalog's secrets: files are
the owner's alone.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import JobSpec

_UNSAFE = re.compile(r"[^A-Za-z0-9._=-]+")


@dataclass(frozen=True, slots=True)
class TryIdentity:
    """Which try of which task: what names its folder."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int

    @property
    def task_key(self) -> str:
        """``dag/run/task[/index]``: the same for every try, so a retry of a job carries the same run key."""
        index = f"/{self.map_index}" if self.map_index >= 0 else ""
        return f"{self.dag_id}/{self.run_id}/{self.task_id}{index}"


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The files of one try."""

    folder: Path

    @classmethod
    def of(cls, identity: TryIdentity) -> JobFolder:
        parts = [_UNSAFE.sub("_", part) for part in identity.task_key.split("/")]
        return cls(jobs_root().joinpath(*parts, f"try-{identity.try_number}"))

    @property
    def spec(self) -> Path:
        return self.folder / "job.json"

    @property
    def report(self) -> Path:
        return self.folder / "report.json"

    def write(self, job: JobSpec) -> Path:
        """Write the job spec, readable by the owner only, and return its path."""
        self.report.unlink(missing_ok=True)
        return self.write_private(self.spec.name, to_json(job))

    def write_private(self, name: str, data: bytes) -> Path:
        """Write a file that only the owner reads, and return its path."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.folder / name
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(data)
        return path


def jobs_root() -> Path:
    """The folder of all job specs and reports."""
    home = os.environ.get("AIRFLOW_HOME", "~/airflow")
    return Path(os.environ.get("ICEBERG_OPS_JOBS") or Path(home).expanduser() / "iceberg_jobs").absolute()
