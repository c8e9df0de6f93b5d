"""Whether two states that were loaded under one name are states of one table.

A table keeps its uuid (spec: "table-uuid"), in whatever case a writer spells it. In v1 it may have none, and get one by any commit:
then its history must show that one state came of the other. Where neither does, the two are taken for different tables: a commit is
refused and files are kept.
"""

from __future__ import annotations

from iceberg_ops.io.locations import identity_under
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.table_uuid import same_uuid
from iceberg_ops.table.table import Table

_File = tuple[str, int]
"""Identity of a metadata file, and when it was last updated: a filesystem catalog counts its names, so that another table may have
had the same file."""
_Snapshot = tuple[int, int, str | None, tuple[str, ...] | None]


def same_table(one: Table, other: Table) -> bool:
    """Whether both are states of one table, whichever is the later one."""
    if one.metadata.table_uuid and other.metadata.table_uuid:
        return same_uuid(one.metadata.table_uuid, other.metadata.table_uuid)
    return TableStates(one).lead_to(other)


class TableStates:
    """States that are known to be one table's, of which any number may be added."""

    def __init__(self, table: Table) -> None:
        self._identity = identity_under(table.io)
        self._files: set[_File] = set()
        self._logged: set[_File] = set()
        self._snapshots: set[_Snapshot] = set()
        self.add(table)

    def add(self, state: Table) -> None:
        self._files.add(self._file_of(state))
        self._logged |= self._log_of(state)
        self._snapshots |= _snapshots_of(state.metadata)

    def lead_to(self, state: Table) -> bool:
        """Whether ``state`` came before or after one of them by their metadata logs, or has one of their snapshots."""
        return (
            self._file_of(state) in self._files
            or self._file_of(state) in self._logged
            or not self._files.isdisjoint(self._log_of(state))
            or not self._snapshots.isdisjoint(_snapshots_of(state.metadata))
        )

    def _file_of(self, state: Table) -> _File:
        return self._identity(state.metadata_location), state.metadata.last_updated_ms

    def _log_of(self, state: Table) -> set[_File]:
        return {(self._identity(e.metadata_file), e.timestamp_ms) for e in state.metadata.metadata_log}


def share_a_snapshot(one: TableMetadata, other: TableMetadata) -> bool:
    """Ids are drawn at random, and each snapshot has a manifest list, or manifests, of its own."""
    return not _snapshots_of(one).isdisjoint(_snapshots_of(other))


def logged(table: Table, metadata_location: str, last_updated_ms: int) -> bool:
    """Whether the metadata file is one of the table's: the current one or one of its log. Its time tells it from a file of another
    table in the same place: a filesystem catalog counts its names."""
    identity = identity_under(table.io)
    wanted = (identity(metadata_location), last_updated_ms)
    known = [(table.metadata_location, table.metadata.last_updated_ms)]
    known += [(entry.metadata_file, entry.timestamp_ms) for entry in table.metadata.metadata_log]
    return any((identity(location), at) == wanted for location, at in known)


def _snapshots_of(metadata: TableMetadata) -> set[_Snapshot]:
    return {(s.snapshot_id, s.timestamp_ms, s.manifest_list, s.manifests) for s in metadata.snapshots}
