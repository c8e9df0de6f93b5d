"""Checks candidates for deletion against everything that a table refers to.

Every retained snapshot counts, whether a branch, a tag or nothing leads to it, with its manifest list, manifests and live files,
and every statistics file and metadata file. Files are compared by the identity of their location, and a link by its target as well.
A file that holds several deletion vectors is referenced as long as any of them is live. Reading stops as soon as no candidate is
left.

Two things make the proof cheap, and neither assumes anything about histories: a manifest is immutable and decoded once per process,
and candidates that an earlier state of the table is known not to refer to are checked only against later additions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.locations import identity_under, links_under
from iceberg_ops.spec.manifests import ManifestFile
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.statistics import PartitionStatisticsFile, StatisticsFile
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.manifests import ManifestLists, live_paths, manifests_ahead
from iceberg_ops.table.reachable import metadata_files
from iceberg_ops.table.table import Table

Reference = tuple[str, str]
"""(location, what refers to it)."""


def references(now: Table, proven_for: TableMetadata | None = None) -> Iterator[Reference]:
    """Every location that ``now`` refers to; with ``proven_for`` at least those that this earlier state did not refer to.

    Cheap ones come first. Raises CorruptTableError if a manifest list or manifest cannot be read."""
    metadata = now.metadata
    for location in metadata_files(now):
        yield location, "the metadata log names it"
    statistics: list[StatisticsFile | PartitionStatisticsFile] = [*metadata.statistics, *metadata.partition_statistics]
    for file in statistics:
        yield file.statistics_path, f"it holds statistics of snapshot {file.snapshot_id}"
    snapshots = [s for s in metadata.snapshots if proven_for is None or _is_new(s, proven_for)]
    for snapshot in snapshots:
        if snapshot.manifest_list is not None:
            yield snapshot.manifest_list, _referrer(snapshot)
    lists = ManifestLists(now.io)
    seen = _known_manifests(lists, snapshots, proven_for)
    manifests: dict[str, tuple[ManifestFile, Snapshot]] = {}
    with lists.ahead(snapshots):
        for snapshot in snapshots:
            for manifest in lists.of(snapshot):
                if manifest.manifest_path not in seen and manifest.manifest_path not in manifests:
                    manifests[manifest.manifest_path] = manifest, snapshot
                    yield manifest.manifest_path, _referrer(snapshot)
    with manifests_ahead(now, (manifest for manifest, _ in manifests.values())) as near:
        for manifest, snapshot in manifests.values():
            for path, _ in live_paths(near, manifest):
                yield path, _referrer(snapshot)


def without_referenced(
    candidates: Sequence[str], known_references: Iterable[Reference], io: FileIO
) -> tuple[list[str], list[Reference]]:
    """The ``candidates`` that nothing refers to, and the others with what refers to them, both in order. If two candidates are
    spellings of one file, both go or both stay. A recorded link also refers to its target."""
    identity, links = identity_under(io), links_under(io)
    names = [identity(location) for location in candidates]
    left = set(names)
    referrers: dict[str, str] = {}
    for location, referrer in known_references:
        if not left:
            break
        for name in (identity(location), *links(location)):
            if name in left:
                left.discard(name)
                referrers[name] = referrer
    pairs = list(zip(candidates, names, strict=True))
    return [location for location, name in pairs if name in left], [
        (location, referrers[name]) for location, name in pairs if name not in left
    ]


def _is_new(snapshot: Snapshot, proven_for: TableMetadata) -> bool:
    known = proven_for.snapshots_by_id.get(snapshot.snapshot_id)
    return known is None or (known.manifest_list, known.manifests) != (snapshot.manifest_list, snapshot.manifests)


def _known_manifests(lists: ManifestLists, new: Iterable[Snapshot], proven_for: TableMetadata | None) -> set[str]:
    """Manifests that ``proven_for`` listed, in the snapshots that the new snapshots build on."""
    if proven_for is None:
        return set()
    parents = {s.parent_snapshot_id for s in new}
    known = [s for s in proven_for.snapshots if s.snapshot_id in parents]
    return {m.manifest_path for s in known for m in lists.still_there(s)}


def _referrer(snapshot: Snapshot) -> str:
    return f"snapshot {snapshot.snapshot_id} refers to it"
