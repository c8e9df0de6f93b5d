"""Cutting files into parts and packing the parts into balanced groups (Java: TableScanUtil.planTaskGroups).

A part is a byte range; a reader takes the row groups (stripes, blocks) that start inside it, so parts that cover a file read every
row once wherever the cuts fall (SCAN-17). Cuts go where ``split_offsets`` say; offsets that are unsorted or beyond the file are
ignored. The last part has no end: a recorded file size may be wrong, and nothing after it may be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from iceberg_ops.errors import OptionError
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileFormat

T = TypeVar("T")

_SPLIT_ANYWHERE = frozenset({FileFormat.PARQUET, FileFormat.ORC})
"""Formats whose footer lists where each part starts; an Avro file is read whole."""


def split_tasks(
    tasks: Iterable[FileScanTask], target_size: int, lookback: int = 10, open_cost: int = 4 << 20
) -> list[list[FileScanTask]]:
    """Tasks cut to about ``target_size`` bytes and packed into groups of about that size.

    ``lookback`` is how many open groups a part may still join, ``open_cost`` the least weight (bytes) of a file and of each of its
    deletes. Neighbouring parts of one file that land in one group are joined again. Raises OptionError for a size below 1.
    """
    if target_size < 1 or lookback < 1:
        raise OptionError(f"split size {target_size} and lookback {lookback}: both must be above 0")
    parts = (part for task in tasks for part in split_task(task, target_size))
    groups = pack(parts, target_size, lookback, lambda part: task_weight(part, open_cost), largest_first=True)
    return [join_neighbours(group) for group in groups]


def task_weight(task: FileScanTask, open_cost: int) -> int:
    """Bytes to read, and at least ``open_cost`` for every file to open."""
    return max(task.size_bytes, (1 + len(task.deletes)) * open_cost)


def split_task(task: FileScanTask, target_size: int) -> list[FileScanTask]:
    """The parts of one task: along its split offsets, else every ``target_size`` bytes; the task itself where it can not be cut."""
    if not task.is_whole_file or task.data_file.file_format not in _SPLIT_ANYWHERE:
        return [task]
    cuts = valid_split_offsets(task.data_file) or range(0, task.data_file.file_size_in_bytes, target_size)
    starts = [0, *cuts[1:]]
    if len(starts) == 1:
        return [task]
    ends = [*starts[1:], None]
    return [replace(task, start=a, length=None if b is None else b - a) for a, b in zip(starts, ends, strict=True)]


def valid_split_offsets(file: DataFile) -> tuple[int, ...]:
    """The recorded offsets if they ascend and lie within the file, else none."""
    offsets = file.split_offsets or ()
    rising = all(a < b for a, b in pairwise(offsets))
    return offsets if offsets and rising and offsets[0] >= 0 and offsets[-1] < file.file_size_in_bytes else ()


def join_neighbours(parts: list[FileScanTask]) -> list[FileScanTask]:
    """Parts of one file that touch become one part again."""
    joined: list[FileScanTask] = []
    for part in parts:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.data_file is part.data_file
            and last.length is not None
            and last.start + last.length == part.start
        ):
            joined[-1] = replace(last, length=None if part.length is None else last.length + part.length)
        else:
            joined.append(part)
    return joined


def pack(
    items: Iterable[T], target: int, lookback: int, weight: Callable[[T], int], *, largest_first: bool = False
) -> Iterator[list[T]]:
    """Bins of at most ``target`` weight (one heavier item fills a bin of its own), keeping ``lookback`` bins open at a time.

    A bin is closed, the heaviest first or the oldest first, once more than ``lookback`` are open.
    """
    bins: list[tuple[int, list[T]]] = []
    for item in items:
        size = weight(item)
        for n, (total, held) in enumerate(bins):
            if total + size <= target:
                held.append(item)
                bins[n] = (total + size, held)
                break
        else:
            bins.append((size, [item]))
            if len(bins) > lookback:
                yield _close(bins, largest_first)
    while bins:
        yield _close(bins, largest_first)


def _close(bins: list[tuple[int, list[T]]], largest_first: bool) -> list[T]:
    chosen = max(range(len(bins)), key=lambda n: bins[n][0]) if largest_first else 0
    return bins.pop(chosen)[1]
