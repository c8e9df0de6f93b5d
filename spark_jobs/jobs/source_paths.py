"""Whether the files of a source are there, whole, and not the table's own (``data.source_folder``).

Looked at through Hadoop's file systems, because Spark reads the source by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from iceberg_ops.data.source_folder import TEMPORARY, OwnPlaces, RelativeName, check_holds_data, data_files_among
from iceberg_ops.errors import DataError
from iceberg_ops.table.table import Table


def check_paths(session: SparkSession, paths: Sequence[str], table: Table, *, require_success_file: bool) -> None:
    """Raise DataError for a path that is missing, empty, half written, or the table's own: also one that a pattern finds."""
    own = OwnPlaces(table)
    for path in paths:
        own.check_path(path)
        _check(session, path, own, require_success_file)


def _check(session: SparkSession, path: str, own: OwnPlaces, require_success_file: bool) -> None:
    jvm: Any = session._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    store = place.getFileSystem(session._jsc.sc().hadoopConfiguration())  # type: ignore[attr-defined]
    found = list(store.globStatus(place) or [])
    if not found:
        raise DataError(f"source {path}: there is no such path")
    data_files = 0
    for root in found:
        at = str(root.getPath())
        own.check_path(at)
        if root.isFile():
            data_files += 1
            continue
        below = data_files_among(path, _below(store, root.getPath()), require_success_file=require_success_file)
        for name in below:
            own.check_file(path, "/".join((at.rstrip("/"), *name)))
        data_files += len(below)
    check_holds_data(path, data_files)


def _below(store: Any, folder: Any) -> Iterator[RelativeName]:
    """Files below a folder, and ``_temporary`` folders, as the parts of their relative paths."""
    for status in store.listStatus(folder):
        name = str(status.getPath().getName())
        if status.isFile() or name == TEMPORARY:
            yield (name,)
        else:
            for rest in _below(store, status.getPath()):
                yield (name, *rest)
