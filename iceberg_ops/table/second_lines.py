"""Decides from a metadata file whether a second catalog also commits to the table.

A table belongs to one catalog. If a second one registered it (``register``), each continues from its own pointer, and treats the
other's files as orphans. Neither knows of the other, but their metadata files are in one folder:

- A file that was built on one which this table never had belongs to another line of history. (A failed commit leaves a file that
  was built on a file of the table's own log.) So does a later file that was built on a file which the table no longer knows.
- So does a later file with the other naming scheme: filesystem catalogs write ``v<N>``, the others ``<N>-<uuid>``. A name that is
  only a uuid is a filesystem table's file in Java before it gets its version: its name shows nothing.

Only files after the oldest entry of the table's log are checked, because a log is limited. Clocks differ, and a failed commit may
have begun before that entry, so the files in the log of the oldest entry count as known, too. An earlier state that is registered
again looks the same, until as many commits were made as the log holds: the later files may be current in another catalog, and stay.
"""

from __future__ import annotations

import re
from functools import cached_property

from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.io.locations import Identity, identity_under
from iceberg_ops.table.metadata_files import parse_version, read_metadata
from iceberg_ops.table.same_table import LoggedFile
from iceberg_ops.table.table import Table

_COUNTED = re.compile(r"(?:.*/)?v\d+\.[^/]*")


def is_counted(location: str) -> bool:
    """Whether a metadata file has a filesystem catalog's name."""
    return _COUNTED.fullmatch(location) is not None


class KnownMetadataFiles:
    """The known metadata files of a table. ``counts``: whether its catalog uses the names ``v<N>``; None: derived from its current
    file, which may still have the name that a former catalog gave."""

    def __init__(self, table: Table, *, counts: bool | None = None) -> None:
        metadata = table.metadata
        self._io = table.io
        self._identity: Identity = identity_under(table.io)
        self.counts = is_counted(table.metadata_location) if counts is None else counts
        """Whether its names are of the form ``v<N>``."""
        log = [(entry.metadata_file, entry.timestamp_ms) for entry in metadata.metadata_log]
        self._logged: list[LoggedFile] = [*log, (table.metadata_location, metadata.last_updated_ms)]
        self._files = {self._identity(location) for location, _ in self._logged}
        self._times = {at for _, at in self._logged}
        self.since_ms = min(self._times)
        """The time of its oldest known file. The log has dropped older files."""

    def has(self, location: str) -> bool:
        """Whether it is the current metadata file, or one of the log."""
        return self._identity(location) in self._files

    @property
    def forgets_before(self) -> int:
        """Files with this version or a lower one, and the table's own naming scheme, are the table's own old files, unless they are
        later than ``since_ms``. A numbered name is used once, so only a higher one can belong to another line."""
        versions = (parse_version(location) or 0 for location, _ in self._logged if is_counted(location) == self.counts)
        return (max if self.counts else min)(versions, default=0)

    def is_left_by(self, state: Table) -> bool:
        """Whether ``state``, with the same uuid, belongs to another line that continues beside this one."""
        return not self.has(state.metadata_location) and any(not self._was_own(file) for file in self._signs_in(state))

    def _signs_in(self, state: Table) -> list[LoggedFile]:
        """Files that the table does not know. It would know them, by their times, if the state were one of its own."""
        place, at = current_file = state.metadata_location, state.metadata.last_updated_ms
        log = [(entry.metadata_file, entry.timestamp_ms) for entry in state.metadata.metadata_log]
        # ClickHouse also lists the file in itself.
        built_on = [file for file in log if self._identity(file[0]) != self._identity(place)]
        signs = [file for file in built_on if file[1] > self.since_ms]
        if at > self.since_ms and at not in self._times:
            is_of_another_kind = parse_version(place) is not None and is_counted(place) != self.counts
            signs += [*built_on[-1:], *([current_file] if is_of_another_kind else [])]
        return [file for file in signs if not self._knows(file)]

    def _knows(self, file: LoggedFile) -> bool:
        """A copy of one of its own files has the time of that file."""
        return file[1] in self._times or self.has(file[0])

    def _was_own(self, file: LoggedFile) -> bool:
        files, times = self._forgotten
        return file[1] in times or self._identity(file[0]) in files

    @cached_property
    def _forgotten(self) -> tuple[set[str], set[int]]:
        """Identities and times of the files in the log of the oldest known file."""
        try:
            log = read_metadata(self._io, self._logged[0][0]).metadata_log
        except CorruptTableError:
            return set(), set()
        return {self._identity(entry.metadata_file) for entry in log}, {entry.timestamp_ms for entry in log}


def second_catalog(table: Table, location: str) -> UnsupportedError:
    """The error for a table whose metadata file at ``location`` was committed by another catalog."""
    counted = is_counted(table.metadata_location)
    leave = "move its files v<N>.metadata.json and version-hint.text out of the folder" if counted else "drop it without purge"
    return UnsupportedError(
        f"not supported: this job on table {table.name}, because another catalog has the table too and commits to it: {location} "
        "was not committed here, and the job would delete files that it needs. A table belongs to one catalog: where that is the "
        f"other one, {leave}. If no catalog uses that file (an earlier state was registered again), move it away together with "
        "the files that came with it"
    )
