"""Checks whether a version that was just created is the table's next one.

Exclusive creation only shows that the name was free. The name may have been freed: the table was dropped, or its versions were
cleaned up while the writer slept for a hundred commits. So after a writer has created a version it checks the folder again, and
deletes its version if it is not the next one.
"""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_ops.catalog.versions import Listed, TableVersions
from iceberg_ops.config.properties import METADATA_PREVIOUS_VERSIONS_MAX
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.table_uuid import same_uuid, uuid_key
from iceberg_ops.table.metadata_files import read_metadata


@dataclass(frozen=True, slots=True)
class PlacedVersion:
    """``metadata`` was created at ``location`` as ``version``, on top of ``current`` at ``current_location``."""

    versions: TableVersions
    location: str
    version: int
    current: TableMetadata
    metadata: TableMetadata
    current_location: str

    def refusal(self) -> str | None:
        """Why the version does not count; None if it belongs to the table. Raises CorruptTableError if neither can be shown."""
        on_top = self._is_on_top_of_current()
        dropped = self.versions.dropped()
        if uuid_key(self.metadata.table_uuid) in dropped:
            return f"version {self.version} at {self.location} was written too late: the table was dropped"
        if above := self._above(dropped):
            if (known := self._is_known_to(above)) is None:
                raise CorruptTableError(f"the table is at version {max(above)}, which does not say what it was built on")
            return (
                None
                if known
                else f"version {self.version} at {self.location} is outdated: the table is already at version {max(above)}"
            )
        if not on_top:
            return (
                f"version {self.version} at {self.location} was written too late: {self.current_location}, which it was built on, "
                "is gone"
            )
        return None

    def is_built_upon(self) -> bool:
        """Whether another writer read the version as the current one and committed the next version on top of it."""
        for name in self.versions.listed().get(self.version + 1, ()):
            later = read_metadata(self.versions.io, f"{self.versions.folder}/{name}")
            if same_uuid(later.table_uuid, self.metadata.table_uuid) and self._logged_by(later) == self.metadata.last_updated_ms:
                return True
        return False

    def is_left_to_the_drop(self) -> bool:
        """Whether the table was dropped and the drop deletes this version, or may be about to: then its writer must not delete
        it."""
        mark = self.versions.drop_mark(self.metadata.table_uuid) if self.metadata.table_uuid else None
        return mark is not None and (mark.names is None or self.location.rpartition("/")[2] in mark.names)

    def _is_on_top_of_current(self) -> bool:
        """Whether the previous version exists and still belongs to the same table."""
        try:
            return same_uuid(self.versions.version_uuid(self.current_location.rpartition("/")[2]), self.current.table_uuid)
        except FileNotFoundError:
            return False

    def _above(self, dropped: frozenset[str]) -> Listed:
        above = {v: names for v, names in self.versions.listed().items() if v > self.version}
        if not dropped:
            return above
        return {
            v: left for v, names in above.items() if (left := [n for n in names if self.versions.version_uuid(n) not in dropped])
        }

    def _is_known_to(self, above: Listed) -> bool | None:
        """Whether the versions above were built on this one; None if this cannot be determined."""
        later = self._read(above, min(above))
        if not same_uuid(later.table_uuid, self.metadata.table_uuid):
            return False
        logged = self._logged_by(later)
        if logged is not None and logged != self.metadata.last_updated_ms:
            return False
        if new := self.metadata.snapshots_by_id.keys() - self.current.snapshots_by_id.keys():
            return True if new <= later.snapshots_by_id.keys() else None
        return True if logged is not None and self._was_never_cleaned(above) else None

    def _was_never_cleaned(self, above: Listed) -> bool:
        """Whether no file of this name can have been deleted before, so that the logged file is ours. A time stamp alone does not
        show it: two commits may share a millisecond. A version is deleted after it has dropped out of the metadata log."""
        newest = max(above)
        if any(version not in above for version in range(self.version + 1, newest)):
            return False
        kept = min(METADATA_PREVIOUS_VERSIONS_MAX.of(self._read(above, version).properties) for version in above)
        return newest <= self.version + kept

    def _read(self, listed: Listed, version: int) -> TableMetadata:
        return read_metadata(self.versions.io, f"{self.versions.folder}/{listed[version][0]}")

    def _logged_by(self, later: TableMetadata) -> int | None:
        """When this version was last updated, by the metadata log of a later one; None if the log does not contain it."""
        name = self.location.rpartition("/")[2]
        times = [e.timestamp_ms for e in later.metadata_log if e.metadata_file.rpartition("/")[2] == name]
        return times[-1] if times else None
