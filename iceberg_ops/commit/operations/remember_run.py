"""Enters a run key in the ledger without any other change: for a complete run whose commits each had a key of their own.

It makes no snapshot; repeating it changes nothing. Iceberg Java has no run keys, so it has no such operation.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from iceberg_ops.commit.protocol.operation import CallersView, MetadataOperation, StagedCommit, staged_updates
from iceberg_ops.commit.protocol.run_keys import RunIdentity, find_run, ledger_entries, not_committed_yet
from iceberg_ops.spec.updates import SetProperties
from iceberg_ops.table.table import Table


@dataclass(frozen=True, kw_only=True)
class RememberRun(MetadataOperation):
    """``done`` is the complete run, ``snapshot_id`` its last snapshot."""

    done: RunIdentity
    snapshot_id: int | None = None
    name: str = "remember_run"

    @property
    def run(self) -> RunIdentity:
        return self.done

    def stage(self, prepared: CallersView, table: Table) -> StagedCommit:
        if find_run(table, self.done) is not None:
            return StagedCommit()
        entries = ledger_entries({self.done: self.snapshot_id}, time.time_ns() // 1_000_000)
        updates = [SetProperties(entries)] if entries else []
        return staged_updates(table.metadata, *updates, requirements=not_committed_yet(self.done, table.metadata))
