"""The shared fields of the operations that make a snapshot: their draft, and the branch of the snapshot."""

from __future__ import annotations

from dataclasses import dataclass

from iceberg_ops.commit.manifests.snapshot_draft import SnapshotDraft, Target
from iceberg_ops.commit.protocol.operation import OperationFields
from iceberg_ops.commit.protocol.run_keys import ACTION, IDENTITY_KEYS
from iceberg_ops.table.table import Table


@dataclass(frozen=True, kw_only=True)
class SnapshotOperationFields(OperationFields):
    """``staged``: the snapshot is added, but no branch moves until it is published (write-audit-publish); its summary should carry
    ``wap.id``. ``timestamp_ms`` None: now."""

    timestamp_ms: int | None = None

    def prepare(self, table: Table) -> SnapshotDraft:
        return SnapshotDraft(table)

    @property
    def target(self) -> Target:
        return Target(
            branch=self.branch,
            action=self.summary.get(ACTION, self.name),
            run=self.run,
            summary={k: v for k, v in self.summary.items() if k not in IDENTITY_KEYS},
            staged=self.staged,
            timestamp_ms=self.timestamp_ms,
        )
