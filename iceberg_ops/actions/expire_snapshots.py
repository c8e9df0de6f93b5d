"""Expire snapshots, then delete the files that only they used.

Which snapshots and refs go, and the order of note, swap and deletion, are the commit package's (``commit.expire_snapshots``,
``commit.expiry``); here options become the operation and its result a report. A dry run finds the same files, on the metadata that
it would commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from iceberg_ops.actions.context import Run
from iceberg_ops.commit.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.expiry import Resumed, expire, resume_expiry
from iceberg_ops.config.options import NO_LIMIT, ExpireSnapshotsOptions, expire_snapshots_options
from iceberg_ops.config.properties import OWNS_IMPORTED_FILES
from iceberg_ops.config.report import SkippedFile
from iceberg_ops.deletion.bulk import DELETED_AT_ONCE, delete_files, recorded
from iceberg_ops.deletion.expired import UnreachedFiles, unreached_files
from iceberg_ops.deletion.gate import Deletion
from iceberg_ops.io.file_io import DeleteFailure, FileIO
from iceberg_ops.spec.metadata_builder import apply_updates
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.table import Table

_METRICS = (
    ("deleted-data-files-count", "data"),
    ("deleted-position-delete-files-count", "position_deletes"),
    ("deleted-equality-delete-files-count", "equality_deletes"),
    ("deleted-manifest-files-count", "manifests"),
    ("deleted-manifest-lists-count", "manifest_lists"),
    ("deleted-statistics-files-count", "statistics"),
)
_IMPORTED = (
    f"it was imported from outside the table's own folders, so another table may have it too (table property "
    f"{OWNS_IMPORTED_FILES.name} says that no other has)"
)


def expire_snapshots(run: Run) -> None:
    """Fill ``run.outcome``. Raises ValidationError where gc.enabled is false, and what the committer raises."""
    table = run.table
    options = expire_snapshots_options(run.job.options, table.properties, now_ms=run.now_ms())
    if not options.stream_results:
        run.outcome.listed = NO_LIMIT
    operation = ExpireSnapshots(
        older_than_ms=options.older_than_ms,
        retain_last=options.retain_last,
        snapshot_ids=options.snapshot_ids,
        clean_expired_metadata=options.clean_expired_metadata,
        now_ms=run.now_ms(),
        run_key=run.run_key,
        summary=run.summary,
    )
    with run.step("plan") as detail:
        updates = operation.removals(table)
        planned = apply_updates(table.metadata, updates, now_ms=run.now_ms()) if updates else table.metadata
        _count(run, table.metadata, planned)
        detail.append(f"{run.outcome.metrics['expired-snapshots-count']} of {len(table.metadata.snapshots)} snapshots expire")
    if not updates:
        if not run.job.dry_run:
            _resume(run, options)
        return
    run.outcome.status = "planned"
    if run.job.dry_run:
        _record_files(run, _planned_files(table, planned), None)
        return
    with run.step("commit and clean") as detail:
        result = expire(
            run.catalog,
            table,
            operation,
            delete=_deleting(run, options),
            on_commit=run.outcome.record,
            on_resumed=partial(_record_files, run),
        )
        detail.append(f"{result.committed.attempts} attempts")
    _record_resumed(run, result.resumed)
    _count(run, table.metadata, result.committed.table.metadata)
    _record_files(run, result.files, result.deletion)


def _deleting(run: Run, options: ExpireSnapshotsOptions) -> Callable[[FileIO, Sequence[str]], list[DeleteFailure]]:
    """Delete batch by batch, and say how far it is."""

    def on_gone(gone: Sequence[str], is_in_doubt: bool) -> None:
        run.outcome.changed |= bool(gone) or is_in_doubt

    in_store = recorded(lambda io, batch: delete_files(io, batch, options.max_concurrent_deletes), on_gone)

    def delete(io: FileIO, locations: Sequence[str]) -> list[DeleteFailure]:
        meter = run.meter("deleting", len(locations), unit="files")
        failures: list[DeleteFailure] = []
        for first in range(0, len(locations), DELETED_AT_ONCE):
            batch = locations[first : first + DELETED_AT_ONCE]
            failures += in_store(io, batch)
            meter.advance(len(batch))
        return failures

    return delete


def _resume(run: Run, options: ExpireSnapshotsOptions) -> None:
    """Nothing expires now, but an earlier run may have died between its swap and its deletions."""
    with run.step("clean") as detail:
        resumed = resume_expiry(run.catalog, run.table, delete=_deleting(run, options), on_clean=partial(_record_files, run))
        detail.append(f"{resumed.finished} earlier expirations finished")
    _record_resumed(run, resumed)
    if run.outcome.changed:
        run.outcome.status = "committed"


def _record_resumed(run: Run, resumed: Resumed) -> None:
    run.outcome.metrics["resumed-expirations-count"] = resumed.finished
    run.outcome.skipped.extend(SkippedFile(file_path=k.location, reason=k.reason) for k in resumed.kept)


def _count(run: Run, before: TableMetadata, after: TableMetadata) -> None:
    run.outcome.metrics["expired-snapshots-count"] = len(before.snapshots_by_id.keys() - after.snapshots_by_id.keys())
    run.outcome.metrics["removed-refs-count"] = len(before.refs.keys() - after.refs.keys())


def _planned_files(table: Table, planned: TableMetadata) -> UnreachedFiles:
    gone = [s for s in table.metadata.snapshots if s.snapshot_id not in planned.snapshots_by_id]
    ids = {s.snapshot_id for s in gone}
    statistics = [
        *(s.statistics_path for s in table.metadata.statistics if s.snapshot_id in ids),
        *(s.statistics_path for s in table.metadata.partition_statistics if s.snapshot_id in ids),
    ]
    return unreached_files(replace(table, metadata=planned), gone, statistics)


def _record_files(run: Run, files: UnreachedFiles, deletion: Deletion | None) -> None:
    """Metrics count what is gone (None, a dry run: what would go); the report names what is not, and why."""
    gone = set(files if deletion is None else deletion.deleted)
    for metric, kind in _METRICS:
        run.outcome.count(metric, sum(path in gone for path in getattr(files, kind)))
    run.outcome.files.extend(path for path in files if path in gone)
    run.outcome.skipped.extend(SkippedFile(file_path=path, reason=_IMPORTED) for path in files.imported[: run.outcome.listed])
    if deletion is None:
        run.outcome.skipped.extend(SkippedFile(file_path=path, reason=f"it is damaged: {e}") for path, e in files.damaged)
    else:
        run.outcome.skipped.extend(SkippedFile(file_path=k.location, reason=k.reason) for k in deletion.kept)
        run.outcome.failures.extend(SkippedFile(file_path=f.location, reason=f.reason) for f in deletion.failures)
    run.outcome.count("kept-files-count", 0 if deletion is None else len(deletion.kept) + len(files.imported))
    run.outcome.count("failed-deletes-count", 0 if deletion is None else len(deletion.failures))
