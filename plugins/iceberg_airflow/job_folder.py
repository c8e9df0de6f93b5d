"""The folder with the job spec and the report of a task's try.

``ICEBERG_OPS_JOBS`` names the root (default ``$AIRFLOW_HOME/iceberg_jobs``); workers must share it if reports are
read elsewhere. Below it each try of each task has a separate folder, ``<dag>/<run>/<task>/[<map index>/]try-<n>``: no two tries
share one, whatever characters their ids have. Only the owner can access folders, and no symbolic link below the root is followed.

A folder keeps the job spec without secrets and the report. Files with secrets (``private``) exist only while the job runs. Folders
that are older than ``ICEBERG_OPS_JOBS_KEEP`` (default ``30d``) are removed by later tasks.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from msgspec.structs import replace

from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, Source
from iceberg_ops.config.secrets import hide, hide_in_path, hide_in_sql, without_secrets
from iceberg_ops.config.variables import variable
from iceberg_ops.errors import OptionError

ROOT_VARIABLE = "ICEBERG_OPS_JOBS"
SPEC, REPORT = "job.json", "report.json"
PRIVATE = "private-"
"""The prefix of the names of files with secrets."""

_MOST_TRIES = 20
_MOST_BYTES = 200
"""Longer names are cut and get a digest: file systems allow 255 bytes, Airflow's ids 250 characters."""


@dataclass(frozen=True, slots=True)
class TryIdentity:
    """The task and try that name a folder."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    try_number: int

    @property
    def task_key(self) -> str:
        """``dag/run/task``: the same for every try and every map index. A slash or percent sign in an id is percent-encoded."""
        return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in (self.dag_id, self.run_id, self.task_id))


@dataclass(frozen=True, slots=True)
class JobFolder:
    """The files of one try."""

    folder: Path

    @classmethod
    def of(cls, identity: TryIdentity) -> JobFolder:
        """The folder of a try, created if it does not exist. Raises OptionError if a symbolic link or a file is in its place."""
        index = [f"{identity.map_index}"] if identity.map_index >= 0 else []
        names = [folder_name(part) for part in (identity.dag_id, identity.run_id, identity.task_id)]
        return cls(_make(jobs_root(), [*names, *index, f"try-{identity.try_number}"]))

    @property
    def report(self) -> Path:
        return self.folder / REPORT

    def private(self, name: str) -> Path:
        """The path of a file with secrets, which exists only while a process needs it."""
        return self.folder / f"{PRIVATE}{name}"

    def write(self, job: JobSpec) -> Path:
        """Write the job spec without secrets, for later reference; an earlier report is removed."""
        self.report.unlink(missing_ok=True)
        path = self.folder / SPEC
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as out:
            out.write(to_json(_shown(job)))
        return path


def jobs_root() -> Path:
    """The folder of all job folders. As in AIRFLOW_HOME, ``~`` is the home folder: no shell reads an environment file.
    Raises OptionError for a misspelt variable."""
    home = os.environ.get("AIRFLOW_HOME", "~/airflow")
    return Path(os.path.expanduser(variable(ROOT_VARIABLE) or f"{home}/iceberg_jobs")).absolute()


def folder_name(part: str) -> str:
    """An id as a name in a file system; different ids have different names.

    Letters, digits and ``_-=.`` stay, everything else is percent-encoded, and so is a leading dot (``..`` leads out of the folder).
    A name of more than 200 bytes is cut; ``%-`` and a digest of the id, which no encoding contains, make it unique."""
    encoded = quote(part, safe="=").replace("~", "%7E")
    encoded = re.sub(r"^\.", "%2E", encoded)
    if len(encoded) <= _MOST_BYTES:
        return encoded or "%"
    return f"{encoded[: _MOST_BYTES - 66]}%-{sha256(part.encode()).hexdigest()}"


def _make(root: Path, names: list[str]) -> Path:
    """The folder, with its parents. A sweep may remove an empty one between two steps: it is then created again."""
    for _ in range(_MOST_TRIES - 1):
        try:
            return _make_once(root, names)
        except FileNotFoundError:
            continue
    return _make_once(root, names)


def _make_once(root: Path, names: list[str]) -> Path:
    try:
        root.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as e:
        raise OptionError(f"the folder of all job folders, {root}, cannot be made: {e.strerror}: set {ROOT_VARIABLE}") from None
    path = root
    for name in names:
        path = path / name
        with contextlib.suppress(FileExistsError):  # also a file, or an endless link: see below
            path.mkdir(exist_ok=True, mode=0o700)
        if not stat.S_ISDIR(path.lstat().st_mode):
            raise OptionError(f"job folder {path} must be a folder, not a link or a file: remove it, or set {ROOT_VARIABLE}")
    return path


def _shown(job: JobSpec) -> JobSpec:
    secrets = job.secrets()
    return replace(
        job,
        catalog=_without_secrets(job.catalog),
        source=None if job.source is None else _source_without_secrets(job.source, secrets),
        options={name: hide_in_sql(value, secrets) for name, value in job.options.items()},  # locations, and conditions
    )


def _source_without_secrets(source: Source, secrets: tuple[str, ...]) -> Source:
    return replace(
        source,
        paths=[hide_in_path(path, secrets) for path in source.paths],
        options={name: hide(value, secrets) for name, value in without_secrets(source.options).items()},
        query=None if source.query is None else hide_in_sql(source.query, secrets),
        views={name: hide_in_path(path, secrets) for name, path in source.views.items()},
        catalog=None if source.catalog is None else _without_secrets(source.catalog),
    )


def _without_secrets(catalog: CatalogConfig) -> CatalogConfig:
    return replace(catalog, properties=without_secrets(catalog.properties))
