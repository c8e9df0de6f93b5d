"""Which files belong to expired snapshots alone, and may be deleted once these snapshots are gone from the metadata.

Which snapshots expire is decided by the commit operation; here two states of a table are compared. By difference of manifests:
only manifests that no retained snapshot lists are read for candidates, and a candidate survives if any retained manifest has it
live. Statistics files go with their snapshot unless another entry uses the path.

The rule upheld: a file is named only if nothing that remains refers to it; whatever can not be read raises CorruptTableError, so
that nothing is deleted on half a view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from iceberg_ops.io.locations import identity_under
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.manifests import ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpiredFiles:
    """Locations by kind, each once and sorted, in the order in which they are to be deleted."""

    data_files: tuple[str, ...] = ()
    position_delete_files: tuple[str, ...] = ()
    equality_delete_files: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    manifest_lists: tuple[str, ...] = ()
    statistics_files: tuple[str, ...] = ()

    def by_kind(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """(metric name, locations): content first, what refers to it later, so that a crash leaves no dangling reference."""
        return (
            ("deleted-data-files-count", self.data_files),
            ("deleted-position-delete-files-count", self.position_delete_files),
            ("deleted-equality-delete-files-count", self.equality_delete_files),
            ("deleted-manifest-files-count", self.manifests),
            ("deleted-manifest-lists-count", self.manifest_lists),
            ("deleted-statistics-files-count", self.statistics_files),
        )


def expired_files(before: Table, expired: Iterable[Snapshot], after: Table) -> ExpiredFiles:
    """Files that ``expired`` snapshots of ``before`` used and nothing in ``after`` does. Raises CorruptTableError."""
    expired = tuple(expired)
    identity = identity_under(before.io)
    kept_manifests = _manifests(after, after.metadata.snapshots, identity)
    gone = {key: m for key, m in _manifests(before, expired, identity).items() if key not in kept_manifests}
    content = _candidates(before, gone.values(), identity)
    if content:
        for manifest in kept_manifests.values():
            for entry in entries_of(after, manifest, live_only=True):
                content.pop(identity(entry.data_file.file_path), None)
    kept_lists = {identity(s.manifest_list) for s in after.metadata.snapshots if s.manifest_list}
    lists = {identity(s.manifest_list): s.manifest_list for s in expired if s.manifest_list}

    def of(kind: FileContent) -> tuple[str, ...]:
        return tuple(sorted(path for path, found in content.values() if found is kind))

    return ExpiredFiles(
        data_files=of(FileContent.DATA),
        position_delete_files=of(FileContent.POSITION_DELETES),
        equality_delete_files=of(FileContent.EQUALITY_DELETES),
        manifests=tuple(sorted(m.manifest_path for m in gone.values())),
        manifest_lists=tuple(sorted(path for key, path in lists.items() if key not in kept_lists)),
        statistics_files=_statistics(before.metadata, expired, after.metadata, identity),
    )


def _manifests(table: Table, snapshots: Iterable[Snapshot], identity: Callable[[str], str]) -> dict[str, ManifestFile]:
    return {identity(m.manifest_path): m for snapshot in snapshots for m in manifests_of(table, snapshot)}


def _candidates(
    table: Table, manifests: Iterable[ManifestFile], identity: Callable[[str], str]
) -> dict[str, tuple[str, FileContent]]:
    """Every content file that a manifest has live, with its path and kind, by path identity."""
    found: dict[str, tuple[str, FileContent]] = {}
    for manifest in manifests:
        for entry in entries_of(table, manifest, live_only=True):
            found[identity(entry.data_file.file_path)] = entry.data_file.file_path, entry.data_file.content
    return found


def _statistics(
    before: TableMetadata, expired: Iterable[Snapshot], after: TableMetadata, identity: Callable[[str], str]
) -> tuple[str, ...]:
    ids = {s.snapshot_id for s in expired}
    gone = {path for snapshot_id, path in _statistics_paths(before) if snapshot_id in ids}
    kept = {identity(path) for _, path in _statistics_paths(after)}
    return tuple(sorted(path for path in gone if identity(path) not in kept))


def _statistics_paths(metadata: TableMetadata) -> list[tuple[int, str]]:
    return [
        *((s.snapshot_id, s.statistics_path) for s in metadata.statistics),
        *((s.snapshot_id, s.statistics_path) for s in metadata.partition_statistics),
    ]
