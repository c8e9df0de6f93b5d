"""``iceberg-ops inspect``: shows the metadata of a table."""

from __future__ import annotations

from typing import Any

import click

from iceberg_ops.cli.ages import age_text
from iceberg_ops.cli.completion import complete_from
from iceberg_ops.cli.output import partition_text, print_json, print_pairs, print_rows
from iceberg_ops.cli.target import json_option, open_table, parse_instant, snapshot_options, target_options
from iceberg_ops.config.near_names import did_you_mean
from iceberg_ops.config.whole_numbers import parse_count
from iceberg_ops.spec import summary_keys

_SUMMARY = {
    "records": summary_keys.TOTAL_RECORDS,
    "data files": summary_keys.TOTAL_DATA_FILES,
    "delete files": summary_keys.TOTAL_DELETE_FILES,
    "added": summary_keys.ADDED_DATA_FILES,
    "removed": summary_keys.DELETED_DATA_FILES,
    "deletes added": summary_keys.ADDED_DELETE_FILES,
}
"""The shown keys of a snapshot's summary, by the title of the column."""
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
"""The shown columns of wide topics, by their displayed names."""
TOPICS = ("snapshots", "refs", "history", "manifests", "files", "partitions", "schema", "properties", "metadata")


@click.command()
@target_options
@click.argument("topic", shell_complete=complete_from(TOPICS))
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
    from iceberg_ops.table.former_columns import table_with_schema
    from iceberg_ops.table.inspection import inspect as rows_of

    if topic not in TOPICS and target in TOPICS:
        target, topic = topic, target
    if topic not in TOPICS:
        raise click.UsageError(f"no topic {topic!r}{did_you_mean(topic, TOPICS)}: the topics are {', '.join(TOPICS)}")
    table = open_table(target, locations)
    snapshot, schema = choose_snapshot(table.metadata, snapshot_id=snapshot_id, ref=ref, as_of_ms=parse_instant(as_of))
    rows = rows_of(table_with_schema(table, schema), topic, snapshot)
    if as_json:
        print_json(rows)
    elif topic == "metadata":
        print_pairs(((name, value) for row in rows for name, value in row.items()), title=f"{target}: {topic}")
    else:
        shown = _for_people(topic, rows, table.metadata.location)
        print_rows(shown, title=f"{target}: {topic}", empty=f"{target}: no {topic}")


def _for_people(topic: str, rows: list[dict[str, Any]], location: str) -> list[dict[str, Any]]:
    """The columns that fit a line (``--json`` has all): the most important first, times to the second, files relative to the
    table."""
    if topic == "snapshots":
        return [_snapshot(row) for row in rows]
    if topic == "refs":
        return [_ref(row) for row in rows]
    if topic == "history":
        return [
            {
                "made current (UTC)": _short_time(row["made_current_at"]),
                "snapshot": row["snapshot_id"],
                "parent": row["parent_id"],
                "in current history": row["is_current_ancestor"],
            }
            for row in rows
        ]
    if topic in _COLUMNS:
        return [{title: _short(location, row.get(name)) for name, title in _COLUMNS[topic].items()} for row in rows]
    return [{name: _short(location, value) if name == "partition" else value for name, value in row.items()} for row in rows]


def _snapshot(row: dict[str, Any]) -> dict[str, Any]:
    from iceberg_ops.commit.protocol.run_keys import ACTION

    summary = row.get("summary") or {}
    counts = {
        title: parse_count(text) if (text := summary.get(key)) and text.isdigit() else text for title, key in _SUMMARY.items()
    }
    shown = {"snapshot": row["snapshot_id"], "committed (UTC)": _short_time(row["committed_at"]), "operation": row["operation"]}
    return shown | {"action": summary.get(ACTION)} | counts | {"parent": row["parent_id"]}


def _ref(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": row["name"],
        "type": row["type"],
        "snapshot": row["snapshot_id"],
        "retained for": _age(row["max_ref_age_ms"]),
        "least snapshots": row["min_snapshots_to_keep"],
        "snapshots for": _age(row["max_snapshot_age_ms"]),
    }


def _age(ms: int | None) -> str | None:
    return None if ms is None else age_text(ms)


def _short_time(text: str) -> str:
    """An ISO time in UTC, to the second."""
    return text[:19].replace("T", " ")


def _short(location: str, value: Any) -> Any:
    """A path relative to the table's location, and a partition in its usual notation."""
    if isinstance(value, dict):
        return partition_text(value)
    return value.removeprefix(f"{location.rstrip('/')}/") if isinstance(value, str) else value
