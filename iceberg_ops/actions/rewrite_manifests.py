"""Rewrites manifests: fewer, of the right size, and clustered by partition, so that scans open fewer of them.

``iceberg_ops.planning.rewrite_manifests`` selects the manifests; the commit operation writes them and handles concurrent commits.
No file is added or removed, and files keep their sequence numbers. A group is the manifests of one content; the commit does its
work (``GroupCommits.commit``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from iceberg_ops.actions.groups.group_commits import GroupCommits
from iceberg_ops.actions.groups.group_plans import Batch, GroupStrategy
from iceberg_ops.actions.run.context import Run
from iceberg_ops.actions.run.results import AlreadyCommitted, Committed, Findings, NothingToDo, Planned, Result
from iceberg_ops.commit.operations.rewrite_manifests import RewriteManifests
from iceberg_ops.config.options import RewriteManifestsOptions, rewrite_manifests_options
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.report import GroupReport, SkippedFile
from iceberg_ops.planning.rewrite_manifests import ManifestGroup, RewriteManifestsPlan, counts, plan_rewrite_manifests
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.table.manifests import manifests_of


def rewrite_manifests(run: Run) -> Result:
    """Raises OptionError and the errors of the committer."""
    options = rewrite_manifests_options(run.job.options, run.table.properties)
    with run.step("plan") as detail:
        plan = plan_rewrite_manifests(run.table, options, run.job.branch)
        detail.append(f"{counted(sum(len(g.manifests) for g in plan.groups), 'manifest')} to rewrite")
    planned = Findings(
        metrics=counts(plan),
        groups=tuple(map(_planned_group, plan.groups)),
        skipped=tuple(SkippedFile(file_path=path, reason=reason) for path, reason in plan.kept),
    )
    if not plan.groups:
        return NothingToDo(findings=planned)
    if run.job.dry_run:
        return Planned(findings=planned)
    groups = [_PlannedManifests(group) for group in plan.groups]
    commits = GroupCommits[_PlannedManifests](run, planned)
    strategy = _ManifestStrategy(run=run, plan=plan, options=options)
    done = commits.commit(strategy, groups, none_left="another writer rewrote these manifests concurrently")
    if isinstance(done, Committed) and not isinstance(done, AlreadyCommitted):
        with run.afterwards("compare manifests"):
            return replace(done, findings=_compared(run, plan, done))
    return done


@dataclass(frozen=True, slots=True)
class _PlannedManifests:
    """A group in the form of the group-commit service: no data or delete file is replaced, and no conflict drops a part."""

    group: ManifestGroup
    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    named: tuple[str, ...] = ()
    output_bytes: int = 0
    certificate: None = None

    @property
    def group_id(self) -> str:
        return _name(self.group)

    @property
    def input_bytes(self) -> int:
        return self.group.input_bytes

    @property
    def input_files(self) -> int:
        return len(self.group.manifests)


@dataclass(frozen=True, kw_only=True)
class _ManifestStrategy(GroupStrategy[_PlannedManifests]):
    plan: RewriteManifestsPlan
    options: RewriteManifestsOptions

    def operation(self, groups: Sequence[_PlannedManifests], batch: Batch) -> RewriteManifests:
        run, snapshot = self.run, self.plan.snapshot
        return RewriteManifests(
            spec_id=self.plan.spec_id,
            manifest_paths=tuple(m.manifest_path for planned in groups for m in planned.group.manifests),
            sort_by=self.options.sort_by,
            branch=run.job.branch,
            run_key=batch.run_key,
            starting_snapshot_id=None if snapshot is None else snapshot.snapshot_id,
            summary=run.summary,
            begin=lambda what, unit, count, bytes_: run.meter(what, count, bytes_, unit=unit).advance,
        )


def _compared(run: Run, plan: RewriteManifestsPlan, done: Committed) -> Findings:
    """Compares manifests by path before and after: a manifest that was only carried along is neither rewritten nor added."""
    new = manifests_of(done.table, done.table.metadata.snapshot(done.snapshot_ids[-1]))
    paths = {m.manifest_path for m in new}
    known = {m.manifest_path for m in manifests_of(run.table, plan.snapshot)}
    groups, rewritten, written = [], 0, 0
    for group, report in zip(plan.groups, done.findings.groups, strict=True):
        gone = [m for m in group.manifests if m.manifest_path not in paths]
        added = [
            m
            for m in new
            if m.content is group.content and m.manifest_path not in known and m.added_snapshot_id == done.snapshot_ids[-1]
        ]
        rewritten, written = rewritten + len(gone), written + len(added)
        groups.append(
            structs.replace(
                report,
                input_files=len(gone),
                input_bytes=sum(m.manifest_length for m in gone),
                output_files=len(added),
                output_bytes=sum(m.manifest_length for m in added),
            )
        )
    counted = {"rewritten-manifests-count": rewritten, "added-manifests-count": written}
    return replace(done.findings, groups=tuple(groups), metrics={**done.findings.metrics, **counted})


def _name(group: ManifestGroup) -> str:
    return group.content.name.lower()


def _planned_group(group: ManifestGroup) -> GroupReport:
    return GroupReport(
        group_id=_name(group),
        status="planned",
        reason=group.reason,
        input_files=len(group.manifests),
        input_bytes=group.input_bytes,
    )
