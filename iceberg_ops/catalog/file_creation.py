"""Creates a file once in a store that may not answer. The result is: the file exists, it does not exist, or this is unknown.

A name can be taken only once. So after a failure without an answer it is safe to write the same bytes again, and the file that is
then found under the name shows the result."""

from __future__ import annotations

import errno
import logging
from collections.abc import Callable
from dataclasses import dataclass

from iceberg_ops.catalog.base import attempts
from iceberg_ops.errors import (
    BadInputError,
    CatalogUnavailableError,
    CommitFailedError,
    CommitStateUnknownError,
    IcebergOpsError,
    TerminalError,
)
from iceberg_ops.io.file_io import FileIO, RefusedForNowError

log = logging.getLogger(__name__)

CREATE_ATTEMPTS = 4
_REFUSED_FOR_NOW = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EMFILE, errno.ENFILE})
_REFUSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.ENOTDIR})
"""Errors with which a store refuses before it creates anything. Some of them are temporary, the others are not."""


@dataclass(frozen=True, slots=True)
class FileCreation:
    """Creates files of one store; ``sleep`` waits between tries, in seconds."""

    io: FileIO
    sleep: Callable[[float], None]

    def create(self, location: str, data: bytes) -> None:
        """Create the version's file once. Raises CommitFailedError if another writer has the name, CatalogUnavailableError or
        TerminalError if the store refused and there is no file, CommitStateUnknownError if the result cannot be determined."""
        doubt: Exception | None = None
        for _ in attempts(CREATE_ATTEMPTS, self.sleep):
            try:
                self.io.write(location, data, overwrite=False)
                return
            except FileExistsError:
                if doubt is None or not self._holds(location, data, doubt):
                    raise CommitFailedError(f"{location} already exists: another writer committed this version") from None
                return
            except Exception as e:  # after any error the file may exist
                if doubt is None and (refusal := self.refusal(location, e)) is not None:
                    raise refusal from e
                doubt = e
        assert doubt is not None
        raise unknown_creation(location, doubt)

    def refusal(self, location: str, e: Exception) -> Exception | None:
        """The error to raise if the store refused to create the file and there is none; None if the file may exist."""
        error: type[IcebergOpsError]
        if isinstance(e, TerminalError | BadInputError):
            error = type(e)
        elif isinstance(e, RefusedForNowError):
            error = CatalogUnavailableError
        elif (code := _error_number(e)) in _REFUSED | _REFUSED_FOR_NOW:
            error = TerminalError if code in _REFUSED else CatalogUnavailableError
        else:
            return None
        try:
            there = self.io.exists(location)
        except Exception as look:  # noqa: BLE001 - a look that fails proves nothing
            log.warning("it is not known whether %s exists: %s", location, look)
            return None
        return None if there else error(f"{location} could not be created: {e}; nothing was committed")

    def _holds(self, location: str, data: bytes, doubt: Exception) -> bool:
        try:
            return self.io.read(location) == data
        except Exception as e:
            raise unknown_creation(location, doubt) from e


def unknown_creation(location: str, why: Exception) -> CommitStateUnknownError:
    """The error for a version whose file may have been created."""
    return CommitStateUnknownError(
        f"the outcome of creating {location} is unknown: {why}; it was committed if a later version of the table is based on it"
    )


def _error_number(e: Exception) -> int | None:
    cause = e if isinstance(e, OSError) else e.__cause__
    return cause.errno if isinstance(cause, OSError) else None
