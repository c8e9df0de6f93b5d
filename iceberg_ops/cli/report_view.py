"""Shows an action report to people: the result, the counts, the groups, and the files that were not touched, with reasons."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from iceberg_ops.cli.output import console, print_rows
from iceberg_ops.config.plurals import counted
from iceberg_ops.config.report import ActionReport, GroupReport, TableState

_SHOWN = 20
_DONE_TO_FILES = {
    "expire_snapshots": "deleted",
    "remove_orphan_files": "deleted",
    "add_files": "added",
    "compute_table_stats": "written",
    "compute_partition_stats": "written",
}


def print_report(report: ActionReport) -> None:
    """Print a report on standard output."""
    out = console()
    out.print(Text(f"{report.action} {report.table}: {report.status}", style="bold"))
    out.print(Text(_heading(report)))
    _print_counts(out, report)
    _print_groups(out, report.groups)
    _print_reasons(out, report)
    _print_kept(out, report)
    if report.files:
        done = _DONE_TO_FILES.get(report.action, "looked at")
        out.print(Text(f"files {'to be ' if report.dry_run else ''}{done}:"))
    for path in report.files[:_SHOWN]:
        out.print(Text(path), soft_wrap=True)
    if len(report.files) > _SHOWN:
        out.print(Text(f"... and {counted(len(report.files) - _SHOWN, 'more file')} (--json lists all)"))
    for failure in report.failures[:_SHOWN]:
        out.print(Text(f"failed: {failure.file_path}: {failure.reason}", style="red"), soft_wrap=True)


def _heading(report: ActionReport) -> str:
    parts = [f"{step.name} {_took(step.duration_ms)}" + (f" ({step.detail})" if step.detail else "") for step in report.steps]
    if report.snapshot_ids:
        label = "snapshot" if len(report.snapshot_ids) == 1 else "snapshots"
        parts.append(f"{label} " + ", ".join(map(str, report.snapshot_ids)))
    if report.run_key is not None and not report.dry_run:
        parts.append(f"run key {report.run_key}")
    if report.lane_reason:
        parts.append(f"lane {report.lane} ({report.lane_reason})")
    return "; ".join(parts) or "nothing was done"


def _took(ms: int) -> str:
    """``8 ms``, ``1.9 s``, ``2 min 5 s``, ``3 h 10 min``: short, with two significant units at most."""
    if ms < 1000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1000:.1f} s"
    minutes, seconds = divmod(round(ms / 1000), 60)
    return f"{minutes} min {seconds} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _print_counts(console: Console, report: ActionReport) -> None:
    """Sizes before and after, or once if nothing changed; only counts that are not 0 (--json has all)."""
    if report.before is not None and report.after is not None:
        states = [report.before] if report.before == report.after or report.dry_run else [report.before, report.after]
        table = Table("", *(["table"] if len(states) == 1 else ["before", "after"]))
        for column in table.columns[1:]:
            column.justify = "right"
        for name in ("snapshots", "data_files", "delete_files", "manifests", "records", "bytes"):
            table.add_row(name.replace("_", " "), *(f"{_state_value(state, name):,}" for state in states))
        console.print(table)
    counts = {name: value for name, value in report.metrics.items() if value}
    if counts:
        metrics = Table(show_header=False)
        metrics.add_column()
        metrics.add_column(justify="right")
        for name, value in counts.items():
            metrics.add_row(Text(name), f"{value:,}")
        console.print(metrics)


def _state_value(state: TableState, name: str) -> Any:
    return getattr(state, name)


def _print_groups(console: Console, groups: list[GroupReport]) -> None:
    if not groups:
        return
    print_rows([_group(group) for group in groups[:_SHOWN]], title=counted(len(groups), "group"), empty="")
    if len(groups) > _SHOWN:
        console.print(Text(f"... and {counted(len(groups) - _SHOWN, 'more group')} (--json lists all)"))


def _group(group: GroupReport) -> dict[str, Any]:
    """Files and bytes in and out; the output files of a planned group are an estimate, and their bytes are not known."""
    certificate = group.certificate
    return {
        "partition": group.partition,
        "status": group.status,
        "files": f"{group.input_files:,} -> {group.output_files:,}",
        "rows": None if certificate is None else certificate.rows_out,
        "reason": group.reason,
        "bytes": f"{group.input_bytes:,}" + (f" -> {group.output_bytes:,}" if group.output_bytes else ""),
        "group": group.group_id,
    }


def _print_reasons(console: Console, report: ActionReport) -> None:
    """Files that are not rewritten, counted by reason."""
    for reason, count in Counter(skipped.reason for skipped in report.skipped).most_common(_SHOWN):
        console.print(Text(f"left alone: {counted(count, 'file')}: {reason}"), soft_wrap=True)


def _print_kept(console: Console, report: ActionReport) -> None:
    """Snapshots that stay, counted by reason, each with the newest one."""
    by_reason: dict[str, list[int]] = {}
    for kept in report.kept_snapshots:
        by_reason.setdefault(kept.reason, []).append(kept.snapshot_id)
    for reason, ids in list(by_reason.items())[-_SHOWN:]:
        newest = f"{'' if len(ids) == 1 else '..., '}{ids[-1]}"
        console.print(Text(f"kept: {counted(len(ids), 'snapshot')} ({newest}): {reason}"), soft_wrap=True)
