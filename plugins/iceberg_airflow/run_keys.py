"""What a task's work is, as a digest, and the run key that names it by default.

The run key makes a commit happen once, so it must stand for the work and not only for the place of the task: a mapped task that is
cleared after its list changed has the same place and other work. The default key is DAG, run, task and the digest. The map index is
no part of it: where a list was changed, the same work may be found at another index, and is not done again. Two mapped tasks of one
run with the same work are therefore one piece of work; give them run keys to have it done twice.

The digest holds what decides about the resulting rows (job, table, branch, condition, source, SET, ON, clauses, options), and
nothing that decides only how they are written or reached: a cleared task with another lane, mode, file size or password keeps its
key, also where the password stands in a path, a view, a query or an option. It must stay the same over releases, because tasks are
cleared after months.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from iceberg_airflow.job_folder import TryIdentity
from iceberg_ops.config.actions import ROW_OPERATIONS
from iceberg_ops.config.job_spec import JobSpec, Source
from iceberg_ops.config.secrets import HIDDEN, hide_in_path, hide_in_sql, is_secret_setting

_DIGITS = 16
HOW_OPTIONS = frozenset(
    {
        *("target-file-size-bytes", "distribution-mode", "write-tasks", "isolation-level", "delete-granularity"),
        "require-success-file",
    }
)
"""Options of row operations that leave the resulting rows as they are."""


def work_of(job: JobSpec) -> str:
    """The digest of what the job does."""
    rows = job.job in ROW_OPERATIONS
    change = {} if job.change is None else msgspec.to_builtins(replace(job.change, mode=None))
    document = {
        "job": job.job,
        "table": job.table,
        "branch": job.branch,
        "where": job.where,
        "options": {k: hide_in_sql(v, ()) for k, v in job.options.items() if not (rows and k in HOW_OPTIONS)},
        "source": None if job.source is None else _source(job.source),
        "change": change or None,
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:_DIGITS]


def default_run_key(identity: TryIdentity, work: str, deployment: str | None) -> str:
    """``[deployment/]dag/run/task/work``. ``deployment`` tells apart Airflows that have DAGs of one name on one catalog."""
    return "/".join([*([deployment] if deployment else []), identity.task_key, work])


def _source(source: Source) -> dict[str, Any]:
    """The source as a document: of its catalog only the name, paths in one order (a listing may give them in any), and no secret
    of its own, which may be another one when the task is cleared."""
    catalog = source.catalog
    shown = replace(
        source,
        catalog=None,
        paths=sorted(hide_in_path(path, ()) for path in source.paths),
        options={k: HIDDEN if is_secret_setting(k, v) else hide_in_path(v, ()) for k, v in source.options.items()},
        query=None if source.query is None else hide_in_sql(source.query, ()),
        views={name: hide_in_path(path, ()) for name, path in source.views.items()},
    )
    return {**msgspec.to_builtins(shown), **({"catalog": catalog.name} if catalog is not None else {})}
