"""Keys of a snapshot's summary that count files and rows (spec: "Optional Snapshot Summary Fields"; Java: SnapshotSummary).

Data files and records are "deleted", everything else is "removed". Keys that only this package uses are in ``commit.protocol.
run_keys``.
"""

from __future__ import annotations

ADDED_DATA_FILES = "added-data-files"
ADDED_DELETE_FILES = "added-delete-files"
ADDED_EQUALITY_DELETES = "added-equality-deletes"
ADDED_FILES_SIZE = "added-files-size"
ADDED_POSITION_DELETES = "added-position-deletes"
ADDED_RECORDS = "added-records"
CHANGED_PARTITION_COUNT = "changed-partition-count"
DELETED_DATA_FILES = "deleted-data-files"
DELETED_DUPLICATE_FILES = "deleted-duplicate-files"
DELETED_RECORDS = "deleted-records"
ENGINE_NAME = "engine-name"
ENGINE_VERSION = "engine-version"
PARTITION_SUMMARIES_INCLUDED = "partition-summaries-included"
REMOVED_DELETE_FILES = "removed-delete-files"
REMOVED_EQUALITY_DELETES = "removed-equality-deletes"
REMOVED_EQUALITY_DELETE_FILES = "removed-equality-delete-files"
REMOVED_FILES_SIZE = "removed-files-size"
REMOVED_POSITION_DELETES = "removed-position-deletes"
TOTAL_DATA_FILES = "total-data-files"
TOTAL_DELETE_FILES = "total-delete-files"
TOTAL_EQUALITY_DELETES = "total-equality-deletes"
TOTAL_FILES_SIZE = "total-files-size"
TOTAL_POSITION_DELETES = "total-position-deletes"
TOTAL_RECORDS = "total-records"
