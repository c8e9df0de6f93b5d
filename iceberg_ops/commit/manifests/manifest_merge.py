"""Limits the number of manifests: small ones are merged by each commit (Java: ManifestMergeManager).

Per partition spec, latest first: manifests are packed from the end of the list into bins of ``commit.manifest.target-size-bytes``.
A bin of one stays, the bin with the newest manifest waits until it has ``commit.manifest.min-count-to-merge`` members, every
other bin is merged. Merged manifests are cached by their members, so that a retry merges only changed bins. Manifests of a spec
whose values no longer have a type (``spec.partitioning.untyped_places``) stay: a merged one would lose these values. Manifests of
former columns of a table that another engine has replaced stay too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from iceberg_ops.commit.manifests.manifest_writing import ManifestFolder, ManifestKey, existing, manifest_key
from iceberg_ops.config.properties import MANIFEST_MERGE_ENABLED, MANIFEST_MIN_MERGE_COUNT, MANIFEST_TARGET_SIZE_BYTES
from iceberg_ops.errors import FormerColumnsError
from iceberg_ops.spec.manifests import EntryStatus, ManifestEntry, ManifestFile
from iceberg_ops.spec.partitioning import untyped_places
from iceberg_ops.table.former_columns import of_former_columns
from iceberg_ops.table.table import Table, require_spec

_Bin = tuple[ManifestKey, ...]


class ManifestMerge:
    """Merges the manifests of one kind. ``replaced`` counts committed manifests that the last ``apply`` merged away."""

    def __init__(self, folder: ManifestFolder) -> None:
        self._folder = folder
        self._known: dict[_Bin, ManifestFile] = {}
        self.replaced = 0

    def apply(self, table: Table, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """``manifests`` newest first, merged if the table's properties ask for it."""
        self.replaced = 0
        if not manifests or not MANIFEST_MERGE_ENABLED.of(table.properties):
            return list(manifests)
        target = MANIFEST_TARGET_SIZE_BYTES.of(table.properties)
        least = MANIFEST_MIN_MERGE_COUNT.of(table.properties)
        former = of_former_columns(table, (m for m in manifests if not self._folder.is_new(m)))
        by_spec: dict[int, list[ManifestFile]] = {}
        for m in manifests:
            if m.manifest_path not in former:
                by_spec.setdefault(m.partition_spec_id, []).append(m)
        merged: list[ManifestFile] = []
        for spec_id in sorted(by_spec, reverse=True):
            if _is_untyped(table, spec_id):
                merged += by_spec[spec_id]
                continue
            for members in pack_from_the_end(by_spec[spec_id], target):
                if len(members) == 1 or (manifests[0] in members and len(members) < least):
                    merged += members
                else:
                    merged += self._merge(table, members)
        return [*merged, *(m for m in manifests if m.manifest_path in former)]

    def forget(self) -> None:
        self._known.clear()

    def _merge(self, table: Table, members: Sequence[ManifestFile]) -> Sequence[ManifestFile]:
        """Manifests of former columns stay, and so do the others in their bin. Raises CorruptTableError for manifests whose
        partition spec the table lacks."""
        key = tuple(map(manifest_key, members))
        merged = self._known.get(key)
        if merged is None:
            first = members[0]
            require_spec(table.metadata, first.partition_spec_id)
            try:
                entries = list(self._entries(table, members))
            except FormerColumnsError:
                return members
            merged = self._known[key] = self._folder.write_one(table, first.partition_spec_id, first.content, entries)
        self.replaced += sum(1 for m in members if not self._folder.is_new(m))
        return [merged]

    def _entries(self, table: Table, members: Sequence[ManifestFile]) -> Iterator[ManifestEntry]:
        """Files that this snapshot added or removed keep that status; older removals are left out; all others become EXISTING."""
        mine = self._folder.snapshot_id
        for manifest in members:
            for entry in self._folder.entries(table, manifest):
                if entry.status is EntryStatus.EXISTING or entry.snapshot_id == mine:
                    yield entry
                elif entry.status is EntryStatus.ADDED:
                    yield existing(entry)


def _is_untyped(table: Table, spec_id: int) -> bool:
    spec = table.metadata.specs_by_id.get(spec_id)
    return spec is not None and bool(untyped_places(spec, table.metadata.all_fields_by_id))


def pack_from_the_end(manifests: Sequence[ManifestFile], target: int) -> list[list[ManifestFile]]:
    """Consecutive bins of at most ``target`` bytes, full ones last: the bin of the newest manifests is the one with free space."""
    bins: list[list[ManifestFile]] = []
    size = 0
    for manifest in reversed(manifests):
        if bins and size + manifest.manifest_length <= target:
            bins[-1].append(manifest)
            size += manifest.manifest_length
        else:
            bins.append([manifest])
            size = manifest.manifest_length
    return [list(reversed(b)) for b in reversed(bins)]
