"""Expire snapshots, then delete the files that only they used.

Which snapshots and refs go is decided by the commit operation, on the table as it is at each attempt. Files are told by comparing
the table before with the table as it is *after* the commit, read again, so that nothing a later commit refers to is deleted.

The rule upheld: metadata first, files second. A crash in between leaves files that the orphan job finds, never a snapshot without
its files.
"""

from __future__ import annotations

from dataclasses import replace

from iceberg_ops.actions.context import Run
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.expire_snapshots import ExpireSnapshots
from iceberg_ops.config.options import expire_snapshots_options
from iceberg_ops.config.properties import GC_ENABLED
from iceberg_ops.config.report import SkippedFile
from iceberg_ops.errors import ValidationError
from iceberg_ops.planning.expire_snapshots import ExpiredFiles, expired_files
from iceberg_ops.spec.metadata_builder import apply_updates
from iceberg_ops.spec.snapshots import Snapshot
from iceberg_ops.spec.table_metadata import TableMetadata
from iceberg_ops.table.table import Table


def expire_snapshots(run: Run) -> None:
    """Fill ``run.outcome``. Raises ValidationError where gc.enabled is false, and what the committer raises."""
    table = run.table
    if not GC_ENABLED.of(table.properties):
        raise ValidationError(
            f"can not expire snapshots of {table.name}: gc.enabled is false (deleting files may corrupt other tables)"
        )
    options = expire_snapshots_options(run.job.options, table.properties, now_ms=run.now_ms())
    operation = ExpireSnapshots(
        older_than_ms=options.older_than_ms,
        retain_last=options.retain_last,
        snapshot_ids=options.snapshot_ids,
        clean_expired_metadata=options.clean_expired_metadata,
        run_key=run.run_key,
        summary=run.summary,
    )
    with run.step("plan") as detail:
        staged = operation.stage(operation.prepare(table), table)
        planned = apply_updates(table.metadata, staged.updates, now_ms=run.now_ms()) if staged.updates else table.metadata
        expired = _gone(table.metadata, planned)
        detail.append(f"{len(expired)} of {len(table.metadata.snapshots)} snapshots expire")
    _count(run, expired, table.metadata, planned)
    if not staged.updates:
        return
    if run.job.dry_run:
        run.outcome.status = "planned"
        _count_files(run, expired_files(table, expired, replace(table, metadata=planned)))
        return
    with run.step("commit"):
        committed = commit(run.catalog, table, operation)
    _record_commit(run, committed.table, committed.attempts)
    with run.step("clean") as detail:
        after = run.catalog.load_table(table.identifier[1:])
        expired = _gone(table.metadata, after.metadata)
        _count(run, expired, table.metadata, after.metadata)
        deleted = _delete(run, expired_files(table, expired, after))
        detail.append(f"{deleted} files deleted")


def _gone(before: TableMetadata, after: TableMetadata) -> tuple[Snapshot, ...]:
    return tuple(s for s in before.snapshots if s.snapshot_id not in after.snapshots_by_id)


def _count(run: Run, expired: tuple[Snapshot, ...], before: TableMetadata, after: TableMetadata) -> None:
    run.outcome.metrics["expired-snapshots-count"] = len(expired)
    run.outcome.metrics["removed-refs-count"] = len(set(before.refs) - set(after.refs))


def _count_files(run: Run, found: ExpiredFiles) -> None:
    for name, locations in found.by_kind():
        run.outcome.metrics[name] = len(locations)
        run.outcome.files.extend(locations)


def _record_commit(run: Run, table: Table, attempts: int) -> None:
    run.outcome.status = "committed"
    run.outcome.attempts = attempts
    run.outcome.table = table


def _delete(run: Run, found: ExpiredFiles) -> int:
    """Delete kind by kind; metrics count what is gone, ``failures`` names what is not."""
    total = 0
    for name, locations in found.by_kind():
        failures = run.table.io.delete_many(locations)
        failed = {failure.location for failure in failures}
        run.outcome.failures.extend(SkippedFile(file_path=f.location, reason=f.reason) for f in failures)
        run.outcome.files.extend(path for path in locations if path not in failed)
        run.outcome.metrics[name] = len(locations) - len(failed)
        total += len(locations) - len(failed)
    run.outcome.metrics["failed-deletes-count"] = len(run.outcome.failures)
    return total
