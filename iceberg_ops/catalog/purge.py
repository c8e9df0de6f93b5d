"""Every file that a table's metadata leads to: what a purge deletes. Files that nothing refers to are the orphan job's."""

from __future__ import annotations

from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table


def all_files(table: Table) -> list[str]:
    """Data and delete files first, the current metadata file last, so that an interrupted purge can be told what is left.
    Raises CorruptTableError where a manifest can not be read."""
    content: dict[str, None] = {}
    manifests: dict[str, None] = {}
    lists: dict[str, None] = {}
    for snapshot in table.metadata.snapshots:
        if snapshot.manifest_list is not None:
            lists[snapshot.manifest_list] = None
        for manifest in manifests_of(table, snapshot):
            if manifest.manifest_path in manifests:
                continue
            manifests[manifest.manifest_path] = None
            content.update((entry.data_file.file_path, None) for entry in entries_of(table, manifest))
    statistics = [s.statistics_path for s in table.metadata.statistics]
    statistics += [s.statistics_path for s in table.metadata.partition_statistics]
    log = [entry.metadata_file for entry in table.metadata.metadata_log]
    return [*content, *manifests, *lists, *statistics, *log, table.metadata_location]
