"""The files that one maker has created, so that it can delete these and no others.

A maker is a task attempt, a worker process or the job's own process. Several may do the same work at the same time: a speculative
twin, a retry, a task of an executor that is lost to the driver but still runs. The rule upheld: a file is a maker's own once its
exclusive creation has succeeded. A name that was taken (FileExistsError) belongs to somebody else, and so does every other file.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import BinaryIO

from iceberg_ops.io.file_io import DeleteFailure, FileIO


class CreatedFiles:
    """A maker's record. ``locations`` were created on its behalf, by tasks that have answered with them."""

    def __init__(self, io: FileIO, locations: Iterable[str] = ()) -> None:
        self._io = io
        self._locations = list(locations)

    def created(self, location: str) -> None:
        """Record a file whose creation has just succeeded."""
        self._locations.append(location)

    def discard(self) -> list[DeleteFailure]:
        """Delete what is recorded; returns what could not be deleted. A second call has nothing to do."""
        gone, self._locations = self._locations, []
        return self._io.delete_many(gone) if gone else []


def give_up(output: BinaryIO) -> None:
    """Forget an output that is not closed: its file never comes to be. A closed output stays as it is."""
    error = RuntimeError("the file is given up")
    output.__exit__(type(error), error, None)
