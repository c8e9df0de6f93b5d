"""What became of a job: its report, or the typed error it ended with.

A report of status ``failed`` becomes the exception of the tree that its code names, so a retry policy can tell conflict from bad
input from unknown outcome. A job that ended without a report was killed or could not start: whether it committed is not known.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from iceberg_ops import errors
from iceberg_ops.config.document import from_json
from iceberg_ops.config.report import ActionReport, ErrorReport, TableState

NUMBERS = ("data_files", "delete_files", "bytes", "records", "snapshots")


class JobDiedError(errors.CommitStateUnknownError):
    """The job's process ended without writing a report; the message has its exit code and last line."""

    code = "JOB_DIED"


def read_report(path: Path, *, exit_code: int, last_line: str) -> ActionReport:
    """The report of a finished job. Raises what the report says; without one what the last line says, or JobDiedError."""
    if not path.is_file():
        stated = error_of_line(last_line)
        if stated is not None:
            raise stated
        said = f": {last_line}" if last_line else ""
        raise JobDiedError(f"the job ended with exit code {exit_code} and wrote no report{said}")
    report = from_json(path.read_bytes(), ActionReport, str(path))
    if report.error is not None or report.status == "failed":
        raise typed_error(report.error or ErrorReport(code="TERMINAL", message=f"{report.action} of {report.table} failed"))
    return report


def typed_error(error: ErrorReport) -> errors.IcebergOpsError:
    """The exception of the tree whose code this is; one unknown here (a newer engine's) is terminal."""
    kind = _CLASSES.get(error.code, errors.TerminalError)
    return kind(f"{error.message} (next: {error.next_step})" if error.next_step else error.message)


def error_of_line(line: str) -> errors.IcebergOpsError | None:
    """The typed error of a line ``error: CODE: message``, which is how our commands end when they fail; None for another line."""
    prefix, found, rest = line.strip().partition("error: ")
    code, separator, message = rest.partition(": ")
    return typed_error(ErrorReport(code=code, message=message)) if found and not prefix and separator else None


def summary(report: ActionReport, uri: str) -> dict[str, Any]:
    """What goes to XCom: where the report is, how it ended, and five numbers of the table afterwards."""
    state = report.after or report.before or TableState()
    numbers = {name.replace("_", "-"): getattr(state, name) for name in NUMBERS}
    return {"report": uri, "table": report.table, "action": report.action, "status": report.status, **numbers}


def narrate(report: ActionReport) -> Iterator[str]:
    """The report as log lines: what was found, done and proved, in reading order."""
    why = f": {report.lane_reason}" if report.lane_reason else ""
    took = f"{report.duration_ms / 1000:.1f} s (lane {report.lane}{why}, attempts {report.attempts})"
    yield f"{report.action} of {report.table}: {report.status} in {took}"
    for name, state in (("before", report.before), ("after", report.after)):
        if state is not None:
            yield f"{name}: " + ", ".join(f"{getattr(state, n):,} {n.replace('_', ' ')}" for n in NUMBERS)
    for step in report.steps:
        yield f"step {step.name}: {step.duration_ms} ms {step.detail}".rstrip()
    for name, value in sorted(report.metrics.items()):
        yield f"{name}: {value:,}"
    for group in report.groups[:20]:
        proof = f", rows {group.certificate.rows_in:,} -> {group.certificate.rows_out:,}" if group.certificate else ""
        files = f"{group.input_files} -> {group.output_files} files"
        yield f"group {group.partition or group.group_id}: {group.status}, {files}{proof} ({group.reason})"
    for failure in report.failures[:20]:
        yield f"failed: {failure.file_path}: {failure.reason}"


def _all_classes(root: type[errors.IcebergOpsError]) -> Iterator[type[errors.IcebergOpsError]]:
    yield root
    for child in root.__subclasses__():
        yield from _all_classes(child)


_CLASSES = {kind.code: kind for kind in reversed(list(_all_classes(errors.IcebergOpsError)))}
"""Where a subclass shares its base's code, the base is meant: a report does not say more."""
