"""Names of unfinished files, which do not count yet.

A writer fills a hidden file with such a name beside its target and renames it when it is complete. A crash leaves only the hidden
file behind; no reader of a table opens it, and the orphan-file job recognises it by ``is_temporary``.
"""

from __future__ import annotations

import os
import uuid

_PREFIX = ".iceberg-ops-"
_SUFFIX = ".tmp"
_LONGEST = 180
"""Bytes; most file systems take names of 255."""


def temporary_name(target: str = "") -> str:
    """A new file name (without folder) that ``is_temporary`` recognises. It contains the name of ``target``, so that a search for
    the files of an operation also finds unfinished ones (except a name so long that a file system might refuse it)."""
    name = target.rsplit("/", 1)[-1]
    of = f"-{name}" if name and len(os.fsencode(name)) <= _LONGEST else ""
    return f"{_PREFIX}{uuid.uuid4().hex}{of}{_SUFFIX}"


def is_temporary(location: str) -> bool:
    """Whether the last part of ``location`` is the name of an unfinished file."""
    name = location.rsplit("/", 1)[-1]
    return name.startswith(_PREFIX) and name.endswith(_SUFFIX)
