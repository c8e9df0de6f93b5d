"""Where a report goes, and what it says of a failure; the same for every lane."""

from __future__ import annotations

from iceberg_ops.actions.next_steps import next_step
from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ActionReport, ErrorReport
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.io.load import load_file_io


def error_report(error: BaseException) -> ErrorReport:
    """Code, one-line message and next step of any exception; INTERNAL for one that is not of our tree."""
    code = error.code if isinstance(error, IcebergOpsError) else "INTERNAL"
    message = str(error) if isinstance(error, IcebergOpsError) else " ".join(f"{type(error).__name__}: {error}".split())
    return ErrorReport(code=code, message=message, next_step=next_step(code))


def write_report(job: JobSpec, report: ActionReport) -> None:
    """Write the report to ``job.report``, where the job names one."""
    if job.report is not None:
        load_file_io(job.catalog.properties).write(job.report, to_json(report), overwrite=True)
