"""Whether the files of a source are there, whole, and not the table's own.

Looked at through Hadoop's file systems, because Spark reads the source by them. Rules: a path without a single data file is an
error (Spark writes at least one for an empty result, too); a ``_temporary`` folder means that a writer is
at work or died; a missing ``_SUCCESS`` is one only where option ``require-success-file`` says so, because many writers make none.
Files whose names start with ``_`` or ``.`` are not data, as in Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from iceberg_ops.errors import DataError
from iceberg_ops.io.locations import location_identity

SUCCESS, TEMPORARY = "_SUCCESS", "_temporary"


def check_paths(session: SparkSession, paths: Sequence[str], table_location: str, *, require_success_file: bool) -> None:
    """Raise DataError for a path that is missing, empty, half written, or inside the table's own location."""
    own = location_identity(table_location).rstrip("/") + "/"
    for path in paths:
        if (location_identity(path).rstrip("/") + "/").startswith(own):
            raise DataError(
                f"source {path} lies inside the table's own location {table_location}: its files hold deleted rows too "
                "(read the table instead: source format table, or the view target)"
            )
        _check(session, path, require_success_file)


def _check(session: SparkSession, path: str, require_success_file: bool) -> None:
    jvm: Any = session._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    store = place.getFileSystem(session._jsc.sc().hadoopConfiguration())  # type: ignore[attr-defined]
    found = list(store.globStatus(place) or [])
    if not found:
        raise DataError(f"source {path}: there is no such path")
    data_files, succeeded = 0, False
    for root in found:
        if root.isFile():
            data_files += 1
            continue
        for relative in _below(store, root.getPath()):
            if TEMPORARY in relative:
                raise DataError(f"source {path} is half written: it holds {'/'.join(relative)}; its writer is at work, or died")
            if relative == (SUCCESS,):
                succeeded = True
            data_files += all(not part.startswith(("_", ".")) or "=" in part for part in relative)
        if require_success_file and not succeeded:
            raise DataError(f"source {path} is half written: it has no {SUCCESS} (require-success-file = true)")
    if not data_files:
        raise DataError(f"source {path} is empty: it holds no data file")


def _below(store: Any, folder: Any) -> Iterator[tuple[str, ...]]:
    """Files below a folder, and ``_temporary`` folders, as the parts of their relative paths."""
    for status in store.listStatus(folder):
        name = str(status.getPath().getName())
        if status.isFile() or name == TEMPORARY:
            yield (name,)
        else:
            for rest in _below(store, status.getPath()):
                yield (name, *rest)
