"""Which snapshots and refs are past their time (spec: "Snapshot Retention Policy"; Java: RemoveSnapshots).

1. main stays; another ref goes when its snapshot is older than the ref's, or the table's, max-ref-age, or is missing.
2. Per branch, from its head: a snapshot stays while fewer than min-snapshots-to-keep were kept or it is not older than the
cutoff; the
   first that fails ends the walk. A branch's own settings go before the arguments, those before the table's properties.
3. Tags keep their snapshot. What no remaining ref reaches (staged snapshots, rolled-back ones) stays until it is older than the
cutoff.
4. Snapshots named by id go in any case, unless a remaining ref points to them.
5. A leased snapshot stays, and so does everything between it and the heads that descend from it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from iceberg_ops.config.properties import MAX_REF_AGE_MS, MAX_SNAPSHOT_AGE_MS, MIN_SNAPSHOTS_TO_KEEP
from iceberg_ops.errors import BadInputError
from iceberg_ops.spec.snapshots import MAIN_BRANCH, SnapshotRef
from iceberg_ops.spec.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class Expired:
    """Ids of the snapshots that go, in the metadata's order, and names of the refs that go."""

    snapshot_ids: tuple[int, ...]
    refs: tuple[str, ...]


def expired(
    metadata: TableMetadata,
    *,
    now_ms: int,
    older_than_ms: int | None = None,
    retain_last: int | None = None,
    snapshot_ids: Collection[int] = (),
    leased: Collection[int] = (),
) -> Expired:
    """What goes. Raises BadInputError for ``retain_last`` below 1 and for a named snapshot that a remaining ref points to."""
    if retain_last is not None and retain_last < 1:
        raise BadInputError(f"retain_last {retain_last} must be at least 1")
    cutoff = now_ms - MAX_SNAPSHOT_AGE_MS.of(metadata.properties) if older_than_ms is None else older_than_ms
    least = MIN_SNAPSHOTS_TO_KEEP.of(metadata.properties) if retain_last is None else retain_last
    refs = _refs(metadata)
    kept_refs = {name: ref for name, ref in refs.items() if _ref_stays(metadata, name, ref, now_ms)}
    _forbid_referenced(kept_refs, snapshot_ids)
    kept = {ref.snapshot_id for ref in kept_refs.values()}
    reached: set[int] = set(kept)
    for ref in kept_refs.values():
        if ref.is_branch:
            kept |= _kept_of_branch(metadata, ref, now_ms, cutoff, least)
            reached |= {s.snapshot_id for s in metadata.ancestors(ref.snapshot_id)}
    kept |= {s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in reached and s.timestamp_ms >= cutoff}
    kept -= set(snapshot_ids)
    kept |= _kept_by_leases(metadata, kept_refs, leased)
    gone = tuple(s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in kept)
    return Expired(gone, tuple(name for name in metadata.refs if name not in kept_refs))


def _refs(metadata: TableMetadata) -> dict[str, SnapshotRef]:
    main = metadata.ref(MAIN_BRANCH)
    return dict(metadata.refs) if main is None else {**metadata.refs, MAIN_BRANCH: main}


def _ref_stays(metadata: TableMetadata, name: str, ref: SnapshotRef, now_ms: int) -> bool:
    if name == MAIN_BRANCH:
        return True
    snapshot = metadata.snapshots_by_id.get(ref.snapshot_id)
    if snapshot is None:
        return False
    longest = MAX_REF_AGE_MS.of(metadata.properties) if ref.max_ref_age_ms is None else ref.max_ref_age_ms
    return now_ms - snapshot.timestamp_ms <= longest


def _kept_of_branch(metadata: TableMetadata, ref: SnapshotRef, now_ms: int, cutoff: int, least: int) -> set[int]:
    cutoff = cutoff if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
    least = least if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
    kept: set[int] = set()
    for snapshot in metadata.ancestors(ref.snapshot_id):
        if len(kept) >= least and snapshot.timestamp_ms < cutoff:
            break
        kept.add(snapshot.snapshot_id)
    return kept


def _kept_by_leases(metadata: TableMetadata, refs: dict[str, SnapshotRef], leased: Collection[int]) -> set[int]:
    kept = {i for i in leased if i in metadata.snapshots_by_id}
    for ref in refs.values():
        line = [s.snapshot_id for s in metadata.ancestors(ref.snapshot_id)]
        last = max((line.index(i) for i in leased if i in line), default=-1)
        kept |= set(line[: last + 1])
    return kept


def _forbid_referenced(refs: dict[str, SnapshotRef], snapshot_ids: Collection[int]) -> None:
    for snapshot_id in snapshot_ids:
        if names := sorted(name for name, ref in refs.items() if ref.snapshot_id == snapshot_id):
            raise BadInputError(f"Cannot expire {snapshot_id}. Still referenced by refs: {', '.join(names)}")
