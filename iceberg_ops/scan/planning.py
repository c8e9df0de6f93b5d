"""Plans a scan: which data files it reads, each with the deletes that apply to it and the residual filter.

The order of pruning is the spec's ("Scan Planning"): manifests by partition summaries, entries by partition, files by column
metrics. All of it is inclusive; the residual of a task decides row by row. ``delete_index`` attaches the deletes.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby, repeat
from operator import attrgetter
from typing import TypeVar

from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, AlwaysTrue, Expression
from iceberg_ops.io.locations import identity_under
from iceberg_ops.scan.delete_index import DeleteIndex
from iceberg_ops.scan.snapshot_choice import choose_snapshot
from iceberg_ops.scan.spec_filter import SpecFilter, SpecFilters
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.serde.avro.slotted_objects import made_from_columns
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.manifests import ManifestContent, ManifestEntry, ManifestFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.snapshots import MAIN_BRANCH, Snapshot
from iceberg_ops.table.former_columns import table_with_schema
from iceberg_ops.table.manifests import columns_of, entries_of, manifests_ahead, manifests_of
from iceberg_ops.table.table import Table

T = TypeVar("T")

DECODING_THREADS = min(8, os.cpu_count() or 1)
MANY_OBJECTS = 100_000
"""New objects after which a garbage collection takes several milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """The input of a scan: one of ``snapshot_id``, ``ref`` and ``as_of_ms`` (none: the current state), and the rows for which
    ``where`` is true.

    With ``ignore_residuals`` files are selected by ``where`` but read as a whole; rewrites need this.
    """

    snapshot_id: int | None = None
    ref: str | None = None
    as_of_ms: int | None = None
    where: Expression = ALWAYS_TRUE
    case_sensitive: bool = False
    ignore_residuals: bool = False

    @classmethod
    def of_branch(cls, branch: str, where: Expression = ALWAYS_TRUE) -> Scan:
        """The scan of a job on ``branch``: for main the current state, which also exists for an empty table."""
        return cls(ref=None if branch == MAIN_BRANCH else branch, where=where)


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """The files of a scan. ``snapshot`` is None for an empty table; ``schema`` is the one to read with; ``filter`` is the bound
    filter."""

    table: Table
    snapshot: Snapshot | None
    schema: Schema
    tasks: list[FileScanTask] = field(default_factory=list)
    filter: Expression = ALWAYS_TRUE


def plan(table: Table, scan: Scan) -> ScanPlan:
    """Plan a scan of ``table``.

    Raises NoSuchSnapshotError, WhereError (unknown column, literal that does not compare) and CorruptTableError.
    """
    snapshot, schema = choose_snapshot(table.metadata, snapshot_id=scan.snapshot_id, ref=scan.ref, as_of_ms=scan.as_of_ms)
    table = table_with_schema(table, schema)
    bound = bind(schema, scan.where, case_sensitive=scan.case_sensitive)
    if snapshot is None:
        return ScanPlan(table, None, schema, [], bound)
    manifests = manifests_of(table, snapshot)
    filters = SpecFilters(bound, table)
    with _collector_paused():
        tasks = _tasks(table, manifests, filters, scan.ignore_residuals)
    return ScanPlan(table, snapshot, schema, tasks, bound)


def _tasks(table: Table, manifests: list[ManifestFile], filters: SpecFilters, ignore_residuals: bool) -> list[FileScanTask]:
    files: list[DataFile] = []
    numbers: list[int | None] = []
    file_numbers: list[int | None] = []
    for kept in _of_each(table, manifests, ManifestContent.DATA, filters, _kept_files):
        files += kept.files
        numbers += kept.sequence_numbers
        file_numbers += kept.file_sequence_numbers
    index = delete_index(table, manifests, filters) if files else None
    left: Iterable[Expression] = repeat(ALWAYS_TRUE)
    if not ignore_residuals and not isinstance(filters.bound, AlwaysTrue):
        left = _residuals(files, filters)
    columns: dict[str, Iterable[object]] = {
        "data_file": files,
        "sequence_number": numbers,
        "file_sequence_number": file_numbers,
        "deletes": repeat(()) if index is None or index.is_empty else map(index.for_data_file, files, (n or 0 for n in numbers)),
        "residual": left,
        "start": repeat(0),
        "length": repeat(None),
    }
    return made_from_columns(FileScanTask, len(files), columns)


@dataclass(frozen=True, slots=True)
class _Kept:
    """Data files with their sequence numbers."""

    files: Sequence[DataFile]
    sequence_numbers: Sequence[int | None]
    file_sequence_numbers: Sequence[int | None]


def _kept_files(table: Table, manifest: ManifestFile, judge: SpecFilter) -> _Kept:
    columns = columns_of(table, manifest)
    if columns is None:
        entries = manifest_entries(table, manifest, judge)
        return _Kept(
            [e.data_file for e in entries], [e.sequence_number or 0 for e in entries], [e.file_sequence_number for e in entries]
        )
    from iceberg_ops.scan.columnar_pruning import kept_rows  # noqa: PLC0415 - NumPy is loaded for columns only

    rows = kept_rows(columns, judge)
    columns.pack()
    return _Kept(columns.data_files(rows), *columns.sequence_numbers(rows))


def _residuals(files: list[DataFile], filters: SpecFilters) -> Iterator[Expression]:
    """Files of one partition are mostly next to each other."""
    for spec_id, run in groupby(files, key=attrgetter("spec_id")):
        yield from filters.of(spec_id).residuals([f.partition for f in run])


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Planning creates many objects and no reference cycles: garbage collections during planning find nothing and take a third of
    the time. A collection directly after it would find nothing either: many new objects are moved at once to those that are rarely
    collected, unless the program has frozen objects, which would then be unfrozen. To count those takes long, so it is not done for
    few new objects."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            if gc.get_count()[0] >= MANY_OBJECTS and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def matching_entries(
    table: Table, manifests: Iterable[ManifestFile], content: ManifestContent, filters: SpecFilters
) -> Iterator[ManifestEntry]:
    """Live entries of one content that may hold (or delete) matching rows, in manifest order. Deletes are selected only by
    partition."""
    for entries in _of_each(table, manifests, content, filters, manifest_entries):
        yield from entries


def _of_each(
    table: Table,
    manifests: Iterable[ManifestFile],
    content: ManifestContent,
    filters: SpecFilters,
    read: Callable[[Table, ManifestFile, SpecFilter], T],
) -> Iterator[T]:
    """The result of ``read`` for each manifest of that content that the filters keep, in the manifests' order."""
    judged = ((m, filters.of_manifest(m)) for m in manifests if m.content is content and m.has_live_files)
    chosen = [(m, judge) for m, judge in judged if judge.keeps_manifest(m)]
    if len(chosen) < 2:
        yield from (read(table, m, judge) for m, judge in chosen)
        return
    # Decompression and most of decoding release the interpreter's lock, so threads help.
    with manifests_ahead(table, (m for m, _ in chosen)) as near, ThreadPoolExecutor(DECODING_THREADS) as pool:
        yield from pool.map(lambda pair: read(near, *pair), chosen)


def manifest_entries(table: Table, manifest: ManifestFile, judge: SpecFilter) -> list[ManifestEntry]:
    """The live entries of one manifest that the filter keeps: by whole columns if the manifest can be read so."""
    columns = columns_of(table, manifest)
    if columns is not None:
        from iceberg_ops.scan.columnar_pruning import kept_entries  # noqa: PLC0415 - NumPy is loaded for columns only

        return kept_entries(columns, judge)
    entries = entries_of(table, manifest, live_only=True)
    if manifest.content is ManifestContent.DATA:
        return [e for e in entries if judge.keeps(e.data_file)]
    return [e for e in entries if judge.keeps_partition(e.data_file.partition)]


def delete_index(table: Table, manifests: Iterable[ManifestFile], filters: SpecFilters) -> DeleteIndex:
    """The live deletes of these manifests that may apply to data files the filters keep."""
    entries = matching_entries(table, manifests, ManifestContent.DELETES, filters)
    return DeleteIndex(
        (DeleteFile(e.data_file, e.sequence_number or 0) for e in entries),
        specs_by_id=table.metadata.specs_by_id,
        fields_by_id=table.metadata.all_fields_by_id,
        identity=identity_under(table.io),
    )
