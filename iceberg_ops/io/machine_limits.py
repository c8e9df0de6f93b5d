"""Limits of this machine as typed errors: too many open files, or no space for temporary files; also missing rights of the user,
and impossible paths.

These limits do not concern the store of a table: if that is full, the FileIO raises its own error.
"""

from __future__ import annotations

import errno
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from iceberg_ops.errors import MachineLimitError, TerminalError

PASSING = frozenset(
    {errno.EAGAIN, errno.EINTR, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EBUSY, errno.ENFILE, errno.ENOSPC, errno.EDQUOT}
)
"""System errors that may be temporary, whatever file they are about."""
NOT_PERMITTED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""System errors that refuse the user of the process; a retry does not help."""
NO_PLACE = frozenset({errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP})
"""System errors about a path where the file cannot exist or be written."""
MOST_THREADS = 256
"""The most threads of one pool, whatever number a person asks for: more do not make a store faster, and a system limits them."""
_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
_NO_FOLDER = "No usable temporary directory"
"""The beginning of ``tempfile``'s message if it cannot write to any of its folders."""


@contextmanager
def typed_limits() -> Iterator[None]:
    """Within this context an OSError about a limit of the machine is raised as MachineLimitError."""
    try:
        yield
    except OSError as e:
        if (limit := limit_error(e)) is not None:
            raise limit from e
        raise


@contextmanager
def typed_os_errors() -> Iterator[None]:
    """Wraps a job or a part of one: like ``typed_limits``; an OSError about a missing right or impossible path is also raised, as
    TerminalError."""
    with typed_limits():
        try:
            yield
        except OSError as e:
            if e.errno in NOT_PERMITTED:
                why = "the user of this process may not list, read or write what the job needs there: permit it"
            elif e.errno in NO_PLACE:
                why = "nothing can be listed, read or written there: correct the path (a property such as write.data.path, say)"
            else:
                raise
            where = f"{os.fsdecode(e.filename)}: " if isinstance(e.filename, str | bytes) else ""
            raise TerminalError(f"{where}{os.strerror(e.errno)}: {why}, then run the job again") from e


def limit_error(error: OSError, what: str = "") -> MachineLimitError | None:
    """The typed error for ``error``, with the location ``what`` if known; None: it is about something else."""
    where = f"{what}: " if what else ""
    if error.errno == errno.EMFILE:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return MachineLimitError(
            f"{where}this process has all of the {limit} open files it may have: raise the limit (ulimit -n, LimitNOFILE of the "
            "service), or do less at a time (fewer partitions in one job, a lower max-concurrent-file-group-rewrites)"
        )
    if (error.errno in _NO_SPACE and _may_be_temporary(error)) or (error.errno == errno.ENOENT and _NO_FOLDER in str(error)):
        folder = _temporary_folder()
        return MachineLimitError(
            f"{where}no space left for temporary files in {folder}, to which sorts larger than memory are spilled: set TMPDIR to a "
            "larger disk, or free this one"
        )
    return None


def _may_be_temporary(error: OSError) -> bool:
    """Whether the file without space may be a temporary one: an error that names a file elsewhere is about another disk."""
    if not isinstance(error.filename, str):
        return True
    folder = os.path.realpath(_temporary_folder())
    return os.path.realpath(error.filename).startswith(folder.rstrip("/") + "/")


def _temporary_folder() -> str:
    return tempfile.tempdir or os.environ.get("TMPDIR") or "/tmp"
