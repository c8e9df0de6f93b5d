"""Checks that the files of a source exist, are complete, are not the table's own, and are all read by Spark
(``data.source_folder``).

It uses Hadoop's file systems, because Spark reads the source through them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from iceberg_ops.data.sources.source_folder import (
    PATTERN,
    TEMPORARY,
    RelativeName,
    TableFolders,
    check_all_are_read,
    check_holds_data,
    data_files_among,
)
from iceberg_ops.errors import DataError
from iceberg_ops.io.locations import location_identity
from iceberg_ops.table.table import Table


def check_paths(
    session: SparkSession,
    paths: Sequence[str],
    table: Table,
    *,
    require_success_file: bool,
    options: Mapping[str, str] | None = None,
) -> None:
    """Raise DataError for a path that is missing, empty, half written, or the table's own (also one that a pattern finds), or for
    which Spark would skip files.

    ``options`` are those of the reader."""
    places = TableFolders(table)
    below_base: list[RelativeName] = []
    given = {name.lower(): value for name, value in (options or {}).items()}
    reads_all = given.get("recursivefilelookup", "false").lower() == "true"
    for path in paths:
        places.check_path(path)
        for root, names in _roots(session, path, places, require_success_file):
            asked = _asked_for(session, names, given.get("pathglobfilter"))
            if (base := given.get("basepath")) is not None:
                below_base += [(*_between(base, root), *name) for name in asked]
            elif not reads_all:
                check_all_are_read(path, asked)
    if not reads_all:
        check_all_are_read(given.get("basepath", ""), below_base)


def _roots(
    session: SparkSession, path: str, places: TableFolders, require_success_file: bool
) -> list[tuple[str, list[RelativeName]]]:
    """The folders of a path (several for a pattern), each with the names of its data files."""
    jvm: Any = session._jvm
    place = jvm.org.apache.hadoop.fs.Path(path)
    store = place.getFileSystem(session._jsc.sc().hadoopConfiguration())
    statuses = list(store.globStatus(place) or [])
    if not PATTERN.isdisjoint(path) and store.exists(place):
        _check_finds_itself(path, str(store.getFileStatus(place).getPath()), [str(status.getPath()) for status in statuses])
    if not statuses:
        raise DataError(f"source {path}: there is no such path")
    roots: list[tuple[str, list[RelativeName]]] = []
    for root in statuses:
        where = root.getPath()
        places.check_path(str(where))
        if root.isFile():
            roots.append((str(where.getParent()), [(str(where.getName()),)]))
            continue
        names = data_files_among(path, _below(store, where), require_success_file=require_success_file)
        for name in names:
            places.check_file(path, "/".join((str(where).rstrip("/"), *name)))
        roots.append((str(where), names))
    check_holds_data(path, sum(len(names) for _, names in roots))
    return roots


def _check_finds_itself(path: str, itself: str, matches: list[str]) -> None:
    """Prevents reading rows of other files instead of those at ``path``, which lane local would read."""
    if itself not in matches:
        raise DataError(
            f"source {path}: it exists, and Spark takes it for a pattern that does not find it: write \\ before each of its "
            f"characters {' '.join(sorted(PATTERN & set(path)))}, or run it with --lane local"
        )


def _asked_for(session: SparkSession, names: list[RelativeName], pattern: str | None) -> list[RelativeName]:
    """Those whose names match the reader option ``pathGlobFilter``."""
    if pattern is None:
        return names
    jvm: Any = session._jvm
    accepted = jvm.org.apache.hadoop.fs.GlobFilter(pattern)
    return [name for name in names if accepted.accept(jvm.org.apache.hadoop.fs.Path(None, None, f"/{name[-1]}"))]


def _between(base: str, root: str) -> RelativeName:
    """The folders from ``base`` down to ``root``."""
    above, below = location_identity(base).rstrip("/") + "/", location_identity(root).rstrip("/") + "/"
    return tuple(part for part in below.removeprefix(above).split("/") if part) if below.startswith(above) else ()


def _below(store: Any, folder: Any) -> Iterator[RelativeName]:
    """Files below a folder, and ``_temporary`` folders, as the parts of their relative paths."""
    for status in store.listStatus(folder):
        name = str(status.getPath().getName())
        if status.isFile() or name == TEMPORARY:
            yield (name,)
        else:
            for rest in _below(store, status.getPath()):
                yield (name, *rest)
