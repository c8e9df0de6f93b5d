"""The source of a job while it is read: whether its rows can be read twice, and whether its files stayed as they were.

Spark lists the files of a source once and reads them later, some of them twice. A file that is replaced under its name meanwhile
would be read half old and half new, so files are looked at before and after, and nothing is committed where one has changed.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession

from iceberg_ops.errors import RetryableError
from spark_jobs.jobs.job_run import JobRun
from spark_jobs.jobs.repeatable import files_read, is_repeatable

Stamp = tuple[int, ...] | None
"""What tells a file from one that took its place: size, time of the last change and, on this machine, the inode. None: no file."""


class SourceState:
    """What is known of ``rows``, the source as Spark reads it, or what subqueries of a statement read, from now on."""

    def __init__(self, run: JobRun, rows: DataFrame, *, besides: Collection[str] = ()) -> None:
        """``besides``: files that never change, because they are the table's own."""
        self._run, self._rows = run, rows
        source = run.job.source
        self._is_pinned = source is not None and source.format == "table"
        paths = () if self._is_pinned else files_read(rows, run.pinned_rows)
        self._stamps = {path: _stamp(run.session, path) for path in paths if path not in besides}
        self._repeatable: bool | None = True if self._is_pinned else None

    def is_repeatable(self) -> bool:
        """Whether every evaluation of the source gives the same rows."""
        if self._repeatable is None:
            self._repeatable = is_repeatable(self._rows, self._run.pinned_rows)
        return self._repeatable

    def check_unchanged(self) -> None:
        """Raise RetryableError for a file that is no longer the one it was."""
        for path, stamp in self._stamps.items():
            if _stamp(self._run.session, path) != stamp:
                raise RetryableError(
                    f"source {path} was changed while it was read, so nothing was committed: run the job again when the file is "
                    "complete"
                )


def _stamp(session: SparkSession, path: str) -> Stamp:
    place = urlsplit(path)
    if place.scheme in ("", "file"):
        try:
            found = os.stat(unquote(place.path))
        except FileNotFoundError:
            return None
        return found.st_size, found.st_mtime_ns, found.st_ino
    jvm: Any = session._jvm
    where = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI.create(path))
    store = where.getFileSystem(session._jsc.sc().hadoopConfiguration())  # type: ignore[attr-defined]
    if not store.exists(where):
        return None
    status = store.getFileStatus(where)
    return int(status.getLen()), int(status.getModificationTime())
