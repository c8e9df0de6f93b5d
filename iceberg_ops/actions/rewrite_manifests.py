"""Rewrite manifests: fewer, of the right size, and clustered by partition, so that scans open fewer of them.

Which manifests are worth it is planned in ``iceberg_ops.planning.rewrite_manifests``; writing them and surviving concurrent commits
is the commit operation's work. No file is added or removed, and files keep their sequence numbers.
"""

from __future__ import annotations

from iceberg_ops.actions.context import Run
from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.rewrite_manifests import RewriteManifests
from iceberg_ops.config.options import rewrite_manifests_options
from iceberg_ops.config.report import GroupReport, GroupStatus, SkippedFile
from iceberg_ops.planning.rewrite_manifests import ManifestGroup, RewriteManifestsPlan, counts, plan_rewrite_manifests
from iceberg_ops.table.manifests import manifests_of
from iceberg_ops.table.table import Table


def rewrite_manifests(run: Run) -> None:
    """Fill ``run.outcome``. Raises OptionError and what the committer raises."""
    options = rewrite_manifests_options(run.job.options, run.table.properties)
    with run.step("plan") as detail:
        plan = plan_rewrite_manifests(run.table, options, run.job.branch)
        detail.append(f"{sum(len(g.manifests) for g in plan.groups)} manifests to rewrite")
    run.outcome.metrics |= counts(plan)
    run.outcome.groups = {_name(group): _report(group) for group in plan.groups}
    run.outcome.skipped = [SkippedFile(file_path=path, reason=reason) for path, reason in plan.kept]
    if not plan.groups:
        return
    run.outcome.status = "planned"
    if run.job.dry_run:
        return
    operation = RewriteManifests(
        spec_id=plan.spec_id,
        manifest_paths=tuple(m.manifest_path for group in plan.groups for m in group.manifests),
        sort_by=options.sort_by,
        branch=run.job.branch,
        run_key=run.run_key,
        starting_snapshot_id=None if plan.snapshot is None else plan.snapshot.snapshot_id,
        summary=run.summary,
        begin=lambda what, unit, count, bytes_: run.meter(what, count, bytes_, unit=unit).advance,
    )
    with run.step("commit") as detail:
        committed = commit(run.catalog, run.table, operation)
        if committed.snapshot is not None:
            run.outcome.record(committed)
        detail.append(f"{committed.attempts} attempts")
    if committed.snapshot is None:
        run.outcome.attempts, run.outcome.table = committed.attempts, committed.table
        run.outcome.status = "nothing-to-do"
        run.outcome.groups = {_name(g): _report(g, "dropped", "others rewrote these manifests meanwhile") for g in plan.groups}
        return
    with run.afterwards("compare manifests"):
        _record(run, plan, committed.table)


def _record(run: Run, plan: RewriteManifestsPlan, after: Table) -> None:
    """Compare manifests by path before and after: a manifest that merely moved along is neither rewritten nor added."""
    new = manifests_of(after, after.metadata.snapshot(run.outcome.snapshot_ids[-1]))
    paths = {m.manifest_path for m in new}
    known = {m.manifest_path for m in manifests_of(run.table, plan.snapshot)}
    for group in plan.groups:
        gone = [m for m in group.manifests if m.manifest_path not in paths]
        added = [
            m
            for m in new
            if m.content is group.content and m.manifest_path not in known and m.added_snapshot_id == run.outcome.snapshot_ids[-1]
        ]
        run.outcome.count("rewritten-manifests-count", len(gone))
        run.outcome.count("added-manifests-count", len(added))
        found = _report(group, "committed")
        run.outcome.groups[_name(group)] = GroupReport(
            group_id=found.group_id,
            status="committed",
            reason=found.reason,
            input_files=len(gone),
            input_bytes=sum(m.manifest_length for m in gone),
            output_files=len(added),
            output_bytes=sum(m.manifest_length for m in added),
        )


def _name(group: ManifestGroup) -> str:
    return group.content.name.lower()


def _report(group: ManifestGroup, status: GroupStatus = "planned", reason: str = "") -> GroupReport:
    return GroupReport(
        group_id=_name(group),
        status=status,
        reason=reason or group.reason,
        input_files=len(group.manifests),
        input_bytes=group.input_bytes,
    )
