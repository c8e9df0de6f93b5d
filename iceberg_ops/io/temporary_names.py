"""Names of files that are being written and do not count yet.

A writer fills a hidden file of such a name beside its target and gives it the real name when it is complete. A crash leaves only
the hidden name behind, which no reader of a table looks at and which the orphan-file job knows by ``is_temporary``.
"""

from __future__ import annotations

import os
import uuid

_PREFIX = ".iceberg-ops-"
_SUFFIX = ".tmp"
_LONGEST = 180
"""Bytes; most file systems take names of 255."""


def temporary_name(target: str = "") -> str:
    """A fresh file name (no folder) that ``is_temporary`` recognises. The name of ``target`` is in it, so that whoever looks for
    the files of an operation finds the unfinished ones, too (not of one so long that a file system might refuse it)."""
    name = target.rsplit("/", 1)[-1]
    of = f"-{name}" if name and len(os.fsencode(name)) <= _LONGEST else ""
    return f"{_PREFIX}{uuid.uuid4().hex}{of}{_SUFFIX}"


def is_temporary(location: str) -> bool:
    """Whether the last part of ``location`` is a name of an unfinished file."""
    name = location.rsplit("/", 1)[-1]
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)
