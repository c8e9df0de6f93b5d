"""Counts files, rows and deletes per partition at a snapshot, into a partition statistics file (Iceberg's procedure of that name).

Only manifests are read. If the snapshot already has such a file, there is nothing to do. ``total_record_count`` is given only if it
is exact without reading data: deletion vectors are the only deletes, and each applies to one live file.
Source: spec, "Partition Statistics File" (STAT-04..06).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Findings, NothingToDo, Planned, Result, commit_result
from iceberg_ops.actions.run.staged_files import commit_staged
from iceberg_ops.commit.operations.metadata_updates import UpdateStatistics
from iceberg_ops.config.report import SkippedFile
from iceberg_ops.config.table_options import compute_partition_stats_options
from iceberg_ops.data.arrow.arrow_schema import stored_schema
from iceberg_ops.data.arrow.arrow_values import array_of
from iceberg_ops.errors import CorruptTableError, UnsupportedError
from iceberg_ops.expressions.ordering import order_key
from iceberg_ops.io.locations import Identity, identity_under
from iceberg_ops.scan.snapshot_choice import choose_snapshot
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.manifests import ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.partition_keys import value_identity
from iceberg_ops.spec.partition_union import PartitionUnion, partition_union
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.statistics import PartitionStatisticsFile
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.spec.types import INT, LONG, UNKNOWN, NestedField
from iceberg_ops.table.manifests import entries_of, manifests_of
from iceberg_ops.table.metadata_files import metadata_folder
from iceberg_ops.table.stored_files import is_stored, named_failures
from iceberg_ops.table.table import Table, require_spec

log = logging.getLogger(__name__)


@dataclass(slots=True)
class PartitionCounts:
    """One row of the file."""

    partition: tuple[Any, ...]
    spec_id: int
    data_record_count: int = 0
    data_file_count: int = 0
    total_data_file_size_in_bytes: int = 0
    position_delete_record_count: int = 0
    position_delete_file_count: int = 0
    equality_delete_record_count: int = 0
    equality_delete_file_count: int = 0
    dv_count: int = 0
    may_lose_rows: bool = False
    """An equality delete of an unpartitioned spec applies to every partition."""
    has_odd_vector: bool = False
    """The data file of a vector is live more than once in the partition, or not at all."""
    last_updated_at: int | None = None
    last_updated_snapshot_id: int | None = None

    @property
    def total_record_count(self) -> int | None:
        """Live rows; None if this needs reading data."""
        if self.may_lose_rows or self.has_odd_vector or self.position_delete_file_count or self.equality_delete_file_count:
            return None
        return self.data_record_count - self.position_delete_record_count

    def add(self, entry: ManifestEntry) -> None:
        """Count one live file."""
        f = entry.data_file
        if f.content is FileContent.DATA:
            self.data_record_count += f.record_count
            self.data_file_count += 1
            self.total_data_file_size_in_bytes += f.file_size_in_bytes
        elif f.content is FileContent.EQUALITY_DELETES:
            self.equality_delete_record_count += f.record_count
            self.equality_delete_file_count += 1
        else:
            self.position_delete_record_count += f.record_count
            self.dv_count += f.is_deletion_vector
            self.position_delete_file_count += not f.is_deletion_vector


def compute_partition_stats(run: Run) -> Result:
    """There is nothing to do for a table that is not partitioned, or only by columns of type unknown: a file has no
    place for their values, which are all NULL. Raises OptionError, NoSuchSnapshotError, UnsupportedError."""
    options = compute_partition_stats_options(run.job.options)
    metadata = run.table.metadata
    fields = checked_partition_union(metadata).type.fields
    if not metadata.snapshots or not fields:
        return NothingToDo(findings=Findings())
    ref = run.job.branch if options.snapshot_id is None else None
    snapshot, _ = choose_snapshot(metadata, snapshot_id=options.snapshot_id, ref=ref)
    if snapshot is None:
        return NothingToDo(findings=Findings())
    if all(f.type == UNKNOWN for f in fields):
        partition_counts(run.table, manifests_of(run.table, snapshot))  # raises if there are values of an unknown type
        return NothingToDo(findings=Findings())
    if (known := _counted_before(run, snapshot)) is not None:
        return NothingToDo(findings=known)
    if run.job.dry_run:
        return Planned(findings=_findings(_plan(run, snapshot)))
    with run.lease(snapshot.snapshot_id):
        counts = _plan(run, snapshot)
        findings = _findings(counts)
        run.outcome.keep(findings)
        file = _written(run, snapshot, counts)
        with run.step("commit"):
            statistics = UpdateStatistics(added_partition=(file,), run_key=run.run_key, summary=run.summary)
            done = commit_staged(run, statistics, [file.statistics_path])
    return commit_result(done, findings if done.already_committed else replace(findings, files=(file.statistics_path,)))


def _counted_before(run: Run, snapshot: Snapshot) -> Findings | None:
    """The counts in the snapshot's file, if it is intact and has the columns that it would get now: a partition field that was
    added since, or an upgrade, changes them. Otherwise None."""
    io, expected_schema = run.table.io, stored_schema(statistics_schema(run.table.metadata)).remove_metadata()
    for file in run.table.metadata.partition_statistics:
        path = file.statistics_path
        if file.snapshot_id != snapshot.snapshot_id or not is_stored(io, path, file.file_size_in_bytes):
            continue
        try:
            with named_failures(path), io.open_input(path) as stored, pq.ParquetFile(stored) as parquet_file:
                columns, rows = parquet_file.schema_arrow.remove_metadata(), parquet_file.metadata.num_rows
        except (pa.ArrowException, UnicodeDecodeError, CorruptTableError) as e:
            log.warning("%s cannot be read, so it is computed again: %s", path, e)
            continue
        if columns.equals(expected_schema, check_metadata=True):
            kept = SkippedFile(file_path=path, reason="it already holds these statistics of the snapshot")
            return Findings(metrics={"partitions-count": rows}, skipped=(kept,))
    return None


def _findings(counts: Sequence[PartitionCounts]) -> Findings:
    return Findings(metrics={"partitions-count": len(counts)})


def _plan(run: Run, snapshot: Snapshot) -> list[PartitionCounts]:
    with run.step("plan") as detail:
        counts = _counts(run, snapshot)
        detail.append(f"{len(counts)} partitions")
    return counts


def _counts(run: Run, snapshot: Snapshot) -> list[PartitionCounts]:
    manifests = manifests_of(run.table, snapshot)
    meter = run.meter("reading", len(manifests), sum(m.manifest_length for m in manifests), unit="manifests")
    return partition_counts(run.table, manifests, on_manifest=lambda m: meter.advance(1, m.manifest_length))


def checked_partition_union(metadata: TableMetadata) -> PartitionUnion:
    """All partition fields the table ever had, by field id.

    Raises UnsupportedError if two of them share an id: other engines would read the values of one as those of the other.
    """
    union = partition_union(metadata.partition_specs, metadata.all_fields_by_id)
    for a, b in union.conflicts:
        raise UnsupportedError(
            f"not supported: partition statistics of a table whose partition fields {a.name!r} ({a.transform}) and {b.name!r} "
            f"({b.transform}) share the field id {a.field_id}, because readers tell them apart by it: rewrite the files of the "
            "older partition specs, then expire these (expire_snapshots with clean-expired-metadata)"
        )
    return union


def partition_counts(
    table: Table, manifests: Iterable[ManifestFile], on_manifest: Callable[[ManifestFile], object] = lambda _: None
) -> list[PartitionCounts]:
    """One entry per partition with live files, in the file's order: by partition, nulls first. Partitions of two specs are separate
    entries even if their values are equal (PART-15). ``told`` receives each manifest that has been read."""
    union = checked_partition_union(table.metadata)
    counts_by_partition: dict[tuple[Any, ...], PartitionCounts] = {}
    has_global_deletes = False
    vectors = _VectorFiles(identity_under(table.io))
    for m in sorted(manifests, key=lambda m: m.content is ManifestContent.DATA):
        spec = require_spec(table.metadata, m.partition_spec_id)
        for entry in entries_of(table, m, live_only=True):
            partition = entry.data_file.partition
            key = (spec.spec_id, *(value_identity(v) for v in partition))
            counts = counts_by_partition.setdefault(key, PartitionCounts(union.values(spec.spec_id, partition), spec.spec_id))
            counts.add(entry)
            vectors.add(key, entry)
            has_global_deletes |= spec.is_unpartitioned and entry.data_file.content is FileContent.EQUALITY_DELETES
            _date(counts, table.metadata, entry)
        on_manifest(m)
    odd = vectors.odd()
    for key, counts in counts_by_partition.items():
        counts.may_lose_rows, counts.has_odd_vector = has_global_deletes, key in odd
    return sorted(counts_by_partition.values(), key=_place)


@dataclass(slots=True)
class _VectorFiles:
    """The number of live files in its partition that each deletion vector applies to. Add vectors before data files."""

    identity: Identity
    _files: dict[tuple[tuple[Any, ...], str], tuple[int, int]] = field(default_factory=dict)

    def add(self, partition: tuple[Any, ...], entry: ManifestEntry) -> None:
        f = entry.data_file
        number = entry.sequence_number or 0
        if f.is_deletion_vector:
            self._files[partition, self.identity(f.referenced_data_file or "")] = (number, 0)
        elif self._files and f.content is FileContent.DATA:
            key = (partition, self.identity(f.file_path))
            vector = self._files.get(key)
            if vector is not None and number <= vector[0]:
                self._files[key] = (vector[0], vector[1] + 1)

    def odd(self) -> set[tuple[Any, ...]]:
        """Partitions with a vector that does not apply to exactly one file."""
        return {partition for (partition, _), (_, files) in self._files.items() if files != 1}


def _place(counts: PartitionCounts) -> tuple[Any, ...]:
    return [(v is not None, order_key(v) if v is not None else 0) for v in counts.partition], counts.spec_id


def _date(counts: PartitionCounts, metadata: TableMetadata, entry: ManifestEntry) -> None:
    """Dated by the newest snapshot that added a live file and is still in the table."""
    snapshot = metadata.snapshots_by_id.get(entry.snapshot_id or -1)
    if snapshot is not None and snapshot.timestamp_ms >= (counts.last_updated_at or 0):
        counts.last_updated_at, counts.last_updated_snapshot_id = snapshot.timestamp_ms, snapshot.snapshot_id


def statistics_schema(metadata: TableMetadata) -> Schema:
    """The columns of the file (STAT-04); deletes are required from v3 on, where ``dv_count`` is, too."""
    v3 = metadata.format_version >= 3
    fields = [
        NestedField(1, "partition", checked_partition_union(metadata).type, True),
        NestedField(2, "spec_id", INT, True),
        NestedField(3, "data_record_count", LONG, True),
        NestedField(4, "data_file_count", INT, True),
        NestedField(5, "total_data_file_size_in_bytes", LONG, True),
        NestedField(6, "position_delete_record_count", LONG, v3),
        NestedField(7, "position_delete_file_count", INT, v3),
        NestedField(8, "equality_delete_record_count", LONG, v3),
        NestedField(9, "equality_delete_file_count", INT, v3),
        NestedField(10, "total_record_count", LONG),
        NestedField(11, "last_updated_at", LONG),
        NestedField(12, "last_updated_snapshot_id", LONG),
    ]
    return Schema.of(*fields, *([NestedField(13, "dv_count", INT, True)] if v3 else []))


def _written(run: Run, snapshot: Snapshot, counts: list[PartitionCounts]) -> PartitionStatisticsFile:
    table = run.table
    schema = statistics_schema(table.metadata)
    arrow = stored_schema(schema)
    columns = [
        array_of(f.type, [getattr(c, f.name) for c in counts]).cast(arrow.field(i).type) for i, f in enumerate(schema.fields)
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_arrays(columns, schema=arrow), sink, compression="zstd")
    data = sink.getvalue().to_pybytes()
    location = f"{metadata_folder(table.metadata)}/partition-stats-{snapshot.snapshot_id}-{run.operation_id}.parquet"
    table.io.write(location, data)
    return PartitionStatisticsFile(snapshot_id=snapshot.snapshot_id, statistics_path=location, file_size_in_bytes=len(data))
