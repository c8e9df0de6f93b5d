"""A digest of a task's work, and the default run key.

The run key makes a commit happen once, so it must identify the work and not only the task's place: a mapped task that is
cleared after its list changed has the same place and other work. The default key is DAG, run, task and the digest. It does not
contain the map index: if a list was changed, the same work may have another index, and is not done again. So two mapped tasks of
one run with the same work are one piece of work; give them run keys to do it twice.

The digest contains what determines the resulting rows (job, table, branch, condition, source, SET, ON, clauses, options), and
not how they are written or reached: a cleared task with another lane, mode, file size or password keeps its
key, also if the password is in a path, a view, a query or an option. It must stay the same in later releases, because tasks are
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
"""Options of row operations that do not change the resulting rows."""


def work_digest(job: JobSpec, source_conn_id: str | None = None) -> str:
    """The digest of the job's work. ``source_conn_id``: the connection that the source names as its catalog. Two connections may
    have catalogs of one name (``lake_eu`` and ``lake_us``), whose tables have other rows."""
    rows = job.job in ROW_OPERATIONS
    change = {} if job.change is None else msgspec.to_builtins(replace(job.change, mode=None))
    document = {
        "job": job.job,
        "table": job.table,
        "branch": job.branch,
        "where": job.where,
        "options": {k: hide_in_sql(v, ()) for k, v in job.options.items() if not (rows and k in HOW_OPTIONS)},
        "source": None if job.source is None else _source(job.source, source_conn_id),
        "change": change or None,
    }
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:_DIGITS]


def default_run_key(identity: TryIdentity, work: str, deployment: str | None) -> str:
    """``[deployment/]dag/run/task/work``. ``deployment`` distinguishes Airflows that have DAGs with the same name on one
    catalog."""
    return "/".join([*([deployment] if deployment else []), identity.task_key, work])


def _source(source: Source, conn_id: str | None) -> dict[str, Any]:
    """The source as a document: only the name of its catalog, and its connection; paths in a fixed order (a listing may have any
    order); and none of its secrets, which may have changed when the task is cleared."""
    catalog = source.catalog
    shown = replace(
        source,
        catalog=None,
        paths=sorted(hide_in_path(path, ()) for path in source.paths),
        options={k: HIDDEN if is_secret_setting(k, v) else hide_in_path(v, ()) for k, v in source.options.items()},
        query=None if source.query is None else hide_in_sql(source.query, ()),
        views={name: hide_in_path(path, ()) for name, path in source.views.items()},
    )
    named = {} if conn_id is None else {"catalog-connection": conn_id}
    return {**msgspec.to_builtins(shown), **({"catalog": catalog.name} if catalog is not None else {}), **named}
