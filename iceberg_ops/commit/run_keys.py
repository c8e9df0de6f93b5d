"""Has this piece of work been committed already?

A run key stands in the summary of the snapshot it made. When that snapshot is expired by this package, its key moves into a ledger
in the table's properties, one property per key, so that two commits never overwrite each other's entry; operations that make no
snapshot enter theirs at once, and so does a complete run whose commits carry keys of their own. The ledger remembers the last 64
keys, however many expire at once. A key that was made up for a run without one does not enter it: nobody can come back with it.

A rollback forgets nothing: the snapshot and its key stay until they expire. Who undid a run and wants it done again gives it
another key; otherwise a retry that comes late would silently undo the rollback.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.updates import RemoveProperties, SetProperties, TableUpdate

RUN_KEY = "iceberg-ops.run-key"
ACTION = "iceberg-ops.action"
PLAN_ID = "iceberg-ops.plan-id"
LEDGER_PREFIX = "iceberg-ops.ledger."
LEDGER_SIZE = 64
_MADE_UP = re.compile(r"run-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(/.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """A commit with the run key: its snapshot's id (None: it made none) and the snapshot, where it is still there."""

    snapshot_id: int | None
    snapshot: Snapshot | None


def find_run(metadata: TableMetadata, run_key: str | None) -> EarlierRun | None:
    """The commit that carries ``run_key``, on any branch, or None."""
    if run_key is None:
        return None
    for snapshot in reversed(metadata.snapshots):
        if snapshot.summary.get(RUN_KEY) == run_key:
            return EarlierRun(snapshot.snapshot_id, snapshot)
    if (text := metadata.properties.get(LEDGER_PREFIX + run_key)) is not None:
        known = text.partition("@")[0]
        if not known.isdecimal():
            return EarlierRun(None, None)
        return EarlierRun(int(known), metadata.snapshots_by_id.get(int(known)))
    return None


def ledger_updates(metadata: TableMetadata, runs: Mapping[str, int | None], *, now_ms: int) -> list[TableUpdate]:
    """Updates that enter ``runs`` (run key -> snapshot id, oldest first) into the ledger and drop its oldest entries beyond
    LEDGER_SIZE."""
    lasting = [(key, snapshot_id) for key, snapshot_id in runs.items() if not _MADE_UP.fullmatch(key)][-LEDGER_SIZE:]
    if not lasting:
        return []
    entered = {LEDGER_PREFIX + key: f"{'' if snapshot_id is None else snapshot_id}@{now_ms}" for key, snapshot_id in lasting}
    known = {k: v for k, v in metadata.properties.items() if k.startswith(LEDGER_PREFIX)}
    aged = sorted(known.keys() - entered.keys(), key=lambda k: _entered_at(known[k]))
    surplus = aged[: max(0, len(aged) + len(entered) - LEDGER_SIZE)]
    updates: list[TableUpdate] = [SetProperties(entered)]
    return [*updates, RemoveProperties(tuple(surplus))] if surplus else updates


def made_up_run_key() -> str:
    """A key for a run that was given none."""
    return f"run-{uuid.uuid4()}"


def run_keys_of(snapshots: Iterable[Snapshot]) -> dict[str, int | None]:
    """Run keys of snapshots that are about to go."""
    return {key: s.snapshot_id for s in snapshots if (key := s.summary.get(RUN_KEY)) is not None}


def _entered_at(text: str) -> int:
    stamp = text.partition("@")[2]
    return int(stamp) if stamp.isdecimal() else 0
