"""Whether the files of a source are there, whole, and not the table's own (``data.source_folder``).

Looked at through Hadoop's file systems, because Spark reads the source by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from iceberg_ops.data.source_folder import TEMPORARY, RelativeName, check_holds_data, check_is_foreign, data_files_among
from iceberg_ops.errors import DataError


def check_paths(session: SparkSession, paths: Sequence[str], own_folders: Sequence[str], *, require_success_file: bool) -> None:
    """Raise DataError for a path that is missing, empty, half written, or the table's own."""
    for path in paths:
        check_is_foreign(path, own_folders)
        _check(session, path, require_success_file)


def _check(session: SparkSession, path: str, require_success_file: bool) -> None:
    jvm: Any = session._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    store = place.getFileSystem(session._jsc.sc().hadoopConfiguration())  # type: ignore[attr-defined]
    found = list(store.globStatus(place) or [])
    if not found:
        raise DataError(f"source {path}: there is no such path")
    data_files = 0
    for root in found:
        if root.isFile():
            data_files += 1
        else:
            below = _below(store, root.getPath())
            data_files += len(data_files_among(path, below, require_success_file=require_success_file))
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
