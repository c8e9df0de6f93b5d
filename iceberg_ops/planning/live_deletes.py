"""The live delete files of a snapshot, whether or not they apply to a file."""

from __future__ import annotations

from iceberg_ops.scan.tasks import DeleteFile
from iceberg_ops.spec.manifests import ManifestContent
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table


def live_deletes(table: Table, snapshot: Snapshot) -> tuple[DeleteFile, ...]:
    """Delete files and deletion vectors with their data sequence numbers, in manifest order. Raises CorruptTableError."""
    return tuple(
        DeleteFile(entry.data_file, entry.sequence_number or 0)
        for manifest in manifests_of(table, snapshot)
        if manifest.content is ManifestContent.DELETES
        for entry in entries_of(table, manifest, live_only=True)
    )
