"""Rewrites manifests so that files of one partition are together (Java: RewriteManifests). No file is added or removed.

Live entries of the chosen manifests are sorted by their partition and written as EXISTING, with their snapshot ids and numbers. The
work is kept between attempts and discarded only if one of the replaced manifests is gone. That is never a conflict: the rewrite is
repeated on the current manifests. Works on any branch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from iceberg_ops.commit.manifests.manifest_writing import ManifestFolder, existing, manifest_key
from iceberg_ops.commit.manifests.snapshot_draft import Changes, NewManifests, SnapshotDraft
from iceberg_ops.commit.manifests.snapshot_operation import SnapshotOperationFields
from iceberg_ops.commit.protocol.history import History, base_snapshot
from iceberg_ops.commit.protocol.operation import StagedCommit
from iceberg_ops.errors import BadInputError, ValidationError
from iceberg_ops.expressions.ordering import order_key
from iceberg_ops.spec.manifests import ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.snapshots import SnapshotOperation
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table

Begin = Callable[[str, str, int, int], Callable[[int, int], object]]
"""Called when work begins, with the work, its unit, how many there are and their bytes; returns the callback for each part done."""


@dataclass(slots=True)
class RewrittenManifests:
    """The written manifests and the manifests they replace, by content."""

    draft: SnapshotDraft
    done: dict[ManifestContent, tuple[Hashable, list[ManifestFile]]] = field(default_factory=dict)

    @property
    def written(self) -> tuple[str, ...]:
        return self.draft.written


@dataclass(frozen=True, kw_only=True)
class RewriteManifests(SnapshotOperationFields):
    """``spec_id`` None: the table's default spec. ``manifest_paths`` None: all manifests of that spec. ``sort_by``: names of
    partition fields (empty: all of them, in order). ``content`` None: data and delete manifests, separately.
    ``rewrite_if`` filters the chosen manifests (Java: rewriteIf), again on every attempt. ``begin`` is called for manifests read
    and entries written, in each attempt that does so."""

    spec_id: int | None = None
    manifest_paths: tuple[str, ...] | None = None
    sort_by: tuple[str, ...] = ()
    content: ManifestContent | None = None
    rewrite_if: Callable[[ManifestFile], bool] | None = None
    begin: Begin | None = None
    name: str = "rewrite_manifests"

    def prepare(self, table: Table) -> RewrittenManifests:  # type: ignore[override]
        return RewrittenManifests(SnapshotDraft(table))

    def validate(self, table: Table, history: History) -> None:
        return None

    def stage(self, prepared: RewrittenManifests, table: Table) -> StagedCommit:
        metadata = table.metadata
        spec_id = metadata.default_spec_id if self.spec_id is None else self.spec_id
        if spec_id not in metadata.specs_by_id:
            raise BadInputError(f"table {table.name} has no partition spec {spec_id}")
        parent = base_snapshot(metadata, self.branch)
        if parent is None:
            return StagedCommit()
        current = manifests_of(table, parent)
        manifests: list[ManifestFile] = []
        replaced = processed = 0
        for content in ManifestContent:
            mine = [m for m in current if m.content is content]
            chosen = [m for m in mine if self._is_chosen(m, spec_id)]
            if not chosen:
                manifests += mine
                continue
            new = self._rewritten(prepared, table, metadata.specs_by_id[spec_id], content, chosen)
            replaced += len(chosen)
            processed += sum(_live(m) for m in new)
            manifests += [*new, *(m for m in mine if m not in chosen)]
        if not replaced:
            return StagedCommit()
        counters = {"entries-processed": str(processed)}
        made = NewManifests(manifests, Changes(operation=SnapshotOperation.REPLACE), replaced=replaced, counters=counters)
        return prepared.draft.finish(table, self.target, parent, made)

    def _is_chosen(self, manifest: ManifestFile, spec_id: int) -> bool:
        if manifest.partition_spec_id != spec_id or self.content not in (None, manifest.content):
            return False
        if self.manifest_paths is not None and manifest.manifest_path not in self.manifest_paths:
            return False
        return self.rewrite_if is None or self.rewrite_if(manifest)

    def _rewritten(
        self,
        prepared: RewrittenManifests,
        table: Table,
        spec: PartitionSpec,
        content: ManifestContent,
        chosen: Sequence[ManifestFile],
    ) -> list[ManifestFile]:
        key = (table.metadata.format_version, frozenset(map(manifest_key, chosen)))
        known = prepared.done.get(content)
        if known is None or known[0] != key:
            folder = prepared.draft.folder
            ordered = sorted(self._live_entries(folder, table, chosen), key=self._sort_key(spec))
            written = self._begin("writing", "entries", len(ordered), 0)
            new = folder.write_rolling(
                table, spec.spec_id, content, (existing(e) for e in ordered), on_written=lambda m: written(_live(m), 0)
            )
            no_lost_files(len(ordered), new)
            known = (key, new)
            prepared.done[content] = known
        return known[1]

    def _live_entries(self, folder: ManifestFolder, table: Table, chosen: Sequence[ManifestFile]) -> list[ManifestEntry]:
        read = self._begin("reading", "manifests", len(chosen), sum(m.manifest_length for m in chosen))
        entries: list[ManifestEntry] = []
        for m in chosen:
            entries += [e for e in folder.entries(table, m) if e.is_live]
            read(1, m.manifest_length)
        return entries

    def _begin(self, what: str, unit: str, count: int, bytes_: int) -> Callable[[int, int], object]:
        return (lambda _count, _bytes: None) if self.begin is None else self.begin(what, unit, count, bytes_)

    def _sort_key(self, spec: PartitionSpec) -> _Key:
        names = [f.name for f in spec.fields]
        if unknown := [n for n in self.sort_by if n not in names]:
            raise BadInputError(
                f"sort_by {unknown[0]!r} is not a partition field of spec {spec.spec_id}: it has {', '.join(names)}"
            )
        return _Key([names.index(n) for n in self.sort_by] or list(range(len(names))))


@dataclass(frozen=True, slots=True)
class _Key:
    """Order of entries: by partition values, nulls first, then in their former order."""

    positions: list[int]

    def __call__(self, entry: ManifestEntry) -> tuple[tuple[bool, object], ...]:
        values = (entry.data_file.partition[i] for i in self.positions)
        return tuple((v is not None, 0 if v is None else order_key(v)) for v in values)


def _live(manifest: ManifestFile) -> int:
    return (manifest.added_files_count or 0) + (manifest.existing_files_count or 0)


def no_lost_files(read: int, created: Sequence[ManifestFile]) -> None:
    """Prevents a manifest rewrite that loses or doubles files (Java: "must have the same number of active files"). ``read`` are the
    live entries of the replaced manifests: what their lists count may be wrong (ClickHouse counts one file per manifest)."""
    if (new := sum(_live(m) for m in created)) != read:
        raise ValidationError(
            f"Replaced and created manifests must have the same number of active files: {new} (new), {read} (old)"
        )
