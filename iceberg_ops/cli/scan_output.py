"""Where ``scan -o FILE`` writes: to a file beside FILE, which replaces FILE when it is complete, and never over a file of a table.
An open file of this process (``/dev/stdout``), a device or a pipe is written in place.

Refused are files in a folder of the table, files that any of its snapshots or its metadata records, in whatever folder, and the
configuration files of the catalogs. Without ``--overwrite``, files in the formats of tables are refused as well, because they
may belong to any table: even a Parquet file that a scan wrote, because a table may have imported it since (``add_files``).
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from iceberg_ops.cli.standard_output import stop_without_reader
from iceberg_ops.errors import OptionError
from iceberg_ops.io.output_places import STANDARD_OUTPUT, check_stream, open_descriptor, output_place, replaced

if TYPE_CHECKING:
    from iceberg_ops.table.table import Table


def check_output(table: Table, output: str, *, overwrite: bool = False) -> None:
    """Raise OptionError if ``output`` would replace a file of ``table`` or of its catalog, or perhaps of another table;
    ``overwrite``: the user confirms that the file does not belong to another table."""
    from iceberg_ops.table.file_kinds import kind_of_data, kind_of_file
    from iceberg_ops.table.own_folders import check_outside

    leads = output_place(output)
    place = leads.path
    check_outside(table, place, f"-o {output}")
    if leads.is_stream:
        check_stream(leads)
        if not leads.is_file:
            return
    if os.path.isdir(place):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), output)
    if _is_recorded(table, place):
        raise OptionError(f"-o {output}: table {table.name} refers to this file: write it elsewhere")
    if _is_among(place, _files_of_catalogs()):
        raise OptionError(f"-o {output}: the catalogs are read from this file: write it elsewhere")
    if overwrite and not leads.is_stream:
        return
    try:
        with open(place, "rb") as source:
            kind = kind_of_file(place, source)
    except FileNotFoundError:
        kind = kind_of_data(place, b"")
    if kind is not None and leads.is_stream:
        raise OptionError(f"-o {output}: it would be added to {kind} that may belong to a table: write it elsewhere")
    if kind is not None:
        raise OptionError(
            f"-o {output}: it would replace {kind} that may belong to a table: name another file, or replace this one with "
            "--overwrite"
        )


def _is_recorded(table: Table, place: str) -> bool:
    """Whether the table refers to the file, by any path or link. Manifests are read only if such a file exists."""
    from iceberg_ops.table.reachable import recorded_locations

    return _is_among(place, (table.io.local_path(location) for location in recorded_locations(table)))


def _files_of_catalogs() -> Iterator[str]:
    """The files that configure the catalogs, and the SQLite databases among them."""
    from iceberg_ops.catalog.configuration import CATALOGS_VARIABLE, DEFAULT_FILE, configuration_files, read_catalogs

    yield os.environ.get(CATALOGS_VARIABLE) or DEFAULT_FILE
    try:
        yield from map(str, configuration_files())
        known = read_catalogs()
    except OptionError:  # a table that is given by its path needs no catalogs
        return
    for config in known:
        scheme, _, database = config.properties.get("uri", "").partition(":///")
        if scheme.partition("+")[0] == "sqlite":
            yield database.partition("?")[0].removeprefix("file:")


def _is_among(place: str, paths: Iterable[str | None]) -> bool:
    """Whether the local file at ``place`` is one of ``paths``, by any link; ``paths`` are not resolved if the file is missing."""
    try:
        there = os.stat(place)
    except FileNotFoundError:
        return False
    for path in paths:
        with suppress(OSError):  # a missing file cannot be the existing one
            if path is not None and os.path.samestat(there, os.stat(path)):
                return True
    return False


@contextmanager
def opened(output: str | None) -> Iterator[BinaryIO]:
    """The file to write to; None is standard output, as is a path that leads to it. After a failure an earlier file is
    unchanged."""
    if output is None or output_place(output).descriptor == STANDARD_OUTPUT:
        stop_without_reader()
        stream = sys.stdout.buffer
        yield stream
        stream.flush()
        return
    place = output_place(output)
    if place.is_stream:
        with open(place.path, "ab") if place.descriptor is None else open_descriptor(place.descriptor) as sink:
            yield sink
        return
    with replaced(place.path) as sink:
        yield sink
