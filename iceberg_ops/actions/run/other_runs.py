"""Tells a rewrite at its start that another run works on the table: the two may replace the same files, and the second is refused.

It is told only, in the log and as a step of the report. What keeps rows safe is the conflict check of the commit.
"""

from __future__ import annotations

import logging

from iceberg_ops.actions.run.context import Run
from iceberg_ops.config.actions import ACTIONS
from iceberg_ops.deletion.leases import Lease, active_leases

log = logging.getLogger(__name__)

STEP = "look for other runs"
_NAMED = 3
_ADDS_ONLY = frozenset({"append", "add_files", "compute_table_stats", "compute_partition_stats"})
"""Actions that replace no file: a rewrite beside them conflicts with nothing."""


def tell_of_other_runs(run: Run) -> None:
    """Name the runs that hold a lease on the table and replace files of it. An error of the store is logged: nothing needs it."""
    try:
        others = [
            lease for lease in active_leases(run.table, run.now_ms()) if _replaces(lease) and run.lease_mark not in lease.marks
        ]
    except Exception as e:  # noqa: BLE001 - whatever the error, the commit looks for conflicts itself
        log.warning("%s %s: cannot see whether other runs work on the table: %s", run.job.job, run.job.table, e)
        return
    if not others:
        return
    named = ", ".join(f"{lease.action} (run {lease.holder})" for lease in others[:_NAMED])
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    verb = "works" if len(others) == 1 else "work"
    told = f"{named}{more} {verb} on the table too; of two runs that replace the same files, the one that commits last is refused"
    log.warning("%s %s: %s", run.job.job, run.job.table, told)
    with run.step(STEP) as detail:
        detail.append(told)


def _replaces(lease: Lease) -> bool:
    return lease.action in ACTIONS and lease.action not in _ADDS_ONLY
