"""Files a run wrote: one commit adds them, and they are deleted if no commit refers to them.

Every file of a run has the run's operation id in its name, so even files of a killed worker are found by name. The gate
(``iceberg_ops.deletion``) proves that the table does not refer to a file before it deletes it, and deletes nothing while the
outcome of a commit is unknown."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence

from iceberg_ops.actions.run.context import Run
from iceberg_ops.commit.manifests import staged_files
from iceberg_ops.commit.manifests.staged_files import discard
from iceberg_ops.commit.protocol.operation import Committed, Operation
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.table.metadata_files import data_folder

log = logging.getLogger(__name__)


def commit_staged(run: Run, operation: Operation, staged: Sequence[str]) -> Committed:
    """Commit ``operation``, the only one of the run, and record it in ``run.outcome``.

    The files at ``staged`` were written for it. They are deleted if the commit is known not to have happened, or if an earlier run
    with the key has won; after an unknown outcome they stay. Raises the errors of the committer and ``Run.check_files``."""
    return staged_files.commit_staged(
        run.catalog, run.table, operation, staged, mark=run.lease_mark, check=run.check_files, on_commit=run.outcome.record
    )


def delete_staged(run: Run, locations: Iterable[str], *, after: BaseException | None = None) -> list[str]:
    """Delete files of the run that are not committed; returns those that stay, for the orphan job. ``after`` is the error that
    ended the work."""
    seen = run.outcome.table
    return list(discard(run.catalog, run.table, list(locations), mark=run.lease_mark, after=after, seen=seen).left)


def delete_leftovers(run: Run, committed: Collection[str] = (), *, after: BaseException | None = None) -> list[str]:
    """Delete every uncommitted file of the run, also of dead workers: files below the data location with its operation id in their
    name, except those known to be ``committed``. Used only after a worker failed, because it lists the whole location. Returns the
    files that stay. If the location cannot be listed, the files are left for remove_orphan_files, and the error that ended the work
    is the one that is raised."""
    try:
        listed = [info.location for info in run.table.io.list_prefix(data_folder(run.table.metadata))]
    except (IcebergOpsError, OSError) as e:
        log.warning("files of run %s on %s are left for remove_orphan_files: %s", run.operation_id, run.table.name, e)
        return []
    left = [f for f in listed if run.operation_id in f.rsplit("/", 1)[-1] and f not in committed]
    return delete_staged(run, left, after=after)
