"""Chooses the moment of a swap so that others are not refused: right after the commit of a writer that deletes at regular
intervals.

A position delete that was planned on files which a rewrite has replaced in the meantime is refused (its rows are in other files
now), and most engines then fail the whole statement. A rewrite that carries deletes over can choose its moment: if deletes come
every few seconds, it waits for the next one and swaps while the writer pauses. This is optional: results are correct without it, it
does not help writers that never pause, and it never waits longer than two of their periods.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import islice, pairwise
from statistics import median

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.commit.protocol.history import base_snapshot
from iceberg_ops.errors import RetryableError
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.snapshots import Snapshot, SnapshotOperation
from iceberg_ops.table.table import Table

LONGEST_PERIOD_MS = 5_000
SNAPSHOTS_LOOKED_AT = 20
_POLLS_A_PERIOD = 40


def wait_for_a_quiet_moment(
    catalog: Catalog,
    table: Table,
    branch: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    now_ms: Callable[[], float] = lambda: time.time() * 1000,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Return as soon as an expected delete has been committed, or at once if none is expected. Returns the milliseconds waited.

    ``now_ms`` is only compared with snapshots' times. The wait is measured with ``clock``, in seconds, which is never set back."""
    begun = clock()
    try:
        times = _delete_times(catalog.load_table(table.identifier[1:]), branch)
        if len(times) < 2:
            return 0
        period, since_last = median(a - b for a, b in pairwise(times)), now_ms() - times[0]
        if not 0 < period <= LONGEST_PERIOD_MS or not period / 10 < since_last < 4 * period:
            return 0
        for _ in range(2 * _POLLS_A_PERIOD):
            sleep(period / _POLLS_A_PERIOD / 1000)
            if _delete_times(catalog.load_table(table.identifier[1:]), branch)[:1] != times[:1]:
                break
            if (clock() - begun) * 1000 >= 2 * period:
                break
    except RetryableError:
        pass  # The commit that follows has its own retries.
    return round((clock() - begun) * 1000)


def _delete_times(table: Table, branch: str) -> list[int]:
    """When the latest row-level deletes were committed to the branch, the last one first."""
    head = base_snapshot(table.metadata, branch)
    latest = islice(table.metadata.ancestors(None if head is None else head.snapshot_id), SNAPSHOTS_LOOKED_AT)
    return [s.timestamp_ms for s in latest if _deletes_rows(s)]


def _deletes_rows(snapshot: Snapshot) -> bool:
    return snapshot.operation != SnapshotOperation.REPLACE.value and summary_keys.ADDED_DELETE_FILES in snapshot.summary
