"""Where a report is written, and what it says about a failure; the same for every lane.

Before the work begins, two things are checked: the report can be written, and it would replace nothing but an earlier report. If
the place is lost during the work, the result of the job does not change. Links are followed; open files, devices and pipes are
written in place.

The report carries the job's id, so that the caller can distinguish it from an earlier report. No secret of the job's catalogs or
its source is written, even if a driver or a library puts one into its message.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import INTERRUPTED, ActionReport, ErrorReport, SkippedFile, is_report
from iceberg_ops.config.secrets import hide, hide_in_path
from iceberg_ops.errors import (
    IcebergOpsError,
    InternalError,
    OptionError,
    UnsupportedError,
    next_step,
    next_step_after,
)
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.local import check_writable
from iceberg_ops.io.mapped import LOCATION_MAPPING
from iceberg_ops.io.output_places import OutputPlace, check_stream, open_descriptor, output_place, replaced
from iceberg_ops.io.read_only import READ_ONLY
from iceberg_ops.table.file_kinds import LONGEST_MAGIC, has_metadata_name, kind_of_data
from iceberg_ops.table.own_folders import check_outside

log = logging.getLogger(__name__)

_READER_WITHIN_S = 5.0
_LARGEST_REPORT = 512 * 2**20
"""Bytes; a larger file is taken for data. A report of 100,000 file groups has 50 MB."""


def error_report(error: BaseException) -> ErrorReport:
    """Code, one-line message and next step of any exception; INTERNAL for one outside our tree, INTERRUPTED for a Ctrl-C
    or an end of the process that changed nothing."""
    if isinstance(error, SystemExit):
        return ErrorReport(code=INTERRUPTED, message="the process was told to end", next_step=next_step(INTERRUPTED))
    if isinstance(error, KeyboardInterrupt) and not isinstance(error, IcebergOpsError):
        return ErrorReport(code=INTERRUPTED, message="stopped by the user", next_step=next_step(INTERRUPTED))
    if isinstance(error, IcebergOpsError):
        return ErrorReport(code=error.code, message=str(error), next_step=next_step_after(error))
    message = " ".join(f"{type(error).__name__}: {error}".split())
    return ErrorReport(code=InternalError.code, message=message, next_step=next_step(InternalError.code))


def check_report_place(job: JobSpec, catalog: Catalog | None = None) -> None:
    """Raise OptionError, before any work is done, if the report could not be written, because the work would have no report. Also
    if it would replace any file but an earlier report or an empty file, or lie in a folder of the job's table. ``catalog``: the
    job's own, if it is open."""
    if job.report is None:
        return
    place = job.report
    with _unwritable_is_refused(place):
        io = _report_store(job)
        target, leads = _leads_to(io, place)
        if READ_ONLY in io.properties:
            raise UnsupportedError("the catalog is read-only, and so is its store")
        if leads is not None and leads.is_stream:
            check_stream(leads)
            if not leads.is_file:
                return
        other = _what_else_is_there(io, target, leads)
    if other is not None:
        raise OptionError(f"report {place}: it would replace {other}: name another file; nothing was done")
    _check_is_foreign(job, target, catalog)
    if leads is not None and not leads.is_stream:
        with _unwritable_is_refused(place):
            check_writable(target)


def _report_store(job: JobSpec) -> FileIO:
    """The store of the job's catalog. A report's path is used as it is: ``location-mapping`` applies only to recorded locations."""
    return load_file_io({key: value for key, value in job.catalog.properties.items() if key != LOCATION_MAPPING})


def _leads_to(io: FileIO, place: str) -> tuple[str, OutputPlace | None]:
    """The location to write to, without symbolic links; for a local file also the existing file. Raises OSError."""
    path = io.local_path(place)
    if path is None:
        return place, None
    leads = output_place(path)
    return leads.path, leads


@contextmanager
def _unwritable_is_refused(place: str) -> Iterator[None]:
    try:
        yield
    except (OSError, IcebergOpsError) as e:
        why = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise OptionError(f"report {place}: cannot be written there: {why}; nothing was done") from e


def _what_else_is_there(io: FileIO, target: str, leads: OutputPlace | None) -> str | None:
    """What a report must not replace: every file but an earlier report and an empty file. A stream is appended to, which only harms
    files of tables. None for a free place."""
    if has_metadata_name(target) or not io.exists(target):
        return kind_of_data(target, b"")
    size = io.length(target)
    with io.open_input(target) as source:
        data = source.read(LONGEST_MAGIC)
        if (kind := kind_of_data(target, data)) is not None:
            return kind
        if not data or (leads is not None and leads.is_stream):
            return None
        # Other documents and data are not read to the end if their beginning or their size is enough.
        if data.lstrip().startswith(b"{") and size <= _LARGEST_REPORT and is_report(data + source.read()):
            return None
    return "a file that is not a report"


def _check_is_foreign(job: JobSpec, place: str, catalog: Catalog | None) -> None:
    try:
        catalog = load_catalog(job.catalog) if catalog is None else catalog
        table = catalog.load_table(job.identifier)
    except Exception as e:  # noqa: BLE001 - the job meets the same error, and that is the one to report
        log.debug("report %s: it is not known whether it is in a folder of %s: %s", place, job.table, e)
        return
    check_outside(table, place, f"report {job.report}")


def write_report(job: JobSpec, report: ActionReport) -> None:
    """Write the report to ``job.report``, if the job names a place.

    If that fails, the report is logged as an error: the work is done, or failed with its own error, and a lost report does not
    change that."""
    if job.report is None:
        return
    data = to_json(without_secrets(job, replace(report, job_id=job.job_id)))
    try:
        _write(job, job.report, data)
    except (OSError, IcebergOpsError) as e:
        log.error(
            "%s %s: %s. The report cannot be written to %s (%s); it says: %s",
            report.action, report.table, report.status, job.report, e, " ".join(data.decode().split()),
        )  # fmt: skip


def _write(job: JobSpec, place: str, data: bytes) -> None:
    io = _report_store(job)
    target, leads = _leads_to(io, place)
    if leads is not None and leads.is_stream:
        # A rename would replace the device or pipe, or a file that others continue to write to, by a new file.
        number = leads.descriptor
        with open(_opened_soon(target), "wb") if number is None else open_descriptor(number) as out:
            out.write(data)
        return
    if (other := _what_else_is_there(io, target, leads)) is not None:  # created while the job worked
        raise OptionError(f"it would replace {other}")
    if leads is None:
        io.write(target, data, overwrite=True)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with replaced(target) as out:
        out.write(data)


def _opened_soon(path: str) -> int:
    """A device or pipe, opened for writing. Raises OSError for a pipe that has no reader for five seconds: the job is done, and
    must not wait for one."""
    until = time.monotonic() + _READER_WITHIN_S
    while True:
        try:
            number = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_APPEND)
        except OSError as e:
            if e.errno != errno.ENXIO or time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            os.set_blocking(number, True)
            return number


def without_secrets(job: JobSpec, report: ActionReport) -> ActionReport:
    """The report with the job's secrets hidden in all texts that may come from drivers, libraries and locations."""
    secrets, error = job.secrets(), report.error

    def files(skipped: list[SkippedFile]) -> list[SkippedFile]:
        return [SkippedFile(file_path=hide_in_path(f.file_path, secrets), reason=hide(f.reason, secrets)) for f in skipped]

    return replace(
        report,
        error=None if error is None else replace(error, message=hide(error.message, secrets)),
        steps=[replace(step, detail=hide(step.detail, secrets)) for step in report.steps],
        groups=[replace(group, reason=hide(group.reason, secrets)) for group in report.groups],
        skipped=files(report.skipped),
        kept_snapshots=[replace(kept, reason=hide(kept.reason, secrets)) for kept in report.kept_snapshots],
        files=[hide_in_path(path, secrets) for path in report.files],
        failures=files(report.failures),
    )
