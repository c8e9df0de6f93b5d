"""The summary of a snapshot, key by key as Iceberg Java writes it (Java: SnapshotSummary, SnapshotProducer.summary).

Data files and records are "deleted", everything else is "removed". A total is the parent's plus the added minus the removed ones.
If the parent lacks a total it stays unknown; without a parent it starts at 0 (SNAP-22/24).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from iceberg_ops.commit.manifests.removed_files import RemovedFiles, RemovedRows
from iceberg_ops.config.whole_numbers import LONG_MAX, parse_count
from iceberg_ops.spec import summary_keys
from iceberg_ops.spec.content_files import DataFile, FileContent
from iceberg_ops.spec.partition_keys import PartitionKey, partition_key
from iceberg_ops.spec.partition_paths import partition_path
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata

_TOTALS = (
    (summary_keys.TOTAL_RECORDS, summary_keys.ADDED_RECORDS, summary_keys.DELETED_RECORDS),
    (summary_keys.TOTAL_FILES_SIZE, summary_keys.ADDED_FILES_SIZE, summary_keys.REMOVED_FILES_SIZE),
    (summary_keys.TOTAL_DATA_FILES, summary_keys.ADDED_DATA_FILES, summary_keys.DELETED_DATA_FILES),
    (summary_keys.TOTAL_DELETE_FILES, summary_keys.ADDED_DELETE_FILES, summary_keys.REMOVED_DELETE_FILES),
    (summary_keys.TOTAL_POSITION_DELETES, summary_keys.ADDED_POSITION_DELETES, summary_keys.REMOVED_POSITION_DELETES),
    (summary_keys.TOTAL_EQUALITY_DELETES, summary_keys.ADDED_EQUALITY_DELETES, summary_keys.REMOVED_EQUALITY_DELETES),
)


@dataclass(slots=True)
class _Counts:
    """Added and removed counts, under the summary's own keys."""

    counts: dict[str, int] = field(default_factory=dict)

    def count(self, f: DataFile, *, added: bool) -> None:
        verb, other = ("added", "added") if added else ("removed", "deleted")
        self._bump(f"{verb}-files-size", f.stored_bytes)
        if f.content is FileContent.DATA:
            self._bump(f"{other}-data-files", 1)
            self._bump(f"{other}-records", f.record_count)
            return
        self._bump(f"{verb}-delete-files", 1)
        if f.content is FileContent.EQUALITY_DELETES:
            self._bump(f"{verb}-equality-delete-files", 1)
            self._bump(f"{verb}-equality-deletes", f.record_count)
        else:
            self._bump(f"{verb}-dvs" if f.is_deletion_vector else f"{verb}-position-delete-files", 1)
            self._bump(f"{verb}-position-deletes", f.record_count)

    def count_rows(self, removed: RemovedRows) -> None:
        self._bump(summary_keys.REMOVED_FILES_SIZE, removed.stored_bytes)
        self._bump(summary_keys.DELETED_DATA_FILES, len(removed))
        self._bump(summary_keys.DELETED_RECORDS, removed.records)

    def add(self, other: _Counts) -> None:
        for key, value in other.counts.items():
            self._bump(key, value)

    def _bump(self, key: str, by: int) -> None:
        self.counts[key] = self.counts.get(key, 0) + by

    def as_text(self) -> dict[str, str]:
        return {key: str(value) for key, value in self.counts.items() if value > 0}


def changes_summary(
    metadata: TableMetadata,
    added: Iterable[DataFile],
    removed: RemovedFiles,
    *,
    partition_limit: int = 0,
) -> dict[str, str]:
    """The counters of one commit; also per partition if at most ``partition_limit`` partitions changed.

    Every removed entry counts, also of a file that is live several times (Java counts the file once, so its totals no longer agree
    with the manifests)."""
    counts, in_partitions = _Counts(), dict[PartitionKey, _Counts]()
    examples: dict[PartitionKey, DataFile] = {}
    rows = () if partition_limit else removed.rows
    for part in rows:
        counts.count_rows(part)
        for f in part.of_each_partition():
            examples.setdefault(partition_key(f.spec_id, f.partition), f)
    removed_files = [e.data_file for e in removed.entries] if rows else removed.files
    for files, is_added in ((added, True), (removed_files, False)):
        for f in files:
            counts.count(f, added=is_added)
            key = partition_key(f.spec_id, f.partition)
            examples.setdefault(key, f)
            if partition_limit:
                in_partitions.setdefault(key, _Counts()).count(f, added=is_added)
    paths = {key: _path(metadata, f) for key, f in examples.items()}
    summary = counts.as_text()
    if removed.duplicates:
        summary[summary_keys.DELETED_DUPLICATE_FILES] = str(removed.duplicates)
    partitions = frozenset(paths.values())
    summary[summary_keys.CHANGED_PARTITION_COUNT] = str(len(partitions))
    if partitions and len(partitions) <= partition_limit:
        summary[summary_keys.PARTITION_SUMMARIES_INCLUDED] = "true"
        summary |= _of_partitions(in_partitions, paths)
    return summary


def _of_partitions(counts: Mapping[PartitionKey, _Counts], paths: Mapping[PartitionKey, str]) -> dict[str, str]:
    """The counters by partition path; partitions of several specs may share one."""
    by_path: dict[str, _Counts] = {}
    for key, part in counts.items():
        by_path.setdefault(paths[key], _Counts()).add(part)
    texts = {path: ",".join(f"{k}={v}" for k, v in part.as_text().items()) for path, part in by_path.items()}
    return {f"partitions.{path}": text for path, text in texts.items() if path}


def _path(metadata: TableMetadata, f: DataFile) -> str:
    spec = metadata.specs_by_id.get(f.spec_id)
    return "" if spec is None else partition_path(spec, f.partition, metadata.all_fields_by_id)


def totals(parent: Snapshot | None, changes: Mapping[str, str]) -> dict[str, str]:
    """The total- keys after ``changes`` on top of ``parent``."""
    summary: dict[str, str] = {}
    for total, added, removed in _TOTALS:
        before = 0 if parent is None else parse_count(parent.summary.get(total))
        more, less = parse_count(changes.get(added, "0")), parse_count(changes.get(removed, "0"))
        if before is not None and more is not None and less is not None and 0 <= before + more - less <= LONG_MAX:
            summary[total] = str(before + more - less)
    return summary
