"""``iceberg-ops check``: checks that everything a table refers to exists, and that its counts add up.

Exit code 0 if no rule that readers rely on is broken (warnings are listed but do not fail), 1 otherwise.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

import click

from iceberg_ops.cli.output import print_json, print_rows
from iceberg_ops.cli.target import json_option, open_table, target_options
from iceberg_ops.config.plurals import counted
from iceberg_ops.spec.snapshots import MAIN_BRANCH

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_ops.spec.table_metadata import TableMetadata
    from iceberg_ops.table.integrity import Damage, Finding


@click.command()
@target_options
@click.option("--deep", is_flag=True, help="Also open every data and delete file and compare its row count.")
@click.option("--snapshot-id", type=int, metavar="N", help="Check one snapshot only.")
@click.option("--ref", metavar="NAME", help="Check the snapshot of a branch or tag only.")
@json_option
def check(target: str, locations: tuple[str, ...], deep: bool, snapshot_id: int | None, ref: str | None, as_json: bool) -> int:
    """Check that all files of a table exist, can be read and agree with its metadata."""
    from iceberg_ops.scan.snapshot_choice import choose_snapshot
    from iceberg_ops.table.integrity import IntegrityCheck

    table = open_table(target, locations)
    only = None
    if snapshot_id is not None or ref is not None:
        only, _ = choose_snapshot(table.metadata, snapshot_id=snapshot_id, ref=ref)
    run = IntegrityCheck(table, only)
    findings = list(run.findings())
    if deep:
        from iceberg_ops.data.reading.deep_check import file_findings

        findings += file_findings(table.io, run.live_files.values())
    errors = sum(f.severity == "error" for f in findings)
    damage = run.damage(findings)
    if as_json:
        print_json(_document(run.checked, findings, errors, damage))
    else:
        sizes = ((run.checked.snapshots, "snapshot"), (run.checked.manifests, "manifest"), (run.checked.files, "file"))
        looked = ", ".join(counted(number, what) for number, what in sizes)
        verdict = f"{target}: {counted(errors, 'error')}, {counted(len(findings) - errors, 'warning')} in {looked}"
        print_rows([_row(f) for f in findings], title=verdict, empty=f"{verdict}: all well")
        for line in _consequences(target, damage, table.metadata, whole=only is None):
            click.echo(line)
    return 1 if errors else 0


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity,
        "rule": finding.rule,
        "snapshot_id": None if finding.snapshot_id is None else str(finding.snapshot_id),
        "location": finding.location,
        "detail": finding.detail,
    }


def _consequences(target: str, damage: Damage, metadata: TableMetadata, *, whole: bool) -> Iterator[str]:
    """Which parts of the table cannot be read, and which can. ``whole``: every snapshot was checked."""
    if not damage.snapshot_ids:
        return
    of = "".join(f", {metadata.refs[name].type} {name}" for name in damage.refs)
    yield f"affected: {counted(len(damage.snapshot_ids), 'snapshot')}{of}: {', '.join(map(str, damage.snapshot_ids))}"
    if damage.newest_intact is None:
        lost = "no snapshot is intact: restore the files from a backup, under the same names"
        yield lost if whole else f"iceberg-ops check {shlex.quote(target)} finds the newest snapshot that is intact"
        return
    yield f"newest intact snapshot: {damage.newest_intact}"
    if MAIN_BRANCH in damage.refs:
        options = f"--snapshot-id {damage.newest_intact}" + ("" if damage.is_of_main else " --any-snapshot")
        yield f"to read the table as it was then: iceberg-ops rollback {shlex.quote(target)} {options}"


def _document(checked: Any, findings: list[Finding], errors: int, damage: Damage) -> dict[str, Any]:
    return {
        "ok": errors == 0,
        "checked": {"snapshots": checked.snapshots, "manifests": checked.manifests, "files": checked.files},
        "affected": {
            "snapshot_ids": list(damage.snapshot_ids),
            "refs": list(damage.refs),
            "newest_intact_snapshot_id": damage.newest_intact,
        },
        "findings": [{**_row(f), "snapshot_id": f.snapshot_id} for f in findings],
    }
