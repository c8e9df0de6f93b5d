"""Cleans up job folders: files with secrets of finished tries, and folders that are older than the retention time.

A job's own processes delete its files with secrets (``iceberg_airflow.guard``). This module removes only what a dead machine
left behind. Only names that this package writes are deleted, in folders that are named like a try; symbolic links are never
followed. A folder that cannot be cleaned is skipped with a warning: it must not fail the current task, nor prevent the clean-up
of other folders. A time in the future (from a machine with a wrong clock) counts as now, and is set to it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from iceberg_airflow.job_folder import PRIVATE, REPORT, SPEC, JobFolder, jobs_root
from iceberg_ops.config.option_parsing import duration_ms
from iceberg_ops.config.variables import variable
from iceberg_ops.errors import OptionError

KEEP_VARIABLE = "ICEBERG_OPS_JOBS_KEEP"
DEFAULT_KEEP = "30d"
_SHORTEST_KEEP_S = 3600.0
"""A shorter time would remove folders of tasks that are starting."""
ANSWERS = ("lane.json", "answer.json")
_EVERY_S = 3600.0
_PRIVATE_S = 86_400.0
"""Engines read their job spec within seconds; a file with secrets that is a day old belongs to no running job."""
_SKEW_S = 60.0
"""The allowed difference between clocks of machines."""
_TRY = re.compile(r"try-\d+")
_MARK = ".swept"


def sweep(folder: JobFolder, *, log: Any) -> None:
    """Clean up the task's own tries, and once an hour all folders. Raises OptionError for a wrong ``ICEBERG_OPS_JOBS_KEEP``."""
    keep_s = keep_seconds()
    try:
        for other in folder.folder.parent.iterdir():
            if _TRY.fullmatch(other.name) and not other.is_symlink():
                _delete_private(other, older_than_s=0)
        if _is_time(jobs_root()):
            prune(jobs_root(), older_than_s=keep_s, own_folder=folder.folder, failed=lambda e: _warn(log, e))
    except OSError as e:
        _warn(log, e)


def keep_seconds() -> float:
    """The retention time of a finished try's folder."""
    setting = variable(KEEP_VARIABLE) or DEFAULT_KEEP
    try:
        keep_s = duration_ms(setting) / 1000
    except ValueError as e:
        raise OptionError(f"{KEEP_VARIABLE} = {setting!r}: {e}") from None
    if keep_s < _SHORTEST_KEEP_S:
        raise OptionError(f"{KEEP_VARIABLE} = {setting!r}: must be at least 1h, and longer than the longest job")
    return keep_s


def _warn(log: Any, error: OSError) -> None:
    log.warning("old job folders could not be tidied up: %s: %s", error.filename, error.strerror)


def prune(
    root: Path, *, older_than_s: float, own_folder: Path | None = None, failed: Callable[[OSError], None] = lambda _error: None
) -> int:
    """Delete the folders of tries in which nothing is younger, and files with secrets that are more than a day old; returns the
    number of folders. ``own``, the caller's folder, is skipped. ``failed`` is called for each folder that could not be read or
    cleaned."""
    removed = 0
    for folder in list(_tries(root, failed)):
        if folder == own_folder:
            continue
        try:
            youngest = min(_age_s(path) for path in (folder, *folder.iterdir()))
            _delete_private(folder, older_than_s=min(older_than_s, _PRIVATE_S))
            if youngest >= older_than_s and _remove(folder):
                removed += 1
                _remove_empty(folder.parent, root)
        except FileNotFoundError:
            continue  # removed meanwhile: by another task, or as the empty folder of a run named like a try
        except OSError as e:
            failed(e)
    return removed


def _tries(folder: Path, failed: Callable[[OSError], None]) -> Iterator[Path]:
    """Folders of tries below ``folder``, inner ones first: an id may look like a try."""
    try:
        folders = [path for path in folder.iterdir() if not path.is_symlink() and path.is_dir()]
    except FileNotFoundError:
        return  # removed meanwhile
    except OSError as e:  # another user's folder
        failed(e)
        return
    for path in folders:
        yield from _tries(path, failed)
        if _TRY.fullmatch(path.name):
            yield path


def _age_s(path: Path) -> float:
    """Seconds since the file was changed. A time in the future is set to now, and ages from then on."""
    age = time.time() - path.lstat().st_mtime
    if age < -_SKEW_S:
        with contextlib.suppress(OSError):  # another user's; it counts as new
            os.utime(path, follow_symlinks=False)
    return max(age, 0.0)


def _delete_private(folder: Path, *, older_than_s: float) -> None:
    for path in folder.glob(f"{PRIVATE}*"):
        if _age_s(path) >= older_than_s:
            path.unlink(missing_ok=True)


def _remove(folder: Path) -> bool:
    """Delete the files we know in it, and the folder; returns whether it is gone. Foreign files stay, and the folder with them."""
    for name in (SPEC, REPORT, *ANSWERS):
        (folder / name).unlink(missing_ok=True)
    try:
        folder.rmdir()
    except OSError:
        return False
    return True


def _remove_empty(folder: Path, root: Path) -> None:
    """Delete a folder and its parents, up to the root, as long as they are empty."""
    while folder != root and not any(folder.iterdir()):
        try:
            folder.rmdir()
        except OSError as e:
            if e.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return  # a new task of this DAG started meanwhile
            raise
        folder = folder.parent


def _is_time(root: Path) -> bool:
    """Whether an hour has passed since the last clean-up; this task's clean-up is then recorded."""
    mark = root / _MARK
    if mark.exists() and 0 <= time.time() - mark.lstat().st_mtime < _EVERY_S:
        return False
    mark.touch()
    return True
