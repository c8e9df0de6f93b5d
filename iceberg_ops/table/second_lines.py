"""Whether a metadata file shows that its table goes on in another catalog as well.

A table belongs to one catalog. Where a second one took it in (``register``), each goes on from its own pointer, and takes what the
other one commits for files of nobody. Neither knows of the other, but their metadata files lie in one folder:

- a file that was built on one which this table never had is of another line. What a commit that failed leaves behind was built on
  a file of the table's own log;
- so is a later file of another kind of name: ``v<N>`` is what filesystem catalogs write, ``<N>-<uuid>`` what the others do. A uuid
  alone is what Java calls a filesystem table's file before it gets its version: it shows nothing by its name.

Only what came after the oldest entry of the table's log is judged: a log forgets. An earlier state that is registered again looks
the same, until as many commits were made as the log holds: the later files may be the current ones of a catalog, and stay.
"""

from __future__ import annotations

import re

from iceberg_ops.errors import UnsupportedError
from iceberg_ops.io.locations import Identity, identity_under
from iceberg_ops.table.metadata_files import version_of
from iceberg_ops.table.table import Table

_COUNTED = re.compile(r"(?:.*/)?v\d+\.[^/]*")


def is_counted(location: str) -> bool:
    """Whether a metadata file is named as filesystem catalogs name them."""
    return _COUNTED.fullmatch(location) is not None


class OwnLine:
    """The metadata files that a table is known to have had. ``counts``: whether its catalog gives names of the kind ``v<N>``; None:
    as its current file is named, which may still be that of the catalog that the table came from."""

    def __init__(self, table: Table, *, counts: bool | None = None) -> None:
        log, metadata = table.metadata.metadata_log, table.metadata
        self._identity: Identity = identity_under(table.io)
        self.counts = is_counted(table.metadata_location) if counts is None else counts
        """Whether its names are of the kind ``v<N>``."""
        locations = (table.metadata_location, *(entry.metadata_file for entry in log))
        self._files = {self._identity(location) for location in locations}
        self._versions = {location: version_of(location) or 0 for location in locations if is_counted(location) == self.counts}
        self._times = {metadata.last_updated_ms, *(entry.timestamp_ms for entry in log)}

    def has(self, location: str) -> bool:
        """Whether it is the current metadata file, or one of the log."""
        return self._identity(location) in self._files

    @property
    def forgets_before(self) -> int:
        """Files of the own kind with this version or a lower one show no other line: the log forgets them. A counted name is given
        once, so that none but a higher one is another line's."""
        return (max if self.counts else min)(self._versions.values(), default=0)

    def is_left_by(self, state: Table) -> bool:
        """Whether ``state``, of the same uuid, is of another line that goes on beside this one."""
        if self.has(state.metadata_location):
            return False
        built_on = ((entry.metadata_file, entry.timestamp_ms) for entry in state.metadata.metadata_log)
        place = state.metadata_location
        is_of_another_kind = version_of(place) is not None and is_counted(place) != self.counts
        return any(self._is_unknown(location, at) for location, at in built_on) or (
            is_of_another_kind and self._is_unknown(place, state.metadata.last_updated_ms)
        )

    def _is_unknown(self, location: str, at_ms: int) -> bool:
        """Whether the table should know the file by its time, and does not. A copy of one of its own files has that one's time."""
        return at_ms > min(self._times) and at_ms not in self._times and not self.has(location)


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
