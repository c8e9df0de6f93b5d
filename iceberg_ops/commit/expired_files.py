"""Which files only expired snapshots refer to, by difference of manifests.

Candidates are live entries of manifests that no retained snapshot lists. A candidate is kept if a retained manifest has it live;
of those, only manifests that never stood beside the candidate's own manifest in one snapshot need to be read, because a path is
live at most once per snapshot (MANIFEST-58). On a linear history that leaves just the manifests that were rewritten.

When unsure nothing is named: a retained manifest that can not be read raises CorruptTableError; an expired one that is gone
already (a resumed clean-up) only means that its files are left to the orphan job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.locations import identity_under
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.manifests import ManifestFile
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachedFiles:
    """Locations by kind, in the order in which they may be deleted: what others point to goes first."""

    data: tuple[str, ...] = ()
    position_deletes: tuple[str, ...] = ()
    equality_deletes: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    manifest_lists: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[str]:
        for name in ("data", "position_deletes", "equality_deletes", "manifests", "manifest_lists", "statistics"):
            yield from getattr(self, name)


@dataclass(slots=True)
class _Candidate:
    manifest: ManifestFile
    beside: list[Mapping[str, ManifestFile]] = field(default_factory=list)
    """The manifests of each snapshot that it stood in."""

    def stood_beside(self, key: str) -> bool:
        return any(key in listed for listed in self.beside)


def unreached_files(after: Table, gone: Sequence[Snapshot], statistics: Iterable[str]) -> UnreachedFiles:
    """Files of the ``gone`` snapshots, and of their ``statistics`` locations, that nothing in ``after`` refers to."""
    identity = identity_under(after.io)
    kept = {identity(m.manifest_path): m for s in after.metadata.snapshots for m in manifests_of(after, s)}
    candidates: dict[str, _Candidate] = {}
    for snapshot in gone:
        listed = {identity(m.manifest_path): m for m in _manifests_still_there(after, snapshot)}
        for key, manifest in listed.items():
            if key not in kept:
                candidates.setdefault(key, _Candidate(manifest)).beside.append(listed)
    files = _content(after, candidates.values(), identity)
    for key, manifest in kept.items():
        if files and any(c.manifest.content is manifest.content and not c.stood_beside(key) for c in candidates.values()):
            for entry in entries_of(after, manifest, live_only=True):
                files.pop(identity(entry.data_file.file_path), None)
    lists = {identity(s.manifest_list): s.manifest_list for s in gone if s.manifest_list is not None}
    used_lists = {identity(s.manifest_list) for s in after.metadata.snapshots if s.manifest_list is not None}
    used_statistics = {identity(s.statistics_path) for s in after.metadata.statistics}
    used_statistics |= {identity(s.statistics_path) for s in after.metadata.partition_statistics}

    def of(content: FileContent) -> tuple[str, ...]:
        return tuple(sorted(path for path, kind in files.values() if kind is content))

    return UnreachedFiles(
        data=of(FileContent.DATA),
        position_deletes=of(FileContent.POSITION_DELETES),
        equality_deletes=of(FileContent.EQUALITY_DELETES),
        manifests=tuple(sorted(c.manifest.manifest_path for c in candidates.values())),
        manifest_lists=tuple(sorted(path for key, path in lists.items() if key not in used_lists)),
        statistics=tuple(sorted({p for p in statistics if identity(p) not in used_statistics})),
    )


def _manifests_still_there(table: Table, snapshot: Snapshot) -> list[ManifestFile]:
    if snapshot.manifest_list is not None and not table.io.exists(snapshot.manifest_list):
        return []
    return manifests_of(table, snapshot)


def _content(table: Table, candidates: Iterable[_Candidate], identity: object) -> dict[str, tuple[str, FileContent]]:
    assert callable(identity)
    found: dict[str, tuple[str, FileContent]] = {}
    for candidate in candidates:
        try:
            entries = entries_of(_with_spec(table, candidate.manifest), candidate.manifest, live_only=True)
        except CorruptTableError:
            if table.io.exists(candidate.manifest.manifest_path):
                raise
            continue
        for entry in entries:
            found[identity(entry.data_file.file_path)] = (entry.data_file.file_path, entry.data_file.content)
    return found


def _with_spec(table: Table, manifest: ManifestFile) -> Table:
    """The table such that the manifest can be read: its partition spec may have been removed together with its snapshots, and only
    paths are wanted."""
    metadata, spec_id = table.metadata, manifest.partition_spec_id
    if spec_id in metadata.specs_by_id:
        return table
    return replace(table, metadata=replace(metadata, partition_specs=(*metadata.partition_specs, PartitionSpec(spec_id))))
