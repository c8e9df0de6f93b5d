"""The files that a snapshot added and removed, also if its writer did not enter them as the spec asks for.

The spec asks for an ADDED or DELETED entry of each such file with the snapshot's id, in a manifest that the snapshot wrote. Some
engines give DELETED entries the id of the snapshot that had added the file (pyiceberg up to 0.11), some leave them out, and
iceberg-rust adds files to a copy of an older manifest, under the id of that one. So the manifest lists are compared first: each
manifest that was not listed before must be the snapshot's, and the live files before, plus the added, minus the removed ones, must
be the live files after, and the same for their rows. If that is not so, or a number is not recorded, or is not that of the entries
with the snapshot's id, then the files are compared: those of the manifests that are no longer listed, and those of the new
manifests. An engine may copy the DELETED entries of earlier snapshots, and leave out its own: then only the ids tell. Summaries are
not used: in those of its overwrites, pyiceberg 0.6 to 0.8 counts every file of the table as deleted.
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

ManifestTest = Callable[[ManifestFile], bool]
Counts = Callable[[ManifestFile], tuple[int | None, ...]]
"""How many files, or rows, a manifest has by its list: added, existing and deleted."""


@dataclass(frozen=True, slots=True)
class Listed:
    """What a snapshot's manifest list shows: the manifests that the snapshot ``wrote``, and for which contents the lists agree with
    what these manifests enter (``agrees``)."""

    wrote: tuple[ManifestFile, ...]
    agrees: frozenset[ManifestContent]


def before(table: Table, snapshot: Snapshot) -> Sequence[ManifestFile] | None:
    """The manifests of the parent; None: it has expired, so that only entries are known. Raises CorruptTableError."""
    if snapshot.parent_snapshot_id is None:
        return ()
    parent = table.metadata.snapshots_by_id.get(snapshot.parent_snapshot_id)
    return None if parent is None else manifests_of(table, parent)


def listed(snapshot: Snapshot, old: Sequence[ManifestFile] | None, new: Sequence[ManifestFile]) -> Listed:
    """``old`` and ``new`` are the manifests of the snapshot's parent (None: it has expired) and its own."""
    mine, known = snapshot.snapshot_id, {m.manifest_path for m in old or ()}
    wrote = tuple(m for m in new if m.added_snapshot_id == mine or (old is not None and m.manifest_path not in known))
    agrees = (
        c
        for c in ManifestContent
        if old is None or _agree(mine, _with_content(c, old), _with_content(c, wrote), _with_content(c, new))
    )
    return Listed(wrote, frozenset(agrees))


def has(manifest: ManifestFile, status: EntryStatus) -> bool:
    """Whether the manifest may have entries of this status, ADDED or DELETED."""
    return _count(manifest, status) != 0


def changed_entries(
    table: Table,
    snapshot: Snapshot,
    of: Listed,
    content: ManifestContent,
    status: EntryStatus,
    may_match: ManifestTest = lambda _: True,
) -> Iterator[ManifestEntry]:
    """Entries of the files that ``snapshot`` added or removed (``status`` ADDED or DELETED): its own, or those that a comparison
    finds, never both, only of manifests that ``may_match``. Raises CorruptTableError."""
    mine, agree = snapshot.snapshot_id, content in of.agrees
    entered: list[ManifestEntry] = []
    for manifest in of.wrote if agree else ():
        if manifest.content is content and has(manifest, status) and may_match(manifest):
            changed = [e for e in entries_of(table, manifest) if _is_change(e, status, mine)]
            agree = agree and _count(manifest, status) == len(changed) and all(e.snapshot_id == mine for e in changed)
            entered += changed
    old = None if agree else before(table, snapshot)
    if old is None:
        yield from entered
        return
    new = manifests_of(table, snapshot)
    gone, came = _without(_with_content(content, old), new), _without(_with_content(content, new), old)
    these, others = (came, gone) if status is EntryStatus.ADDED else (gone, came)
    identity = identity_under(table.io)

    def live_in(manifests: Iterable[ManifestFile]) -> Iterator[tuple[tuple[str, int, int], ManifestEntry]]:
        for manifest in manifests:
            for e in entries_of(table, manifest, live_only=True):
                yield (identity(e.data_file.file_path), e.data_file.content_offset or 0, e.sequence_number or 0), e

    there = Counter(key for key, _ in live_in(others))
    for key, entry in live_in(m for m in these if may_match(m)):
        if there[key]:
            there[key] -= 1
        else:
            yield entry


def snapshot_changes(table: Table, snapshot: Snapshot, content: ManifestContent, status: EntryStatus) -> list[ManifestEntry]:
    """Entries of the files that ``snapshot`` added or removed; if its parent has expired, of those that it entered."""
    listing = listed(snapshot, before(table, snapshot), manifests_of(table, snapshot))
    return list(changed_entries(table, snapshot, listing, content, status))


def _is_change(entry: ManifestEntry, status: EntryStatus, mine: int) -> bool:
    return entry.status is status and (status is EntryStatus.DELETED or entry.snapshot_id == mine)


def _count(manifest: ManifestFile, status: EntryStatus) -> int | None:
    return manifest.added_files_count if status is EntryStatus.ADDED else manifest.deleted_files_count


def _with_content(content: ManifestContent, manifests: Iterable[ManifestFile]) -> list[ManifestFile]:
    return [m for m in manifests if m.content is content]


def _without(these: Sequence[ManifestFile], others: Sequence[ManifestFile]) -> list[ManifestFile]:
    known = {m.manifest_path for m in others}
    return [m for m in these if m.manifest_path not in known]


def _agree(mine: int, old: Sequence[ManifestFile], wrote: Sequence[ManifestFile], new: Sequence[ManifestFile]) -> bool:
    return all(m.added_snapshot_id == mine for m in wrote) and all(_add_up(of, old, wrote, new) for of in (_files, _rows))


def _add_up(of: Counts, old: Sequence[ManifestFile], wrote: Sequence[ManifestFile], new: Sequence[ManifestFile]) -> bool:
    before, made, after = _sums(of, old), _sums(of, wrote), _sums(of, new)
    if before is None or made is None or after is None:
        return False
    return before[0] + before[1] + made[0] - made[2] == after[0] + after[1]


def _files(m: ManifestFile) -> tuple[int | None, ...]:
    return m.added_files_count, m.existing_files_count, m.deleted_files_count


def _rows(m: ManifestFile) -> tuple[int | None, ...]:
    return m.added_rows_count, m.existing_rows_count, m.deleted_rows_count


def _sums(of: Counts, manifests: Iterable[ManifestFile]) -> tuple[int, int, int] | None:
    """Added, existing and deleted ones together; None if a number is not recorded."""
    sums = [0, 0, 0]
    for counts in map(of, manifests):
        for i, count in enumerate(counts):
            if count is None:
                return None
            sums[i] += count
    return sums[0], sums[1], sums[2]
