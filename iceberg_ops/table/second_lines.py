"""Whether a metadata file shows that its table goes on in another catalog as well.

A table belongs to one catalog. Where a second one took it in (``register``), each goes on from its own pointer, and takes what the
other one commits for files of nobody. Neither knows of the other, but their metadata files lie in one folder:

- a file that was built on one which this table never had is of another line. What a commit that failed leaves behind was built on
  a file of the table's own log. So is a later file of which the table no longer knows what it was built on;
- so is a later file of another kind of name: ``v<N>`` is what filesystem catalogs write, ``<N>-<uuid>`` what the others do. A uuid
  alone is what Java calls a filesystem table's file before it gets its version: it shows nothing by its name.

Only what came after the oldest entry of the table's log is judged: a log forgets. Clocks differ, and a commit that failed may have
begun before that entry, so what the log of the oldest entry has is known as well. An earlier state that is registered again looks
the same, until as many commits were made as the log holds: the later files may be the current ones of a catalog, and stay.
"""

from __future__ import annotations

import re
from functools import cached_property

from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.io.locations import Identity, identity_under
from iceberg_ops.table.metadata_files import read_metadata, version_of
from iceberg_ops.table.same_table import LoggedFile
from iceberg_ops.table.table import Table

_COUNTED = re.compile(r"(?:.*/)?v\d+\.[^/]*")


def is_counted(location: str) -> bool:
    """Whether a metadata file is named as filesystem catalogs name them."""
    return _COUNTED.fullmatch(location) is not None


class OwnLine:
    """The metadata files that a table is known to have had. ``counts``: whether its catalog gives names of the kind ``v<N>``; None:
    as its current file is named, which may still be that of the catalog that the table came from."""

    def __init__(self, table: Table, *, counts: bool | None = None) -> None:
        metadata = table.metadata
        self._io = table.io
        self._identity: Identity = identity_under(table.io)
        self.counts = is_counted(table.metadata_location) if counts is None else counts
        """Whether its names are of the kind ``v<N>``."""
        log = [(entry.metadata_file, entry.timestamp_ms) for entry in metadata.metadata_log]
        self._logged: list[LoggedFile] = [*log, (table.metadata_location, metadata.last_updated_ms)]
        self._files = {self._identity(location) for location, _ in self._logged}
        self._times = {at for _, at in self._logged}
        self.since_ms = min(self._times)
        """When the oldest of its files was made. What is older than that, the log forgets."""

    def has(self, location: str) -> bool:
        """Whether it is the current metadata file, or one of the log."""
        return self._identity(location) in self._files

    @property
    def forgets_before(self) -> int:
        """Files of the own kind with this version or a lower one are old ones of its own, unless they are later than ``since_ms``.
        A counted name is given once, so that none but a higher one is another line's."""
        versions = (version_of(location) or 0 for location, _ in self._logged if is_counted(location) == self.counts)
        return (max if self.counts else min)(versions, default=0)

    def is_left_by(self, state: Table) -> bool:
        """Whether ``state``, of the same uuid, is of another line that goes on beside this one."""
        return not self.has(state.metadata_location) and any(not self._was_own(file) for file in self._signs_in(state))

    def _signs_in(self, state: Table) -> list[LoggedFile]:
        """Files that the table should know by their times, if it had come by them to the state, and does not."""
        place, at = own = state.metadata_location, state.metadata.last_updated_ms
        built_on = [(entry.metadata_file, entry.timestamp_ms) for entry in state.metadata.metadata_log]
        signs = [file for file in built_on if file[1] > self.since_ms]
        if at > self.since_ms and at not in self._times:
            is_of_another_kind = version_of(place) is not None and is_counted(place) != self.counts
            signs += [*built_on[-1:], *([own] if is_of_another_kind else [])]
        return [file for file in signs if not self._knows(file)]

    def _knows(self, file: LoggedFile) -> bool:
        """A copy of one of its own files has that one's time."""
        return file[1] in self._times or self.has(file[0])

    def _was_own(self, file: LoggedFile) -> bool:
        files, times = self._forgotten
        return file[1] in times or self._identity(file[0]) in files

    @cached_property
    def _forgotten(self) -> tuple[set[str], set[int]]:
        """Identities and times of what the oldest file of the log has in its own."""
        try:
            log = read_metadata(self._io, self._logged[0][0]).metadata_log
        except CorruptTableError:
            return set(), set()
        return {self._identity(entry.metadata_file) for entry in log}, {entry.timestamp_ms for entry in log}


def second_catalog(table: Table, location: str) -> UnsupportedError:
    """The error for a table of which another catalog has committed the metadata file at ``location``."""
    counted = is_counted(table.metadata_location)
    leave = "move its files v<N>.metadata.json and version-hint.text out of the folder" if counted else "drop it without purge"
    return UnsupportedError(
        f"not supported: this job on table {table.name}, because another catalog has the table too and goes on with it: {location} "
        f"was not committed here, and the job would delete files that it needs. A table belongs to one catalog: where that is the "
        f"other one, {leave}. Where no catalog is at that file (an earlier state was registered again), move it away, and those "
        f"that came with it"
    )
