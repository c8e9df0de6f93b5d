"""``iceberg-ops check``: is everything that a table refers to there, and does it add up?

Exit code 0 when no rule that readers rely on is broken (warnings are listed but pass), 1 otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from iceberg_ops.cli.output import print_json, print_rows
from iceberg_ops.cli.target import json_option, open_table, target_options

if TYPE_CHECKING:
    from iceberg_ops.table.integrity import Finding


@click.command()
@target_options
@click.option("--deep", is_flag=True, help="Also open every data and delete file and compare its row count.")
@json_option
def check(target: str, locations: tuple[str, ...], deep: bool, as_json: bool) -> int:
    """Verify that everything a table refers to exists, parses and adds up."""
    from iceberg_ops.table.integrity import IntegrityCheck

    table = open_table(target, locations)
    run = IntegrityCheck(table)
    found = list(run.findings())
    if deep:
        from iceberg_ops.data.reading.deep_check import file_findings

        found += file_findings(table.io, run.live_files.values())
    errors = sum(f.severity == "error" for f in found)
    if as_json:
        print_json(_document(run.checked, found, errors))
    else:
        looked = f"{run.checked.snapshots} snapshots, {run.checked.manifests} manifests, {run.checked.files} files"
        verdict = f"{target}: {errors} errors, {len(found) - errors} warnings in {looked}"
        print_rows([_row(f) for f in found], title=verdict, empty=f"{verdict}: all well")
    return 1 if errors else 0


def _row(finding: Finding) -> dict[str, Any]:
    return {
        "severity": finding.severity,
        "rule": finding.rule,
        "snapshot_id": None if finding.snapshot_id is None else str(finding.snapshot_id),
        "location": finding.location,
        "detail": finding.detail,
    }


def _document(checked: Any, found: list[Finding], errors: int) -> dict[str, Any]:
    return {
        "ok": errors == 0,
        "checked": {"snapshots": checked.snapshots, "manifests": checked.manifests, "files": checked.files},
        "findings": [{**_row(f), "snapshot_id": f.snapshot_id} for f in found],
    }
