"""Every file that snapshots of a table refer to, by kind.

Expiry deletes what only the removed snapshots reach, orphan removal keeps what any snapshot reaches, a purge deletes all. So a file
counts as reached when an entry of it is live in any of the snapshots; a manifest that can not be read raises, because with it
unread nothing may be deleted, and what counts in lists say is not believed. Locations are as recorded; comparing them is up to
``iceberg_ops.io.locations``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from iceberg_ops.serde.manifest_columnar import FEWEST_RECORDS
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.manifests import ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile
from iceberg_ops.table.manifests import columns_of, entries_of, manifests_of
from iceberg_ops.table.table import Table


@dataclass(frozen=True, slots=True)
class ReachableFiles:
    """Locations by kind.

    ``deletes`` holds delete files and the Puffin files of deletion vectors, ``statistics`` those of tables and partitions, and
    ``metadata_files`` the current metadata file and those of the metadata log.
    """

    data: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    manifests: frozenset[str] = frozenset()
    manifest_lists: frozenset[str] = frozenset()
    statistics: frozenset[str] = frozenset()
    metadata_files: frozenset[str] = frozenset()

    def __sub__(self, other: ReachableFiles) -> ReachableFiles:
        """What only this one reaches, kind by kind; a location that ``other`` reaches as any kind stays out."""
        kept = frozenset(other)
        return ReachableFiles(*(getattr(self, f.name) - kept for f in fields(self)))

    def __iter__(self) -> Iterator[str]:
        """All locations in an order that is safe to delete in: what others point to comes first."""
        for f in fields(self):
            yield from getattr(self, f.name)


def reachable_files(table: Table, snapshots: Iterable[Snapshot] | None = None) -> ReachableFiles:
    """What the snapshots (None: all of the table's) and their statistics refer to, and the table's metadata files.

    Each manifest is read once. Raises CorruptTableError where a manifest list or manifest is missing or broken.
    """
    chosen = tuple(table.metadata.snapshots if snapshots is None else snapshots)
    manifests = {m.manifest_path: m for s in chosen for m in manifests_of(table, s)}
    data: set[str] = set()
    deletes: set[str] = set()
    for manifest in manifests.values():
        for path, content in _live(table, manifest):
            (data if content == FileContent.DATA else deletes).add(path)
    ids = {s.snapshot_id for s in chosen}
    statistics: list[StatisticsFile | PartitionStatisticsFile] = [*table.metadata.statistics, *table.metadata.partition_statistics]
    return ReachableFiles(
        data=frozenset(data),
        deletes=frozenset(deletes),
        manifests=frozenset(manifests),
        manifest_lists=frozenset(s.manifest_list for s in chosen if s.manifest_list is not None),
        statistics=frozenset(s.statistics_path for s in statistics if s.snapshot_id in ids),
        metadata_files=metadata_files(table),
    )


def _live(table: Table, manifest: ManifestFile) -> Iterator[tuple[str, int]]:
    """Path and content of each live entry; of a large manifest without making the entries."""
    listed = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    columns = columns_of(table, manifest) if sum(n or 0 for n in listed) >= FEWEST_RECORDS else None
    if columns is None:
        for entry in entries_of(table, manifest, live_only=True):
            yield entry.data_file.file_path, entry.data_file.content
        return
    for path, content, live in zip(columns.paths(), columns.content.tolist(), columns.live.tolist(), strict=True):
        if live:
            yield path, content


def metadata_files(table: Table) -> frozenset[str]:
    """The current metadata file and those that the metadata log names."""
    return frozenset((table.metadata_location, *(e.metadata_file for e in table.metadata.metadata_log)))


def all_files(table: Table) -> tuple[str, ...]:
    """Everything the table refers to, data first and metadata last (for dropping with purge). Raises CorruptTableError."""
    return tuple(dict.fromkeys((*reachable_files(table), table.metadata_location)))
