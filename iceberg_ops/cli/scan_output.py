"""Where ``scan -o FILE`` writes: beside FILE, which it takes the place of once it is whole, and never over a file of a table. An
open file of this process (``/dev/stdout``), a device or a pipe is written to where it is.

Refused are files in a folder of the table, files that any of its snapshots or its metadata records wherever they lie, and files of
the formats that tables consist of, which may be any table's: also a Parquet file that a scan wrote, because a table may have taken
it in since (``add_files``).
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO

from iceberg_ops.cli.standard_output import stop_without_reader
from iceberg_ops.errors import OptionError
from iceberg_ops.io.output_places import STANDARD_OUTPUT, check_stream, open_descriptor, output_place, replaced

if TYPE_CHECKING:
    from iceberg_ops.table.table import Table


def check_output(table: Table, output: str) -> None:
    """Raise OptionError where ``output`` would take the place of a file of ``table``, or perhaps of another one."""
    from iceberg_ops.table.file_kinds import kind_of_data
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
    begin = b""
    with suppress(FileNotFoundError), open(place, "rb") as source:
        begin = source.read(16)
    kind = kind_of_data(place, begin)
    if kind is not None:
        raise OptionError(
            f"-o {output}: it would take the place of {kind} that may be a table's: name another file, or delete this one first"
        )


def _is_recorded(table: Table, place: str) -> bool:
    """Whether the table refers to the file, by whatever path or link. Manifests are read only where there is such a file."""
    from iceberg_ops.table.reachable import recorded_locations

    try:
        there = os.stat(place)
    except FileNotFoundError:
        return False
    for location in recorded_locations(table):
        path = table.io.local_path(location)
        with suppress(OSError):  # a file that is gone is not the one that is there
            if path is not None and os.path.samestat(there, os.stat(path)):
                return True
    return False


@contextmanager
def opened(output: str | None) -> Iterator[BinaryIO]:
    """The file to write to; None is standard output, as is a path that leads there. What fails leaves an earlier file as it was."""
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
