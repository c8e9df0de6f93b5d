"""Reads the files that a table's metadata names: a missing file, or one that the system refuses to read, is a corrupt table.

A folder, a loop of links or missing permissions under a file's name are lasting errors. A temporary error (an I/O error, a
time-out) is a CatalogUnavailableError, and an exhausted resource of this machine is a MachineLimitError.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from iceberg_ops.errors import CatalogUnavailableError, CorruptTableError, IcebergOpsError, UnsupportedError
from iceberg_ops.io.file_io import FileIO
from iceberg_ops.io.machine_limits import PASSING, limit_error


def read_stored(io: FileIO, location: str, what: str) -> bytes:
    """The bytes of the file at ``location``; ``what`` is its kind (for example "manifest"). Raises CorruptTableError that names
    it."""
    with named_failures(location, what):
        return io.read(location)


def is_stored(io: FileIO, location: str, size: int) -> bool:
    """Whether a file of that size exists. A file in a store that ``io`` does not serve does not. Raises the errors of the store."""
    try:
        return io.exists(location) and io.length(location) == size
    except (FileNotFoundError, UnsupportedError):
        return False


@contextmanager
def named_failures(location: str, what: str = "file") -> Iterator[None]:
    """Within this context the file at ``location`` is opened or read: an OSError becomes a CorruptTableError that names it or, if
    it is not about the file, a MachineLimitError or CatalogUnavailableError."""
    try:
        yield
    except FileNotFoundError:
        raise CorruptTableError(f"{what} {location} does not exist") from None
    except OSError as e:
        raise read_failure(e, location, what) from e


def read_failure(error: OSError, location: str, what: str = "file") -> IcebergOpsError:
    """The error to raise for a system error about an existing file."""
    kind = CatalogUnavailableError if error.errno in PASSING else CorruptTableError
    return limit_error(error, location) or kind(f"{what} {location} cannot be read: {error_reason(error)}")


def error_reason(error: OSError) -> str:
    """The system's reason, without the location."""
    return error.strerror or (os.strerror(error.errno) if error.errno else str(error))
