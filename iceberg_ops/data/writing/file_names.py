"""Names of the files that jobs write: ``<task>-<operation id>-<attempt>-<5 digits><suffix>``.

``task`` is the number of the work, the same in every attempt. The operation id is the run's: its lease covers the files by this id,
and files of discarded attempts are found by it. ``attempt`` is different for every writer of files (``created_files``), so
that two attempts at one task never name the same file. The digits count a writer's files over all partitions.
"""

from __future__ import annotations

import os
import re
from itertools import count

_ATTEMPT = "[0-9a-f]{12,}"


class _Makers:
    """Numbers the writers of this process. Two processes choose the same start with a chance of one in four billion; then the
    second file with a name cannot be created, and its task fails and is retried."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        self._process = os.urandom(4).hex()
        self._count = count(1)

    def next(self) -> str:
        return f"{self._process}{next(self._count):04x}"


_MAKERS = _Makers()
os.register_at_fork(after_in_child=_MAKERS.begin)


class FileNames:
    """Names for one writer. ``task_id`` contains no path separator."""

    def __init__(self, task_id: str, operation_id: str) -> None:
        self._prefix = f"{task_id}-{operation_id}-{_MAKERS.next()}"
        self._count = 0

    def next(self, suffix: str) -> str:
        """A name that no other call returns, such as ``00003-<operation id>-5f2a90c10001-00001.parquet`` for ``.parquet``."""
        self._count += 1
        return f"{self._prefix}-{self._count:05d}{suffix}"


def operation_files_pattern(operation_id: str) -> re.Pattern[str]:
    """A pattern that is found (``search``) in the names of an operation's files, unfinished ones included, but not in those of
    another operation whose id begins with this id (a later evaluation of the same run)."""
    return re.compile(rf"-{re.escape(operation_id)}-{_ATTEMPT}-\d{{5,}}[-.][^/]*$")
