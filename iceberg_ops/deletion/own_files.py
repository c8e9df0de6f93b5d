"""Files that one maker created and has not handed to anybody.

The proof is possession: the maker created the file exclusively, under a name with its own attempt in it, and no one else has been
told its location. A file counts as created only after its exclusive creation succeeded: ``FileExistsError`` means that the file is
somebody else's. From ``handed_over`` on the files are their taker's, and only the gate may delete them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from iceberg_ops.io.file_io import FileIO

log = logging.getLogger(__name__)


class OwnFiles:
    """What one maker has created so far: a task attempt, a worker process, or the job's own process. ``locations`` were created on
    its behalf, by tasks that have answered with them. Threads of one maker may record at the same time."""

    def __init__(self, io: FileIO, locations: Iterable[str] = ()) -> None:
        self._io = io
        self._created = list(locations)

    def created(self, *locations: str) -> None:
        """These files were created by this maker; call it after their creation succeeded."""
        self._created += locations

    def handed_over(self) -> None:
        """Somebody else knows the files now. ``discard`` no longer concerns them."""
        self._created = []

    def discard(self) -> None:
        """Delete what was created and not handed over. What cannot be deleted is left to the orphan job."""
        gone, self._created = self._created, []
        discard_own(self._io, gone)


def discard_own(io: FileIO, locations: Iterable[str]) -> None:
    """Delete files that the caller created itself and that nobody else was told of; what cannot be deleted is logged."""
    if gone := list(locations):
        for failure in io.delete_many(gone):
            log.warning("%s is left to the orphan job: %s", failure.location, failure.reason)
