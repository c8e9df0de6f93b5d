"""``iceberg-ops inspect``: what the metadata of a table says."""

from __future__ import annotations

from typing import Any

import click

from iceberg_ops.cli.output import print_json, print_rows
from iceberg_ops.cli.target import json_option, open_table, parse_instant, snapshot_options, target_options

_SUMMARY = {
    "added-data-files": "added",
    "deleted-data-files": "removed",
    "added-delete-files": "deletes added",
    "total-data-files": "data files",
    "total-delete-files": "delete files",
    "total-records": "records",
    "iceberg-ops.action": "action",
}
"""What a snapshot's summary tells people."""
TOPICS = ("snapshots", "refs", "history", "manifests", "files", "partitions", "schema", "properties", "metadata")


@click.command()
@target_options
@click.argument("topic", type=click.Choice(TOPICS))
@snapshot_options
@json_option
def inspect(
    target: str, topic: str, locations: tuple[str, ...], snapshot_id: int | None, ref: str | None, as_of: str | None, as_json: bool
) -> None:
    """Show snapshots, refs, manifests, files, partitions and the like.

    Manifests, files and partitions are those of the current snapshot unless another is chosen.
    """
    from iceberg_ops.scan.snapshot_choice import choose_snapshot
    from iceberg_ops.table.inspection import inspect as rows_of

    table = open_table(target, locations)
    snapshot, _ = choose_snapshot(table.metadata, snapshot_id=snapshot_id, ref=ref, as_of_ms=parse_instant(as_of))
    rows = rows_of(table, topic, snapshot)
    if as_json:
        print_json(rows)
    else:
        print_rows(_for_people(topic, rows), title=f"{target}: {topic}", empty=f"{target}: no {topic}")


def _for_people(topic: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Snapshots without their whole summary (``--json`` has it): what each added and removed, and what it left."""
    if topic != "snapshots":
        return rows
    shown = []
    for row in rows:
        summary = row.get("summary") or {}
        kept = {k: v for k, v in row.items() if k not in ("summary", "manifest_list", "sequence_number", "schema_id")}
        shown.append(kept | {title: summary.get(name) for name, title in _SUMMARY.items()})
    return shown
