"""Deletes many files that are proven to be unneeded: in bulk if the store supports it, or with a limited number of deletes at a
time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.io.file_io import DeleteFailure, FileIO
from iceberg_ops.io.machine_limits import MOST_THREADS

log = logging.getLogger(__name__)

DELETED_AT_ONCE = 10_000
"""Files of one bulk delete; progress is reported after each."""


def delete_files(io: FileIO, locations: Sequence[str], most_at_once: int | None) -> list[DeleteFailure]:
    """Delete the files and return the failures. ``most_at_once`` (max-concurrent-deletes): delete file by file, up to this many at
    a time (256 at most). None: delete in bulk."""
    if most_at_once is None:
        return io.delete_many(locations)

    def attempt(location: str) -> DeleteFailure | None:
        try:
            io.delete(location)
        except (OSError, IcebergOpsError) as e:
            return DeleteFailure(location, str(e))
        return None

    with ThreadPoolExecutor(min(most_at_once, MOST_THREADS), thread_name_prefix="delete") as threads:
        return [failure for failure in threads.map(attempt, locations) if failure is not None]


Delete = Callable[[FileIO, Sequence[str]], list[DeleteFailure]]
"""Deletes files; returns what could not be deleted."""
OnGone = Callable[[Sequence[str], bool], object]
"""Receives the files of one batch that are deleted, and whether more files of the batch may be deleted."""


def recorded(delete: Delete, on_gone: OnGone) -> Delete:
    """``delete``, but it reports the deleted files after each batch, also after a batch that an error or an interrupt ended
    early."""

    def delete_and_record(io: FileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        gone: list[str] | None = None
        try:
            failures = delete(io, locations)
            failed = {failure.location for failure in failures}
            gone = [location for location in locations if location not in failed]
        finally:
            if gone is None:
                _record_what_is_gone(io, locations, on_gone)
            else:
                on_gone(gone, False)
        return failures

    return delete_and_record


def _record_what_is_gone(io: FileIO, locations: Sequence[str], on_gone: OnGone) -> None:
    gone: list[str] = []
    is_sure = False
    try:
        gone += (location for location in locations if not io.exists(location))
        is_sure = True
    except (IcebergOpsError, OSError) as e:
        log.warning("a deletion of %d files was ended, and which are gone is unknown: %s", len(locations), e)
    finally:
        on_gone(gone, not is_sure)
