"""The result of a job: its report, or the typed error with which it ended.

A report is accepted only if it belongs to this try: the same job id, run key, table and action. A report with status ``failed``
becomes the exception of its code, so a retry policy can distinguish conflict, bad input and unknown outcome. A
job that ended without such a report was killed or could not start: it is not known whether it committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import INTERRUPTED, ActionReport, ErrorReport, TableState
from iceberg_ops.config.secrets import hide
from iceberg_ops.errors import IcebergOpsError, InternalError, JobDiedError, OptionError, TerminalError, error_of_code, kind_of_code

NUMBERS = ("data_files", "delete_files", "bytes", "records", "snapshots")


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How a process ended: its exit code, 128 + n for signal n, and its last line of output."""

    exit_code: int
    last_line: str = ""

    @property
    def killed(self) -> bool:
        """Whether a signal ended it, for example for lack of memory: the exit code then says nothing about the work."""
        return self.exit_code < 0 or self.exit_code > 128


def read_report(path: Path, job: JobSpec, ended: ProcessEnd) -> ActionReport:
    """The report of a finished job. Raises the report's error; without a report the error of the last line, or JobDiedError."""
    if not path.is_file():
        stated = None if ended.killed else error_of_line(ended.last_line)
        if stated is not None:
            raise stated
        detail = f": {hide(ended.last_line, job.secrets())}" if ended.last_line else ""
        raise JobDiedError(f"the job ended with exit code {ended.exit_code} and wrote no report{detail}")
    try:
        report = from_json(path.read_bytes(), ActionReport, str(path))
    except OptionError as e:
        raise JobDiedError(f"the job ended with exit code {ended.exit_code} and its report cannot be read: {e}") from None
    _check_own(report, job)
    if report.error is not None and report.error.code == INTERRUPTED:
        raise JobDiedError(f"the job was interrupted by a signal: {report.error.message}")
    if report.error is not None or report.status == "failed":
        raise typed_error(report.error or ErrorReport(code=TerminalError.code, message=f"{report.action} of {report.table} failed"))
    return report


def _check_own(report: ActionReport, job: JobSpec) -> None:
    """Raise JobDiedError for another job's report. A dry run, or a job that had already been committed, may have no run key."""
    pairs = [
        ("table", report.table, job.table),
        ("action", report.action, job.job),
        ("run key", report.run_key or job.run_key, job.run_key),
        ("job id", report.job_id, job.job_id),
    ]
    for name, reported, asked in pairs:
        if reported != asked:
            raise JobDiedError(f"the report belongs to another job: its {name} is {reported!r}, this job's is {asked!r}")


def typed_error(error: ErrorReport) -> IcebergOpsError:
    """The exception class of this code; an unknown code (from a newer engine) is terminal."""
    return error_of_code(error.code, f"{error.message} (next: {error.next_step})" if error.next_step else error.message)


def error_of_line(line: str) -> IcebergOpsError | None:
    """The typed error of a line ``error: CODE: message``, with which our commands end when they fail; None for another line, and
    for a code outside the tree: INTERRUPTED, IO and INTERNAL do not show whether there were earlier commits."""
    prefix, marker, rest = line.strip().partition("error: ")
    code, separator, message = rest.partition(": ")
    kind = kind_of_code(code) if marker and not prefix and separator else None
    return None if kind is None or kind.error in (None, InternalError) else error_of_code(code, message)


def summary(report: ActionReport, uri: str) -> dict[str, Any]:
    """The XCom value: where the report is, how the job ended, and five numbers of the table afterwards."""
    state = report.after or report.before or TableState()
    numbers = {name.replace("_", "-"): getattr(state, name) for name in NUMBERS}
    return {"report": uri, "table": report.table, "action": report.action, "status": report.status, **numbers}


def narrate(report: ActionReport) -> Iterator[str]:
    """The report as log lines: what was found, done and verified, in reading order."""
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
