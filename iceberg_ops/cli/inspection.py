"""``iceberg-ops inspect``: what the metadata of a table says."""

from __future__ import annotations

from typing import Any

import click

from iceberg_ops.cli.output import print_json, print_pairs, print_rows
from iceberg_ops.cli.target import json_option, open_table, parse_instant, snapshot_options, target_options
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.spec import summary_keys

_SUMMARY = {
    summary_keys.ADDED_DATA_FILES: "added",
    summary_keys.DELETED_DATA_FILES: "removed",
    summary_keys.ADDED_DELETE_FILES: "deletes added",
    summary_keys.TOTAL_DATA_FILES: "data files",
    summary_keys.TOTAL_DELETE_FILES: "delete files",
    summary_keys.TOTAL_RECORDS: "records",
    "iceberg-ops.action": "action",
}
"""What a snapshot's summary tells people."""
_COLUMNS = {
    "manifests": {
        "path": "path",
        "content": "content",
        "length": "bytes",
        "partition_spec_id": "spec",
        "added_snapshot_id": "snapshot",
        "added_files_count": "added",
        "existing_files_count": "existing",
        "deleted_files_count": "deleted",
    },
    "files": {
        "file_path": "path",
        "content": "content",
        "partition": "partition",
        "record_count": "records",
        "file_size_in_bytes": "bytes",
        "sequence_number": "sequence",
        "snapshot_id": "snapshot",
    },
}
"""What is shown of wide topics, by the name people see."""
TOPICS = ("snapshots", "refs", "history", "manifests", "files", "partitions", "schema", "properties", "metadata")


@click.command()
@target_options
@click.argument("topic")
@snapshot_options
@json_option
def inspect(
    target: str, topic: str, locations: tuple[str, ...], snapshot_id: int | None, ref: str | None, as_of: str | None, as_json: bool
) -> None:
    """Show what a table's metadata says.

    TOPIC is one of snapshots, refs, history, manifests, files, partitions, schema, properties and metadata. Manifests, files and
    partitions are those of the current snapshot unless another is chosen.
    """
    from iceberg_ops.scan.snapshot_choice import choose_snapshot
    from iceberg_ops.table.former_columns import as_it_was
    from iceberg_ops.table.inspection import inspect as rows_of

    if topic not in TOPICS and target in TOPICS:
        target, topic = topic, target
    if topic not in TOPICS:
        raise click.UsageError(f"no topic {topic!r}{did_you_mean(topic, TOPICS)}: the topics are {', '.join(TOPICS)}")
    table = open_table(target, locations)
    snapshot, schema = choose_snapshot(table.metadata, snapshot_id=snapshot_id, ref=ref, as_of_ms=parse_instant(as_of))
    rows = rows_of(as_it_was(table, schema), topic, snapshot)
    if as_json:
        print_json(rows)
    elif topic == "metadata":
        print_pairs(((name, value) for row in rows for name, value in row.items()), title=f"{target}: {topic}")
    else:
        shown = _for_people(topic, rows, table.metadata.location)
        print_rows(shown, title=f"{target}: {topic}", empty=f"{target}: no {topic}")


def _for_people(topic: str, rows: list[dict[str, Any]], location: str) -> list[dict[str, Any]]:
    """What fits a line (``--json`` has all): snapshots without their whole summary, files by their path below the table."""
    if topic in _COLUMNS:
        return [{title: _below(location, row.get(name)) for name, title in _COLUMNS[topic].items()} for row in rows]
    if topic != "snapshots":
        return rows
    shown = []
    for row in rows:
        summary = row.get("summary") or {}
        kept = {k: v for k, v in row.items() if k not in ("summary", "manifest_list", "sequence_number", "schema_id")}
        shown.append(kept | {title: summary.get(name) for name, title in _SUMMARY.items()})
    return shown


def _below(location: str, value: Any) -> Any:
    """A path below the table's location without it."""
    return value.removeprefix(f"{location.rstrip('/')}/") if isinstance(value, str) else value
