"""Where a report goes, and what it says of a failure; the same for every lane.

Whether it can be written, and whether it would take the place of data, is checked before the work begins; a place that is lost
meanwhile does not change how the job ended.

The report carries the job's id, so that whoever started the job can tell it from a report that was there before. No secret of the
job's catalogs is written, whatever a driver or a library puts into its message.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec.structs import replace

from iceberg_ops.actions.next_steps import next_step
from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import INTERRUPTED, ActionReport, ErrorReport, SkippedFile
from iceberg_ops.config.secrets import hide
from iceberg_ops.errors import IcebergOpsError, OptionError, UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.local import check_writable
from iceberg_ops.io.read_only import READ_ONLY
from iceberg_ops.table.file_kinds import LONGEST_MAGIC, has_metadata_name, kind_of_data
from iceberg_ops.table.own_folders import check_outside

log = logging.getLogger(__name__)

_READER_WITHIN_S = 5.0


def error_report(error: BaseException) -> ErrorReport:
    """Code, one-line message and next step of any exception; INTERNAL for one that is not of our tree, INTERRUPTED for a Ctrl-C
    that changed nothing."""
    if isinstance(error, KeyboardInterrupt) and not isinstance(error, IcebergOpsError):
        return ErrorReport(code=INTERRUPTED, message="stopped by the user", next_step=next_step(INTERRUPTED))
    code = error.code if isinstance(error, IcebergOpsError) else "INTERNAL"
    message = str(error) if isinstance(error, IcebergOpsError) else " ".join(f"{type(error).__name__}: {error}".split())
    return ErrorReport(code=code, message=message, next_step=next_step(code))


def check_report_place(job: JobSpec, catalog: Catalog | None = None) -> None:
    """Raise OptionError, before any work is done, where the report could not be written: the work would be done without one. Also
    where it would take the place of data or of table metadata, or lie in a folder of the job's table. ``catalog``: the job's own,
    where it is open."""
    if job.report is None:
        return
    place = job.report
    with _unwritable_is_refused(place):
        io = load_file_io(job.catalog.properties)
        path = io.local_path(place)
        if READ_ONLY in io.properties:
            raise UnsupportedError("the catalog is read-only, and so is its store")
        if path is not None and _is_special(path):
            if not os.access(path, os.W_OK):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return
        data = _kind_of_data(io, place)
    if data is not None:
        raise OptionError(f"report {place}: it would take the place of {data}; name another file; nothing was done")
    _check_is_foreign(job, place if path is None else os.path.realpath(path), catalog)
    if path is not None:
        with _unwritable_is_refused(place):
            check_writable(path)


@contextmanager
def _unwritable_is_refused(place: str) -> Iterator[None]:
    try:
        yield
    except (OSError, IcebergOpsError) as e:
        why = e.strerror if isinstance(e, OSError) and e.strerror else str(e)
        raise OptionError(f"report {place}: can not be written there: {why}; nothing was done") from e


def _kind_of_data(io: FileIO, place: str) -> str | None:
    """What is there, or would be by its name, where that belongs to a table: of any table, the job's source included."""
    if has_metadata_name(place) or not io.exists(place):
        return kind_of_data(place, b"")
    with io.open_input(place) as source:
        return kind_of_data(place, source.read(LONGEST_MAGIC))


def _check_is_foreign(job: JobSpec, place: str, catalog: Catalog | None) -> None:
    try:
        catalog = load_catalog(job.catalog) if catalog is None else catalog
        table = catalog.load_table(tuple(job.table.split(".")[1:]))
    except Exception as e:  # noqa: BLE001 - the job meets the same error, and that is the one to report
        log.debug("report %s: whether it lies in a folder of %s is not known: %s", place, job.table, e)
        return
    check_outside(table, place, f"report {job.report}")


def write_report(job: JobSpec, report: ActionReport) -> None:
    """Write the report to ``job.report``, where the job names one.

    Where that fails, the report is logged as an error: the work is done, or failed in its own way, and the report's place changes
    nothing about that."""
    if job.report is None:
        return
    data = to_json(without_secrets(job, replace(report, job_id=job.job_id)))
    try:
        _write(job, job.report, data)
    except (OSError, IcebergOpsError) as e:
        log.error(
            "%s %s: %s. The report can not be written to %s (%s); it says: %s",
            report.action, report.table, report.status, job.report, e, " ".join(data.decode().split()),
        )  # fmt: skip


def _write(job: JobSpec, place: str, data: bytes) -> None:
    io = load_file_io(job.catalog.properties)
    path = io.local_path(place)
    if path is not None and _is_special(path):
        # A rename would put a file in the place of the device or pipe.
        with open(_opened_soon(path), "wb") as out:
            out.write(data)
    else:
        io.write(place, data, overwrite=True)


def _opened_soon(path: str) -> int:
    """A device or pipe, opened for writing. Raises OSError for a pipe that has no reader for five seconds: the job is done, and
    must not wait for one."""
    until = time.monotonic() + _READER_WITHIN_S
    while True:
        try:
            number = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as e:
            if e.errno != errno.ENXIO or time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            os.set_blocking(number, True)
            return number


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
