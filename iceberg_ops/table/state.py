"""The size of a table at one snapshot, in the few numbers of a report.

Totals come from the snapshot's summary; missing ones are counted in the manifests, so old and foreign tables have figures too.
"""

from __future__ import annotations

import logging

from iceberg_ops.config.report import TableState
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.table import Table

log = logging.getLogger(__name__)

_TOTALS = (
    summary_keys.TOTAL_DATA_FILES,
    summary_keys.TOTAL_DELETE_FILES,
    summary_keys.TOTAL_RECORDS,
    summary_keys.TOTAL_FILES_SIZE,
)


def state_if_readable(table: Table, snapshot: Snapshot | None) -> TableState | None:
    """Sizes for the report of finished work; None, with a warning in the log, if they cannot be read. The work is still
    done."""
    try:
        return table_state(table, snapshot)
    except Exception as e:  # noqa: BLE001 - whatever prevents it, no error may take the place of the outcome of the work
        log.warning("the size of %s cannot be reported: %s", table.name, e)
        return None


def table_state(table: Table, snapshot: Snapshot | None) -> TableState:
    """Sizes at ``snapshot`` (None: an empty table). ``bytes`` counts live data and delete files. Raises CorruptTableError."""
    count = len(table.metadata.snapshots)
    if snapshot is None:
        return TableState(snapshots=count)
    manifests = manifests_of(table, snapshot)
    totals = [parse_count(snapshot.summary.get(key)) for key in _TOTALS]
    if None in totals:
        counted = _count(table, snapshot)
        totals = [counted[i] if total is None else total for i, total in enumerate(totals)]
    data_files, delete_files, records, size = (total or 0 for total in totals)
    return TableState(
        snapshot_id=snapshot.snapshot_id,
        snapshots=count,
        data_files=data_files,
        delete_files=delete_files,
        manifests=len(manifests),
        records=records,
        bytes=size,
    )


def _count(table: Table, snapshot: Snapshot) -> tuple[int, int, int, int]:
    """Data files, delete files, rows of data files, bytes of both: the live ones in the manifests. A DV counts its blob's bytes."""
    data_files = delete_files = records = size = 0
    for manifest in manifests_of(table, snapshot):
        for entry in entries_of(table, manifest, live_only=True):
            f = entry.data_file
            size += f.stored_bytes
            if f.content is FileContent.DATA:
                data_files += 1
                records += f.record_count
            else:
                delete_files += 1
    return data_files, delete_files, records, size
