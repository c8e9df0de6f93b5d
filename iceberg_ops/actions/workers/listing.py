"""Every file below a location, listed in parallel if the store has folders and the lane has workers.

The first levels are walked here, until there are enough folders to share; a task then lists each share completely. The task gets
only storage properties and folders. Without folders, or with ``prefix-listing``, the store lists everything below the location in
one call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing

from iceberg_ops.actions.workers.runner import SpreadingRunner
from iceberg_ops.io.file_io import FileInfo, FileIO, ListsFolders
from iceberg_ops.io.load import load_file_io
from iceberg_ops.io.read_only import READ_ONLY

_FOLDERS_PER_SHARE = 4
_SHARES_PER_TASK = 4
_MOST_WALKED = 1_000
"""The most folders that are walked here: tasks list the deeper ones, however few they are."""


def listed(
    io: FileIO,
    location: str,
    runner: object,
    *,
    by_prefix: bool = False,
    on_progress: Callable[[int, int], None] = lambda done, of: None,
) -> Iterator[FileInfo]:
    """Files below ``location``; ``runner`` lists if it can (``SpreadingRunner``). ``told`` receives the number of shares done, and
    of all.

    Raises the errors of the store.
    """
    # A dry run's guard only prevents writing, so the listing gets the store itself.
    store = load_file_io({**io.properties, READ_ONLY: "false"})
    location = location.rstrip("/") or "/"
    if by_prefix or not isinstance(runner, SpreadingRunner) or not isinstance(store, ListsFolders):
        yield from io.list_prefix(location)
        return
    infos, folders = _top(store, location, runner.parallelism * _SHARES_PER_TASK * _FOLDERS_PER_SHARE)
    yield from infos
    shares = _shares(store, folders, runner.parallelism * _SHARES_PER_TASK)
    with closing(runner.spread(list_share, shares)) as answers:
        for done, answer in enumerate(answers, 1):
            for folder, files in json.loads(answer):
                for name, size, modified_ms in files:
                    yield FileInfo(f"{folder}/{name}", size, modified_ms)
            on_progress(done, len(shares))


def _top(store: ListsFolders, location: str, enough: int) -> tuple[list[FileInfo], list[str]]:
    """Files of the first levels, and the folders where the walk stopped, if there are enough of them."""
    infos: list[FileInfo] = []
    level, walked = [location], 0
    while level and len(level) < enough and walked < _MOST_WALKED:
        below: list[str] = []
        for folder in level:
            folders, files = store.list_folder(folder)
            below += folders
            infos += files
        walked += len(level)
        level = below
    return infos, level


def _shares(store: FileIO, folders: list[str], count: int) -> list[str]:
    """Neighbours go to different shares: for example, the folders of one day are of similar size."""
    dealt = [folders[i::count] for i in range(count)]
    return [json.dumps({"io": dict(store.properties), "folders": share}) for share in dealt if share]


def list_share(text: str) -> str:
    """A task: every file below its folders, as [[folder, [[name, size, modified], ...]], ...]."""
    request = json.loads(text)
    io = load_file_io(request["io"])
    by_folder: dict[str, list[tuple[str, int, int | None]]] = {}
    for root in request["folders"]:
        for info in io.list_prefix(root):
            folder, _, name = info.location.rpartition("/")
            by_folder.setdefault(folder, []).append((name, info.size, info.modified_ms))
    return json.dumps(list(by_folder.items()))
