"""Files that only expired snapshots refer to.

Candidates are the live entries of manifests that no retained snapshot lists, those manifests, the manifest lists and the statistics
of the expired snapshots. Files that the current table refers to are removed from the candidates. For this, every retained manifest
of the same content is read, because one file may be live twice in a snapshot (a folder imported twice), and one Puffin file holds
deletion vectors of many data files, in several manifests and partition specs. Reading stops when no candidate is left.

Files imported from outside the table's own folders may also belong to another table. They stay.

If an expired manifest is already gone (a resumed clean-up), its files are left for remove_orphan_files. If an expired manifest or
manifest list is damaged, it stays, together with the files that lead to it and those that only it refers to, and it is reported;
the other files may be deleted. A retained one that cannot be read raises CorruptTableError."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import Links, identity_under, links_under
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.manifests import ManifestContent, ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.manifests import ManifestLists, live_paths, manifests_ahead
from iceberg_ops.table.own_folders import only_imported
from iceberg_ops.table.reachable import metadata_files
from iceberg_ops.table.table import Table

_KINDS = ("data", "position_deletes", "equality_deletes", "manifests", "manifest_lists", "statistics")


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachedFiles:
    """Locations by kind, in a safe order of deletion: a file that others refer to comes first."""

    data: tuple[str, ...] = ()
    position_deletes: tuple[str, ...] = ()
    equality_deletes: tuple[str, ...] = ()
    manifests: tuple[str, ...] = ()
    manifest_lists: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    """Content files that may also belong to another table (``table.own_folders``). They stay, and no other field contains them."""
    damaged: tuple[tuple[str, str], ...] = ()
    """(location, error) of expired manifest lists and manifests that cannot be read. No other field contains them."""

    def __iter__(self) -> Iterator[str]:
        for name in _KINDS:
            yield from getattr(self, name)

    @property
    def content(self) -> tuple[str, ...]:
        """Data and delete files."""
        return (*self.data, *self.position_deletes, *self.equality_deletes)

    @property
    def metadata(self) -> tuple[str, ...]:
        """Manifests, manifest lists and statistics files."""
        return (*self.manifests, *self.manifest_lists, *self.statistics)


def unreached_files(after: Table, gone: Sequence[Snapshot], statistics: Iterable[str]) -> UnreachedFiles:
    """Files that ``gone`` snapshots or their ``statistics`` locations refer to, and that ``after`` does not."""
    lists = ManifestLists(after.io)
    with lists.ahead((*after.metadata.snapshots, *gone)):
        return _unreached(after, gone, statistics, lists)


def _unreached(after: Table, gone: Sequence[Snapshot], statistics: Iterable[str], reader: ManifestLists) -> UnreachedFiles:
    identity = _Identities(after.io)
    retained = {identity[m.manifest_path]: m for s in after.metadata.snapshots for m in reader.of(s)}
    links = links_under(after.io)
    used = {*retained, *(identity[path] for path in _metadata_references(after))}
    used |= {name for path in (*_metadata_references(after), *retained) for name in links(path)}
    candidates: dict[str, ManifestFile] = {}
    listed_in: dict[str, list[str]] = {}
    damaged: dict[str, str] = {}
    for snapshot in gone:
        try:
            manifests = reader.still_there(snapshot)
        except CorruptTableError as e:
            damaged.update(dict.fromkeys((identity[p] for p in _root_files(snapshot)), str(e)))
            continue
        for m in manifests:
            if identity[m.manifest_path] not in used:
                candidates.setdefault(identity[m.manifest_path], m)
                listed_in.setdefault(identity[m.manifest_path], []).extend(identity[p] for p in _root_files(snapshot))
    content, broken = _live_content(after, candidates, identity, used)
    _take_out_live(after, retained.values(), content, identity, links)
    is_imported = only_imported(after, identity_under(after.io))
    imported = sorted(content.pop(name)[0] for name in list(content) if is_imported(name))
    lists = {identity[s.manifest_list]: s.manifest_list for s in gone if s.manifest_list is not None}
    damaged |= broken
    needed = {*damaged, *(name for manifest in broken for name in listed_in[manifest])}
    locations = {**lists, **{name: m.manifest_path for name, m in candidates.items()}}

    def of(kind: FileContent) -> tuple[str, ...]:
        return tuple(sorted(path for path, content_kind in content.values() if content_kind == kind))

    return UnreachedFiles(
        data=of(FileContent.DATA),
        position_deletes=of(FileContent.POSITION_DELETES),
        equality_deletes=of(FileContent.EQUALITY_DELETES),
        manifests=tuple(sorted(m.manifest_path for name, m in candidates.items() if name not in needed)),
        manifest_lists=tuple(sorted(path for name, path in lists.items() if name not in used | needed)),
        statistics=tuple(sorted({path for path in statistics if identity[path] not in used})),
        imported=tuple(imported),
        damaged=tuple(sorted((locations.get(name, name), error) for name, error in damaged.items())),
    )


def _root_files(snapshot: Snapshot) -> tuple[str, ...]:
    """The files that the metadata names for a snapshot: its manifest list, or the manifests of an old snapshot without a list."""
    return snapshot.manifests or () if snapshot.manifest_list is None else (snapshot.manifest_list,)


class _Identities(dict[str, str]):
    """Location -> its identity, each computed once."""

    def __init__(self, io: FileIO) -> None:
        self._identity = identity_under(io)

    def __missing__(self, location: str) -> str:
        identity = self[location] = self._identity(location)
        return identity


def _metadata_references(table: Table) -> Iterator[str]:
    """Everything that the metadata file itself refers to."""
    metadata = table.metadata
    yield from metadata_files(table)
    yield from (s.statistics_path for s in metadata.statistics)
    yield from (s.statistics_path for s in metadata.partition_statistics)
    yield from (s.manifest_list for s in metadata.snapshots if s.manifest_list is not None)


def _live_content(
    table: Table, candidates: Mapping[str, ManifestFile], identity: _Identities, used: set[str]
) -> tuple[dict[str, tuple[str, int]], dict[str, str]]:
    """Identity -> (location, content) of the candidates' live files, and the errors of damaged candidates by their identity."""
    content_by_path: dict[str, tuple[str, int]] = {}
    damaged: dict[str, str] = {}
    # Each removal leaves a manifest without live files, as its list shows; there may be as many of these as of the others.
    with_live = {name: m for name, m in candidates.items() if m.has_live_files}
    with manifests_ahead(table, with_live.values()) as near:
        for name, manifest in with_live.items():
            try:
                live = list(live_paths(near, manifest))
            except CorruptTableError as e:
                if not _is_gone(table.io, manifest.manifest_path):
                    damaged[name] = str(e)
                continue
            for path, content in live:
                if identity[path] not in used:
                    content_by_path[identity[path]] = path, content
    return content_by_path, damaged


def _is_gone(io: FileIO, location: str) -> bool:
    try:
        return not io.exists(location)
    except OSError:
        return False  # a folder that this process may not read


def _take_out_live(
    table: Table, retained: Iterable[ManifestFile], content: dict[str, tuple[str, int]], identity: _Identities, links: Links
) -> None:
    """Remove the files that are live in a retained manifest of the same content from ``content``. The latest manifests are read
    first, because they hold most of the files that moved there from an expired manifest."""
    data = sum(kind == FileContent.DATA for _, kind in content.values())
    left = {ManifestContent.DATA: data, ManifestContent.DELETES: len(content) - data}
    latest_first = sorted((m for m in retained if left[m.content]), key=lambda m: -(m.sequence_number or 0))
    with manifests_ahead(table, latest_first) as near:
        for manifest in latest_first:
            if not left[manifest.content]:
                continue
            for path, _ in live_paths(near, manifest):
                for name in (identity[path], *links(path)):
                    known = content.pop(name, None)
                    if known is not None:
                        left[ManifestContent.DATA if known[1] == FileContent.DATA else ManifestContent.DELETES] -= 1
