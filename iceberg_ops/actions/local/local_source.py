"""The files of a source on this machine: which files they are, and whether they stay unchanged until their rows are read.

The state of a file is recorded before its footer is read, and checked after all rows are read. If another file replaced it in
between, only a part would be read, with the offsets of the old file's row groups. A folder or file that cannot be listed or read is
an error, and never a source without these rows. Paths of a source are paths on this machine: ``location-mapping``, which applies to
the table's own files, does not apply to them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from iceberg_ops.config.unicode_text import is_unicode
from iceberg_ops.data.sources.source_folder import (
    PATTERN,
    TEMPORARY,
    RelativeName,
    TableFolders,
    check_holds_data,
    data_files_among,
    is_hidden,
    read_twice,
)
from iceberg_ops.data.sources.source_parts import source_io
from iceberg_ops.errors import (
    CatalogUnavailableError,
    DataError,
    IcebergOpsError,
    NeedsSparkError,
    RetryableError,
    UnsupportedError,
)
from iceberg_ops.io.local import parse_local_path
from iceberg_ops.io.locations import location_identity
from iceberg_ops.io.machine_limits import PASSING, limit_error
from iceberg_ops.table.stored_files import error_reason
from iceberg_ops.table.table import Table

Stamp = tuple[int, int, int]
"""Distinguishes a file from one that replaced it: size, time of the last change in nanoseconds, inode."""


class LocalSource:
    """The files of a source of ``table``, from the first check on."""

    def __init__(self, table: Table, *, require_success_file: bool) -> None:
        self._own = TableFolders(table)
        self._require_success_file = require_success_file
        self._stamps: dict[str, Stamp] = {}
        self._named_files: set[str] = set()
        self.io = source_io()
        """The FileIO that reads the files."""

    def files(self, path: str) -> list[str]:
        """The files of rows at a source path. Raises the errors of ``size``, and UnsupportedError for values in folder names."""
        place, names = self._named(path)
        if folder := next((part for name in names for part in name[:-1] if "=" in part), None):
            raise NeedsSparkError.to(f"source {path} has values in folder names ({folder})")
        locations = sorted(str(place.joinpath(*name)) for name in names)
        with file_errors(path):
            self._stamps |= {location: _stamp(location) for location in locations}
        return locations

    def size(self, path: str) -> tuple[int, int]:
        """The number of files of rows at a source path, and their bytes.

        Raises DataError as described in ``data.source_folder`` and for unreadable files, RetryableError for a file that disappears
        in the meantime, and UnsupportedError for a path elsewhere, and for a link to a folder below it, which Hadoop follows and
        this process does not, because it may lead to a folder above itself."""
        place, names = self._named(path)
        with file_errors(path):
            return len(names), sum(_stamp(str(place.joinpath(*name)))[0] for name in names)

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Within this context the rows of the files are read. Raises RetryableError if one has changed since the first check, also
        instead of an error that this change may have caused."""
        try:
            yield
        except IcebergOpsError as e:
            self._check(e)
            raise
        self._check(None)

    def _check(self, cause: IcebergOpsError | None) -> None:
        for location, before in self._stamps.items():
            with file_errors(location):
                if _stamp(location) != before:
                    raise RetryableError(
                        f"source {location} was changed while it was read, so nothing was committed: run the job again when the "
                        "file is complete"
                    ) from cause

    def _named(self, path: str) -> tuple[Path, list[RelativeName]]:
        """The folder, and the names of files below it."""
        with file_errors(path):
            place = _local_path(path)
            self._own.check_path(path)
            if place.is_file():
                self._check_named_once(place.parent, [(place.name,)])
                return place.parent, [(place.name,)]
            if not place.is_dir():
                if not PATTERN.isdisjoint(path):
                    raise NeedsSparkError.to(f"source {path}, a pattern: name the paths instead")
                raise DataError(f"source {path}: there is no such path")
            data = data_files_among(path, _below(path, place), require_success_file=self._require_success_file)
            check_holds_data(path, len(data))
            for name in data:
                _check_text(path, "/".join(name))
                self._own.check_file(path, str(place.joinpath(*name)))
            self._check_named_once(place, data)
            return place, data

    def _check_named_once(self, place: Path, names: list[RelativeName]) -> None:
        for location in (str(place.joinpath(*name)) for name in names):
            if (real := os.path.realpath(location)) in self._named_files:
                raise DataError(read_twice(location))
            self._named_files.add(real)


def _local_path(path: str) -> Path:
    """The path on this machine that a source path names. A path on another machine or in another store is a different place, even
    if the same path exists here."""
    of_files = path[:5].lower() == "file:"
    try:
        return Path(location_identity(parse_local_path("file:" + path[5:] if of_files else path)))
    except UnsupportedError:
        raise NeedsSparkError.to(f"source {path} is not on this machine") from None


def _below(path: str, place: Path) -> Iterator[RelativeName]:
    """Files, and ``_temporary`` folders, by their names below ``place``. Hidden links are not data, whatever they lead to."""

    def refuse(error: OSError) -> None:
        raise error

    for folder, folders, files in os.walk(place, onerror=refuse):
        below = Path(folder).relative_to(place).parts
        for name in sorted(folders):
            if (link := Path(folder, name)).is_symlink() and not is_hidden((*below, name)):
                raise _link(path, link, "to a folder")
            if name == TEMPORARY:
                yield (*below, name)
        for name in sorted(files):
            if (link := Path(folder, name)).is_symlink() and not link.is_file():
                if is_hidden((*below, name)):
                    continue
                raise _link(path, link, "that leads nowhere")
            if stat.S_ISREG(os.stat(link).st_mode):
                yield (*below, name)


def _check_text(path: str, name: str) -> None:
    """Prevents names that a reader or a report cannot represent."""
    if not is_unicode(name):
        raise DataError(f"source {path}: the name of the file {name!a} in it is not UTF-8: rename it")


def _link(path: str, link: Path, what: str) -> NeedsSparkError:
    return NeedsSparkError.to(f"source {path} holds the link {link} {what}: name its target as a path of the source instead")


def _stamp(location: str) -> Stamp:
    status = os.stat(location)
    return status.st_size, status.st_mtime_ns, status.st_ino


@contextmanager
def file_errors(path: str) -> Iterator[None]:
    """Wraps system calls for files at ``path``. Raises RetryableError for a file that disappears, DataError for one that cannot be
    read, CatalogUnavailableError or MachineLimitError for temporary failures."""
    try:
        yield
    except FileNotFoundError as e:
        raise RetryableError(
            f"source {path}: {e.filename} was deleted while it was read, so nothing was committed: run the job again when the "
            "files are complete"
        ) from e
    except OSError as e:
        kind = CatalogUnavailableError if e.errno in PASSING else DataError
        raise limit_error(e, path) or kind(f"source {path}: {e.filename or path} cannot be read: {error_reason(e)}") from e
