"""Every file that snapshots of a table refer to, by kind.

Expiry deletes files that only the removed snapshots reach, orphan removal keeps files that any snapshot reaches, a purge deletes
all. So a file counts as reached if an entry of it is live in any of the snapshots. A manifest that cannot be read raises an error,
because nothing may be deleted without reading it, and counts in manifest lists are not trusted. Locations are as recorded;
``iceberg_ops.io.locations`` compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile
from iceberg_ops.table.manifests import ManifestLists, live_paths, manifests_ahead
from iceberg_ops.table.metadata_files import ledger_files
from iceberg_ops.table.table import Table


@dataclass(frozen=True, slots=True)
class ReachableFiles:
    """Locations by kind.

    ``deletes`` holds delete files and the Puffin files of deletion vectors, ``statistics`` those of tables and partitions, and
    ``metadata_files`` the current metadata file, those of the metadata log, and files that record run keys.
    """

    data: frozenset[str] = frozenset()
    deletes: frozenset[str] = frozenset()
    manifests: frozenset[str] = frozenset()
    manifest_lists: frozenset[str] = frozenset()
    statistics: frozenset[str] = frozenset()
    metadata_files: frozenset[str] = frozenset()

    def __sub__(self, other: ReachableFiles) -> ReachableFiles:
        """The files that only this one reaches, by kind; a location that ``other`` reaches as any kind is left out."""
        kept = frozenset(other)
        return ReachableFiles(*(getattr(self, f.name) - kept for f in fields(self)))

    def __iter__(self) -> Iterator[str]:
        """All locations in a safe order of deletion: a file that others refer to comes first."""
        for f in fields(self):
            yield from getattr(self, f.name)


def reachable_files(table: Table, snapshots: Iterable[Snapshot] | None = None) -> ReachableFiles:
    """The files that the snapshots (None: all of the table's) and their statistics refer to, and the table's metadata files.

    Each manifest is read once. Raises CorruptTableError if a manifest list or manifest is missing or broken.
    """
    chosen = tuple(table.metadata.snapshots if snapshots is None else snapshots)
    lists = ManifestLists(table.io)
    with lists.ahead(chosen):
        manifests = {m.manifest_path: m for s in chosen for m in lists.of(s)}
    data: set[str] = set()
    deletes: set[str] = set()
    with manifests_ahead(table, manifests.values()) as near:
        for manifest in manifests.values():
            for path, content in live_paths(near, manifest):
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


def recorded_locations(table: Table) -> Iterator[str]:
    """Every location that the table's metadata refers to, for any purpose; one that several snapshots refer to may be repeated.

    Holds no more than one manifest at a time. Raises CorruptTableError if a manifest list or manifest is missing or broken.
    """
    metadata = table.metadata
    yield from metadata_files(table)
    yield from (s.statistics_path for s in metadata.statistics)
    yield from (s.statistics_path for s in metadata.partition_statistics)
    lists = ManifestLists(table.io)
    seen: set[str] = set()
    with lists.ahead(metadata.snapshots):
        for snapshot in metadata.snapshots:
            if snapshot.manifest_list is not None:
                yield snapshot.manifest_list
            new = [m for m in lists.of(snapshot) if m.manifest_path not in seen]
            seen.update(m.manifest_path for m in new)
            with manifests_ahead(table, new) as near:
                for manifest in new:
                    yield manifest.manifest_path
                    yield from (path for path, _ in live_paths(near, manifest))


def metadata_files(table: Table) -> frozenset[str]:
    """The current metadata file, those that the metadata log names, and the files that record run keys."""
    logged = (e.metadata_file for e in table.metadata.metadata_log)
    return frozenset((table.metadata_location, *logged, *ledger_files(table.metadata)))


def all_files(table: Table) -> tuple[str, ...]:
    """Everything the table refers to, data first and metadata last (for dropping with purge). Raises CorruptTableError."""
    return tuple(dict.fromkeys((*reachable_files(table), table.metadata_location)))
