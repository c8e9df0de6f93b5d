"""Which files only expired snapshots refer to, by difference of manifests.

Candidates are live entries of manifests that no retained snapshot lists. A candidate is kept if a retained manifest has it live;
of those, only manifests that never stood beside the candidate's own manifest in one snapshot need to be read, because a path is
live at most once per snapshot (MANIFEST-58). On a linear history that leaves just the manifests that were rewritten.

When unsure nothing is named: a retained manifest that can not be read raises CorruptTableError; an expired one that is gone
already (a resumed clean-up) only means that its files are left to the orphan job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import identity_under
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.manifests import ManifestContent, ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.manifests import ManifestLists, live_paths
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


def unreached_files(after: Table, gone: Sequence[Snapshot], statistics: Iterable[str]) -> UnreachedFiles:
    """Files of the ``gone`` snapshots, and of their ``statistics`` locations, that nothing in ``after`` refers to."""
    identity = _Identities(after.io)
    reader = ManifestLists(after.io)
    kept = {identity[m.manifest_path]: m for s in after.metadata.snapshots for m in reader.of(s)}
    listings = [{identity[m.manifest_path]: m for m in reader.still_there(s)} for s in gone]
    candidates: dict[str, ManifestFile] = {}
    for listed in listings:
        candidates.update((key, listed[key]) for key in listed.keys() - kept.keys() - candidates.keys())
    files = _content(after, candidates.values(), identity)
    for manifest in _may_share(kept, candidates, listings) if files else ():
        for path, _ in live_paths(after, manifest):
            files.pop(identity[path], None)
    lists = {identity[s.manifest_list]: s.manifest_list for s in gone if s.manifest_list is not None}
    used_lists = {identity[s.manifest_list] for s in after.metadata.snapshots if s.manifest_list is not None}
    used_statistics = {identity[s.statistics_path] for s in after.metadata.statistics}
    used_statistics |= {identity[s.statistics_path] for s in after.metadata.partition_statistics}

    def of(content: FileContent) -> tuple[str, ...]:
        return tuple(sorted(path for path, kind in files.values() if kind == content))

    return UnreachedFiles(
        data=of(FileContent.DATA),
        position_deletes=of(FileContent.POSITION_DELETES),
        equality_deletes=of(FileContent.EQUALITY_DELETES),
        manifests=tuple(sorted(m.manifest_path for m in candidates.values())),
        manifest_lists=tuple(sorted(path for key, path in lists.items() if key not in used_lists)),
        statistics=tuple(sorted({p for p in statistics if identity[p] not in used_statistics})),
    )


class _Identities(dict[str, str]):
    """Location -> its identity, each made once."""

    def __init__(self, io: FileIO) -> None:
        self._identity = identity_under(io)

    def __missing__(self, location: str) -> str:
        found = self[location] = self._identity(location)
        return found


def _may_share(
    kept: Mapping[str, ManifestFile], candidates: Mapping[str, ManifestFile], listings: Sequence[Mapping[str, ManifestFile]]
) -> Iterator[ManifestFile]:
    """Retained manifests that stood beside not every candidate of their content in one of the snapshots' listings."""
    known: dict[tuple[ManifestContent, tuple[int, ...]], bool] = {}
    for key, manifest in kept.items():
        where = manifest.content, tuple(n for n, listed in enumerate(listings) if key in listed)
        if where not in known:
            apart = {k for k, candidate in candidates.items() if candidate.content is manifest.content}
            for n in where[1]:
                apart -= listings[n].keys()
            known[where] = bool(apart)
        if known[where]:
            yield manifest


def _content(table: Table, candidates: Iterable[ManifestFile], identity: Mapping[str, str]) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for manifest in candidates:
        try:
            live = live_paths(table, manifest)
        except CorruptTableError:
            if table.io.exists(manifest.manifest_path):
                raise
            continue
        for path, content in live:
            found[identity[path]] = path, content
    return found
