"""Where a report goes, and what it says of a failure; the same for every lane.

The report carries the job's id, so that whoever started the job can tell it from a report that was there before. No secret of the
job's catalogs is written, whatever a driver or a library puts into its message.
"""

from __future__ import annotations

import os
import stat

from msgspec.structs import replace

from iceberg_ops.actions.next_steps import next_step
from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ActionReport, ErrorReport, SkippedFile
from iceberg_ops.config.secrets import hide
from iceberg_ops.errors import IcebergOpsError
from iceberg_ops.io.load import load_file_io


def error_report(error: BaseException) -> ErrorReport:
    """Code, one-line message and next step of any exception; INTERNAL for one that is not of our tree."""
    code = error.code if isinstance(error, IcebergOpsError) else "INTERNAL"
    message = str(error) if isinstance(error, IcebergOpsError) else " ".join(f"{type(error).__name__}: {error}".split())
    return ErrorReport(code=code, message=message, next_step=next_step(code))


def write_report(job: JobSpec, report: ActionReport) -> None:
    """Write the report to ``job.report``, where the job names one."""
    if job.report is None:
        return
    data = to_json(without_secrets(job, replace(report, job_id=job.job_id)))
    io = load_file_io(job.catalog.properties)
    path = io.local_path(job.report)
    if path is not None and _is_special(path):
        # A rename would put a file in the place of the device or pipe.
        with open(path, "wb") as out:
            out.write(data)
    else:
        io.write(job.report, data, overwrite=True)


def without_secrets(job: JobSpec, report: ActionReport) -> ActionReport:
    """The report with the secrets of the job's catalogs hidden in its error and its failures."""
    secrets, error = job.secrets(), report.error
    return replace(
        report,
        error=None if error is None else replace(error, message=hide(error.message, secrets)),
        failures=[SkippedFile(file_path=f.file_path, reason=hide(f.reason, secrets)) for f in report.failures],
    )


def _is_special(path: str) -> bool:
    """Whether there is a device or pipe, ``/dev/stdout`` say."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
