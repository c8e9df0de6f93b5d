"""The data files that a snapshot removed, also if its writer did not enter them.

The spec asks for a DELETED entry of each removed file, with the id of the snapshot that removed it. Some engines give these entries
the id of the snapshot that had added the file (pyiceberg up to 0.11), and some leave them out. So numbers in the manifest lists are
compared first: the live files before, plus the added, minus the removed ones, must be the live files after. If they are not, or if
a number is not recorded, the manifests that are no longer listed are read: files that are live there, and not in the new manifests,
were removed. Summaries are not used: in those of its overwrites, pyiceberg 0.6 to 0.8 counts every file of the table as deleted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from iceberg_ops.io.locations import identity_under
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table


@dataclass(frozen=True, slots=True)
class Listed:
    """What a snapshot's manifest list shows: the manifests that the snapshot ``wrote``, and the number of live ``data_files``
    (None: not recorded)."""

    wrote: tuple[ManifestFile, ...] = ()
    data_files: int | None = 0


def listed(table: Table, snapshot: Snapshot) -> Listed:
    """Raises CorruptTableError."""
    manifests = manifests_of(table, snapshot)
    wrote = tuple(m for m in manifests if m.added_snapshot_id == snapshot.snapshot_id)
    data = _of_data(manifests)
    return Listed(wrote, _sum([n for m in data for n in (m.added_files_count, m.existing_files_count)]))


def has(manifest: ManifestFile, status: EntryStatus) -> bool:
    """Whether the manifest may have entries of this status, ADDED or DELETED."""
    count = manifest.added_files_count if status is EntryStatus.ADDED else manifest.deleted_files_count
    return count is None or count > 0


def removed_entries(
    table: Table,
    snapshot: Snapshot,
    before: Listed | None,
    after: Listed,
    may_match: Callable[[ManifestFile], bool] = lambda _: True,
) -> Iterator[ManifestEntry]:
    """Entries of the data files that ``snapshot`` removed: its own DELETED ones, or those that were live before. ``before`` and
    ``after`` are of its parent and of itself; ``before`` None: the parent has expired, so that only DELETED entries are known. Only
    entries of manifests that ``may_match``. Raises CorruptTableError."""
    data = _of_data(after.wrote)
    if _all_are_entered(before, after, data):
        for manifest in data:
            if has(manifest, EntryStatus.DELETED) and may_match(manifest):
                yield from (e for e in entries_of(table, manifest) if e.status is EntryStatus.DELETED)
        return
    parent = table.metadata.snapshots_by_id.get(snapshot.parent_snapshot_id or 0)
    old, new = _of_data(manifests_of(table, parent)), _of_data(manifests_of(table, snapshot))
    identity = identity_under(table.io)

    def live_in(manifests: Iterable[ManifestFile]) -> Iterator[tuple[tuple[str, int], ManifestEntry]]:
        for manifest in manifests:
            for e in entries_of(table, manifest, live_only=True):
                yield (identity(e.data_file.file_path), e.sequence_number or 0), e

    kept = Counter(key for key, _ in live_in(_without(new, old)))
    for key, entry in live_in(m for m in _without(old, new) if may_match(m)):
        if kept[key]:
            kept[key] -= 1
        else:
            yield entry


def _without(these: Sequence[ManifestFile], others: Sequence[ManifestFile]) -> list[ManifestFile]:
    known = {m.manifest_path for m in others}
    return [m for m in these if m.manifest_path not in known]


def _all_are_entered(before: Listed | None, after: Listed, wrote: Sequence[ManifestFile]) -> bool:
    if before is None:
        return True
    added, removed = _sum([m.added_files_count for m in wrote]), _sum([m.deleted_files_count for m in wrote])
    if before.data_files is None or after.data_files is None or added is None or removed is None:
        return False
    return before.data_files + added - removed == after.data_files


def _of_data(manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    return [m for m in manifests if m.content is ManifestContent.DATA]


def _sum(counts: Sequence[int | None]) -> int | None:
    return None if None in counts else sum(count or 0 for count in counts)
