"""Warns a rewrite at its start that another run has a lease on the table: the two may replace the same files, and then the second
is refused.

A lease does not show whether its run works or was killed: the lease of a killed run stays until it expires, and a retry finds it.
So the warning names both possibilities and the remaining time of the lease. It is only a log line and a step of the report. The
conflict check of the commit protects the rows.
"""

from __future__ import annotations

import logging

from iceberg_ops.actions.run.context import Run
from iceberg_ops.config.actions import ACTIONS
from iceberg_ops.deletion.leases import Lease, active_leases

log = logging.getLogger(__name__)

STEP = "look for other runs"
_NAMED = 3
_MINUTE_MS = 60_000
_ADDS_ONLY = frozenset({"append", "add_files", "compute_table_stats", "compute_partition_stats"})
"""Actions that replace no file: a rewrite beside them conflicts with nothing."""


def warn_about_other_runs(run: Run) -> None:
    """Name the runs that hold a lease on the table and replace files of it. An error of the store is logged only: the warning is
    optional."""
    try:
        others = [
            lease for lease in active_leases(run.table, run.now_ms()) if _replaces(lease) and run.lease_mark not in lease.marks
        ]
    except Exception as e:  # noqa: BLE001 - whatever the error, the commit looks for conflicts itself
        log.warning("%s %s: cannot see whether other runs work on the table: %s", run.job.job, run.job.table, e)
        return
    if not others:
        return
    named = ", ".join(f"{lease.action} ({_who(lease, run)})" for lease in others[:_NAMED])
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    minutes = max(1, max(lease.expires_at_ms - run.now_ms() for lease in others) // _MINUTE_MS)
    one, several = f"holds a lease on the table for {minutes} min: it", f"hold leases on the table for up to {minutes} min: each"
    warning = (
        f"{named}{more} {one if len(others) == 1 else several} works on it now, or was killed and does not; "
        "of two runs that replace the same files, the one that commits last is refused"
    )
    log.warning("%s %s: %s", run.job.job, run.job.table, warning)
    with run.step(STEP) as detail:
        detail.append(warning)


def _who(lease: Lease, run: Run) -> str:
    return f"an earlier try of this run, {lease.holder}" if lease.holder == run.run_key else f"run {lease.holder}"


def _replaces(lease: Lease) -> bool:
    return lease.action in ACTIONS and lease.action not in _ADDS_ONLY
