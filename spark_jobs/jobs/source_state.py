"""The source of a job during reading: whether its rows can be read twice, and whether its files stay unchanged.

Spark lists the files of a source once and reads them later, some of them twice. A file that is replaced under its name in between
would be read up to its old size, or half old and half new. So files must be as Spark listed them (``source_files``) before they are
read and afterwards, and nothing is committed if one has changed.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from iceberg_ops.errors import RetryableError
from spark_jobs.jobs.repeatable import is_repeatable
from spark_jobs.jobs.source_files import ListedFile, listed_files, local_path, refuse_field_ids
from spark_jobs.jobs.spark_run import SparkRun

Stamp = tuple[int, ...] | None
"""Distinguishes a file from one that replaced it: size, time of the last change in milliseconds, and for a file of this machine the
nanoseconds and the inode. None: no file."""


class SourceState:
    """The state of the files of ``rows``, the source as Spark reads it or the subqueries of a statement, from now on."""

    def __init__(self, run: SparkRun, rows: DataFrame, *, besides: Collection[str] | None = None) -> None:
        """``besides``: local files that never change, because they are the table's own; ``rows`` are then those of a whole
        statement, and not of its source alone.

        Raises RetryableError for a file that is no longer as Spark listed it."""
        self._run, self._rows = run, rows
        source = run.job.source
        self._is_pinned = besides is None and source is not None and source.format == "table"
        if not self._is_pinned:
            refuse_field_ids(rows, run.pinned_rows)
        excluded = {_place(path) for path in besides or ()}
        if besides is not None:
            excluded |= {_place(f.path) for pinned in run.pinned_rows for f in listed_files(pinned)}
        files_read = () if self._is_pinned else listed_files(rows, run.pinned_rows)
        files = [f for f in files_read if _place(f.path) not in excluded]
        self._stamps = {f.path: _stamp(run.session, f.path) for f in files}
        for file in files:
            _check_as_listed(file, self._stamps[file.path])
        is_text = source is not None and source.format in ("csv", "json")  # every evaluation parses the same text in the same way
        self._repeatable: bool | None = True if self._is_pinned or is_text else None

    def is_repeatable(self) -> bool:
        """Whether every evaluation of the source gives the same rows."""
        if self._repeatable is None:
            self._repeatable = is_repeatable(self._rows, self._run.pinned_rows)
        return self._repeatable

    def check_unchanged(self) -> None:
        """Raise RetryableError for a file that has been replaced or changed."""
        for path, stamp in self._stamps.items():
            if _stamp(self._run.session, path) != stamp:
                raise RetryableError(
                    f"source {path} was changed while it was read, so nothing was committed: run the job again when the file is "
                    "complete"
                )


def check_listed_alike(first: DataFrame, rows: DataFrame) -> None:
    """Raise RetryableError for a file of ``rows`` that ``first``, an earlier read of the same source, lists differently: the
    results of the first read are no longer valid for it."""
    before = {f.path: f for f in listed_files(first)}
    for file in listed_files(rows):
        if before.get(file.path) != file:
            raise _changed_since_listed(file.path)


def check_as_listed(rows: DataFrame) -> None:
    """Raise RetryableError for a file of ``rows`` that is no longer as Spark listed it."""
    for file in listed_files(rows):
        _check_as_listed(file, _stamp(rows.sparkSession, file.path))


def _check_as_listed(file: ListedFile, stamp: Stamp) -> None:
    if file.size is not None and (stamp is None or stamp[:2] != (file.size, file.modified_ms)):
        raise _changed_since_listed(file.path)


def _changed_since_listed(path: str) -> RetryableError:
    return RetryableError(
        f"source {path} was changed after Spark listed it, so nothing was committed: run the job again when the file is complete "
        "(a view or cache of the program that reads it must be made again first)"
    )


def _place(path: str) -> str:
    return local_path(path) or path


def _stamp(session: SparkSession, path: str) -> Stamp:
    if (local := local_path(path)) is not None:
        try:
            local_status = os.stat(local)
        except FileNotFoundError:
            return None
        return local_status.st_size, local_status.st_mtime_ns // 1_000_000, local_status.st_mtime_ns, local_status.st_ino
    jvm: Any = session._jvm
    where = jvm.org.apache.hadoop.fs.Path(jvm.java.net.URI.create(path))
    store = where.getFileSystem(session._jsc.sc().hadoopConfiguration())
    if not store.exists(where):
        return None
    status = store.getFileStatus(where)
    return int(status.getLen()), int(status.getModificationTime())
