"""Deleting many files that are proven to go: in bulk as the store does it best, or with no more deletes at a time than were asked
for."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.io.file_io import DeleteFailure, FileIO

DELETED_AT_ONCE = 10_000
"""Files of one bulk delete: what progress is told after."""


def delete_files(io: FileIO, locations: Sequence[str], most_at_once: int | None) -> list[DeleteFailure]:
    """What could not be deleted. ``most_at_once`` (max-concurrent-deletes): file by file, so many at a time; None: in bulk."""
    if most_at_once is None:
        return io.delete_many(locations)

    def attempt(location: str) -> DeleteFailure | None:
        try:
            io.delete(location)
        except (OSError, IcebergOpsError) as e:
            return DeleteFailure(location, str(e))
        return None

    with ThreadPoolExecutor(most_at_once, thread_name_prefix="delete") as threads:
        return [failure for failure in threads.map(attempt, locations) if failure is not None]
