"""Whether two states that were loaded under one name are states of one table.

A table keeps its uuid (spec: "table-uuid"), in whatever case a writer spells it. In v1 it may have none, and get one by any commit:
then its history must show that one state came of the other. Where neither does, the two are taken for different tables: a commit is
refused and files are kept.
"""

from __future__ import annotations

from iceberg_ops.io.locations import identity_under
from iceberg_ops.spec.table_uuid import same_uuid
from iceberg_ops.table.table import Table


def same_table(one: Table, other: Table) -> bool:
    """Whether both are states of one table, whichever is the later one."""
    if one.metadata.table_uuid and other.metadata.table_uuid:
        return same_uuid(one.metadata.table_uuid, other.metadata.table_uuid)
    return _came_of(one, other) or _came_of(other, one) or _share_a_snapshot(one, other)


def logged(table: Table, metadata_location: str, last_updated_ms: int) -> bool:
    """Whether the metadata file is one of the table's: the current one or one of its log. Its time tells it from a file of another
    table in the same place: a filesystem catalog counts its names."""
    identity = identity_under(table.io)
    wanted = (identity(metadata_location), last_updated_ms)
    known = [(table.metadata_location, table.metadata.last_updated_ms)]
    known += [(entry.metadata_file, entry.timestamp_ms) for entry in table.metadata.metadata_log]
    return any((identity(location), at) == wanted for location, at in known)


def _came_of(later: Table, earlier: Table) -> bool:
    return logged(later, earlier.metadata_location, earlier.metadata.last_updated_ms)


def _share_a_snapshot(one: Table, other: Table) -> bool:
    """Ids are drawn at random, and each snapshot has a manifest list, or manifests, of its own."""
    known = other.metadata.snapshots_by_id
    return any(
        (found := known.get(s.snapshot_id)) is not None
        and (found.timestamp_ms, found.manifest_list, found.manifests) == (s.timestamp_ms, s.manifest_list, s.manifests)
        for s in one.metadata.snapshots
    )
