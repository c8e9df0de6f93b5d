"""Files that one writer created and has not handed over to anybody.

The proof is ownership: the writer created the file exclusively, under a name that contains its own attempt, and no other process
knows the location. A file counts as created only after its exclusive creation succeeded: ``FileExistsError`` means that the file
belongs to another process. After ``handed_over`` the files belong to their receiver, and only the gate may delete them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from iceberg_ops.io.file_io import FileIO

log = logging.getLogger(__name__)


class CreatedFiles:
    """The files that one writer has created so far: a task attempt, a worker process, or the job's own process. ``locations`` were
    created on its behalf, by tasks that have returned them. Threads of one writer may record files at the same time."""

    def __init__(self, io: FileIO, locations: Iterable[str] = ()) -> None:
        self._io = io
        self._created = list(locations)

    def created(self, *locations: str) -> None:
        """Record files of this writer; call it after their creation succeeded."""
        self._created += locations

    def handed_over(self) -> None:
        """Another process knows the files now, so ``discard`` no longer deletes them."""
        self._created = []

    def discard(self) -> None:
        """Delete the files that were created and not handed over. Files that cannot be deleted are left for remove_orphan_files."""
        gone, self._created = self._created, []
        discard_own(self._io, gone)


def discard_own(io: FileIO, locations: Iterable[str]) -> None:
    """Delete files that the caller created itself and that no other process knows. Failures are logged."""
    if gone := list(locations):
        for failure in io.delete_many(gone):
            log.warning("%s is left for remove_orphan_files: %s", failure.location, failure.reason)
