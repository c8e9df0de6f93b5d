"""Expires snapshots, then deletes the files that only they used.

The commit package decides which snapshots and refs expire, and the order of note, swap and deletion (``commit.expire_snapshots``,
``commit.expiry``). This module converts options to the operation and its result to a report. A dry run finds the same files, on the
metadata that it would commit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import Committed, Findings, NothingToDo, Planned, Result, commit_result
from iceberg_ops.commit.operations.expire_snapshots import ExpireSnapshots
from iceberg_ops.commit.operations.expiry import ResumedExpiries, expire, resume_expiry
from iceberg_ops.commit.protocol.retention import ExpiryDecision
from iceberg_ops.config.options import NO_LIMIT, ExpireSnapshotsOptions, expire_snapshots_options
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.properties import OWNS_IMPORTED_FILES
from iceberg_ops.config.report import KeptSnapshot, SkippedFile
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


def expire_snapshots(run: Run) -> Result:
    """Raises ValidationError if gc.enabled is false, and the errors of the committer."""
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
        decided = operation.decided(table)
        updates = operation.removals(table, decided)
        planned = apply_updates(table.metadata, updates, now_ms=run.now_ms()) if updates else table.metadata
        findings = Findings(metrics=_counts(table.metadata, planned), kept_snapshots=_kept(decided, run.outcome.listed))
        detail.append(f"{findings.metrics['expired-snapshots-count']} of {len(table.metadata.snapshots)} snapshots expire")
    run.outcome.keep(findings)
    if not updates:
        return NothingToDo(findings=findings) if run.job.dry_run else _resumed(run, options)
    if run.job.dry_run:
        return Planned(findings=_with_files(findings, _planned_files(table, planned), None, run.outcome.listed))
    with run.step("commit and clean") as detail:
        result = expire(
            run.catalog,
            table,
            operation,
            delete=_deleting(run, options),
            on_commit=run.outcome.record,
            on_resumed=partial(_keep_files, run),
        )
        detail.append(counted(result.committed.attempts, "attempt"))
    findings = _with_resumed(run.outcome.findings(), result.resumed)
    findings = replace(findings, metrics={**findings.metrics, **_counts(table.metadata, result.committed.table.metadata)})
    return commit_result(result.committed, _with_files(findings, result.files, result.deletion, run.outcome.listed))


def _kept(decided: ExpiryDecision, listed: int) -> tuple[KeptSnapshot, ...]:
    """Why snapshots stay; only the newest ones if there are more than ``listed``."""
    kept = [KeptSnapshot(snapshot_id=i, reason=reason) for i, reason in decided.kept.items()]
    return tuple(kept[max(0, len(kept) - listed) :])


def _deleting(run: Run, options: ExpireSnapshotsOptions) -> Callable[[FileIO, Sequence[str]], list[DeleteFailure]]:
    """Delete batch by batch, and report progress."""

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


def _resumed(run: Run, options: ExpireSnapshotsOptions) -> Result:
    """Nothing expires now, but an earlier run may have died between its swap and its deletions."""
    with run.step("clean") as detail:
        resumed = resume_expiry(run.catalog, run.table, delete=_deleting(run, options), on_clean=partial(_keep_files, run))
        detail.append(f"{resumed.finished} earlier expirations finished")
    findings = _with_resumed(run.outcome.findings(), resumed)
    return Committed(findings=findings, table=run.table) if run.outcome.changed else NothingToDo(findings=findings)


def _with_resumed(findings: Findings, resumed: ResumedExpiries) -> Findings:
    kept = (SkippedFile(file_path=k.location, reason=k.reason) for k in resumed.kept)
    metrics = {**findings.metrics, "resumed-expirations-count": resumed.finished}
    return replace(findings, metrics=metrics, skipped=(*findings.skipped, *kept))


def _counts(before: TableMetadata, after: TableMetadata) -> dict[str, int]:
    return {
        "expired-snapshots-count": len(before.snapshots_by_id.keys() - after.snapshots_by_id.keys()),
        "removed-refs-count": len(before.refs.keys() - after.refs.keys()),
        "kept-snapshots-count": len(after.snapshots_by_id),
    }


def _planned_files(table: Table, planned: TableMetadata) -> UnreachedFiles:
    gone = [s for s in table.metadata.snapshots if s.snapshot_id not in planned.snapshots_by_id]
    ids = {s.snapshot_id for s in gone}
    statistics = [
        *(s.statistics_path for s in table.metadata.statistics if s.snapshot_id in ids),
        *(s.statistics_path for s in table.metadata.partition_statistics if s.snapshot_id in ids),
    ]
    return unreached_files(replace(table, metadata=planned), gone, statistics)


def _keep_files(run: Run, files: UnreachedFiles, deletion: Deletion) -> None:
    """Record files of an earlier expiry that this run has deleted: the report contains them even if the job fails."""
    run.outcome.keep(_with_files(run.outcome.findings(), files, deletion, run.outcome.listed))


def _with_files(findings: Findings, files: UnreachedFiles, deletion: Deletion | None, listed: int) -> Findings:
    """Metrics count the deleted files (None, a dry run: the files that would be deleted); the report names those that stay, and
    why. ``listed`` is the most files that it names."""
    gone = set(files if deletion is None else deletion.deleted)
    counts = {metric: sum(path in gone for path in getattr(files, kind)) for metric, kind in _METRICS}
    counts["kept-files-count"] = 0 if deletion is None else len(deletion.kept) + len(files.imported)
    counts["failed-deletes-count"] = 0 if deletion is None else len(deletion.failures)
    skipped = [SkippedFile(file_path=path, reason=_IMPORTED) for path in files.imported[:listed]]
    failures: list[SkippedFile] = []
    if deletion is None:
        skipped += [SkippedFile(file_path=path, reason=f"it is damaged: {e}") for path, e in files.damaged]
    else:
        skipped += [SkippedFile(file_path=k.location, reason=k.reason) for k in deletion.kept]
        failures = [SkippedFile(file_path=f.location, reason=f.reason) for f in deletion.failures]
    return replace(
        findings,
        metrics={**findings.metrics, **{name: findings.metrics.get(name, 0) + count for name, count in counts.items()}},
        files=(*findings.files, *(path for path in files if path in gone)),
        skipped=(*findings.skipped, *skipped),
        failures=(*findings.failures, *failures),
    )
