"""Which snapshots and refs expire (spec: "Snapshot Retention Policy"; Java: RemoveSnapshots).

1. main stays; another ref is removed if its snapshot is older than the ref's, or the table's, max-ref-age, or is missing.
2. Per branch, from its head: a snapshot stays while fewer than min-snapshots-to-keep were kept or it is not older than the
   cutoff; the first that fails ends the walk. A branch's own settings override the arguments, those the table's properties.
3. Tags keep their snapshot. Snapshots that no remaining ref reaches (staged, rolled back) stay until they are older than the
   cutoff.
4. Snapshots named by id are removed in any case, unless a remaining ref points to them.
5. A leased snapshot stays, and so does everything between it and the heads that descend from it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from iceberg_ops.config.properties import MAX_REF_AGE_MS, MAX_SNAPSHOT_AGE_MS, MIN_SNAPSHOTS_TO_KEEP
from iceberg_ops.errors import BadInputError
from iceberg_ops.spec.snapshots import MAIN_BRANCH, SnapshotRef
from iceberg_ops.spec.table_metadata import TableMetadata


@dataclass(frozen=True, slots=True)
class ExpiryDecision:
    """Ids of the snapshots to remove, in the metadata's order, and names of the refs to remove. ``kept``: why each other snapshot
    stays, in the metadata's order; of several reasons the first in the order of the rules."""

    snapshot_ids: tuple[int, ...]
    refs: tuple[str, ...]
    kept: Mapping[int, str]


def expired(
    metadata: TableMetadata,
    *,
    now_ms: int,
    older_than_ms: int | None = None,
    retain_last: int | None = None,
    snapshot_ids: Collection[int] = (),
    leased: Collection[int] = (),
) -> ExpiryDecision:
    """What expires. Raises BadInputError for ``retain_last`` below 1 and for a named snapshot that a remaining ref points to."""
    if retain_last is not None and retain_last < 1:
        raise BadInputError(f"retain_last {retain_last} must be at least 1")
    cutoff = now_ms - MAX_SNAPSHOT_AGE_MS.of(metadata.properties) if older_than_ms is None else older_than_ms
    least = MIN_SNAPSHOTS_TO_KEEP.of(metadata.properties) if retain_last is None else retain_last
    refs = _refs(metadata)
    kept_refs = {name: ref for name, ref in refs.items() if _ref_stays(metadata, name, ref, now_ms)}
    _forbid_referenced(kept_refs, snapshot_ids)
    why: dict[int, str] = {}
    reached: set[int] = set()
    for name, ref in kept_refs.items():
        known, named = why.get(ref.snapshot_id), f"{'branch' if ref.is_branch else 'tag'} {name}"
        why[ref.snapshot_id] = named if known is None else f"{known}, {named}"
        reached.add(ref.snapshot_id)
    why = {snapshot_id: f"held by {names}" for snapshot_id, names in why.items()}
    for name, ref in kept_refs.items():
        if ref.is_branch:
            for snapshot_id, reason in _kept_of_branch(metadata, name, ref, now_ms, cutoff, least):
                why.setdefault(snapshot_id, reason)
            reached |= {s.snapshot_id for s in metadata.ancestors(ref.snapshot_id)}
    for s in metadata.snapshots:
        if s.snapshot_id not in reached and s.timestamp_ms >= cutoff:
            why[s.snapshot_id] = f"no branch has it, but {_not_older_than(cutoff)}"
    for snapshot_id in snapshot_ids:
        why.pop(snapshot_id, None)
    for snapshot_id, reason in _kept_by_leases(metadata, kept_refs, leased):
        why.setdefault(snapshot_id, reason)
    gone = tuple(s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in why)
    kept = {s.snapshot_id: why[s.snapshot_id] for s in metadata.snapshots if s.snapshot_id in why}
    return ExpiryDecision(gone, tuple(name for name in metadata.refs if name not in kept_refs), kept)


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


def _kept_of_branch(
    metadata: TableMetadata, name: str, ref: SnapshotRef, now_ms: int, cutoff: int, least: int
) -> Iterator[tuple[int, str]]:
    cutoff = cutoff if ref.max_snapshot_age_ms is None else now_ms - ref.max_snapshot_age_ms
    least = least if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
    for number, snapshot in enumerate(metadata.ancestors(ref.snapshot_id)):
        if number < least:
            yield snapshot.snapshot_id, f"it is one of the last {least} of branch {name}"
        elif snapshot.timestamp_ms >= cutoff:
            yield snapshot.snapshot_id, f"it is on branch {name}, and {_not_older_than(cutoff)}"
        else:
            return


def _kept_by_leases(metadata: TableMetadata, refs: dict[str, SnapshotRef], leased: Collection[int]) -> Iterator[tuple[int, str]]:
    for snapshot_id in leased:
        if snapshot_id in metadata.snapshots_by_id:
            yield snapshot_id, "a job that runs reads it (lease)"
    for name, ref in refs.items():
        line = [s.snapshot_id for s in metadata.ancestors(ref.snapshot_id)]
        last = max((line.index(i) for i in leased if i in line), default=-1)
        for snapshot_id in line[: last + 1]:
            yield snapshot_id, f"it is on branch {name} after a snapshot that a running job reads (lease)"


def _not_older_than(cutoff_ms: int) -> str:
    """``cutoff_ms`` may be any number that a person enters."""
    try:
        at = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=cutoff_ms)).strftime("%Y-%m-%d %H:%M:%S UTC")
    except OverflowError:
        at = f"{cutoff_ms} ms since 1970"
    return f"it is not older than {at}"


def _forbid_referenced(refs: dict[str, SnapshotRef], snapshot_ids: Collection[int]) -> None:
    for snapshot_id in snapshot_ids:
        if names := sorted(name for name, ref in refs.items() if ref.snapshot_id == snapshot_id):
            raise BadInputError(f"Cannot expire {snapshot_id}. Still referenced by refs: {', '.join(names)}")
