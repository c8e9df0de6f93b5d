"""Finds the files of a partition that are not clustered by a sort order, from their bounds.

Two files overlap if the interiors of their key ranges intersect: after a range-partitioned sort no two files do, even if one key
value fills several files. So a sort rewrite selects the overlapping files of a partition deeper than ``max-overlap-depth``, and
selects nothing once the partition is clustered. Selection by size alone, as in the reference implementation, never rewrites a
partition of well-sized, unsorted files and rewrites a sorted one for ever.

Ranges are compared value by value in the order's columns, up to the first that varies inside a file: for later columns the bounds
say nothing exact. Two files are compared in the columns that are known for both, so a sorted file that begins with the last value
of the file before does not overlap it. A file without bounds on the first column cannot be judged and is left to the size rules.
Bounds of long strings are truncated: files of one commit that overlap only because of that count as clustered. Bytes that are not a
valid value are no bound.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from iceberg_ops.errors import CorruptTableError
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transform_functions import in_order
from iceberg_ops.spec.types import NestedField
from iceberg_ops.spec.values import from_bytes

_FIRST, _NULL_LOW, _VALUE, _NAN, _NULL_HIGH, _LAST = -2, -1, 0, 1, 2, 3
_TRUNCATED_WIDTH = 16
"""Length from which a string or binary bound may be a truncated one (metrics mode truncate(16))."""

_DEEP_ENOUGH = 64
"""Overlaps counted per file: with more, the partition is unclustered whatever the exact depth, and counting stays linear."""

Key = tuple[tuple[int, Any], ...]


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The sort keys a file may hold. ``told``: the number of columns whose values its bounds determine; later columns may have any
    value. ``exact`` is False if a bound may be truncated."""

    low: Key
    high: Key
    told: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Clustering:
    """``depth`` is 1 + the mean number of other files a file overlaps; ``unclustered`` are the paths that overlap any."""

    depth: float
    unclustered: frozenset[str]


def clustering(tasks: Sequence[FileScanTask], order: SortOrder, fields: Mapping[int, NestedField]) -> Clustering:
    """How clustered the files of one partition are by ``order``. ``fields`` are the table's fields by id."""
    judged = [(task, range_) for task in tasks if (range_ := key_range(task, order, fields)) is not None]
    overlapping: set[str] = set()
    pairs = 0
    open_files: list[tuple[Key, int]] = []
    ordered = sorted(judged, key=lambda pair: (pair[1].low, pair[1].high))
    for i, (task, range_) in enumerate(ordered):
        del open_files[: bisect_right(open_files, (range_.low, len(ordered)))]
        for _, j in open_files[-_DEEP_ENOUGH:]:
            other, other_range = ordered[j]
            if _overlap(range_, other_range) and not _one_sorted_commit(task, other, range_, other_range):
                pairs += 1
                overlapping.update((task.file_path, other.file_path))
        insort(open_files, (range_.high, i))
    depth = 1.0 + 2.0 * pairs / len(judged) if judged else 0.0
    return Clustering(depth, frozenset(overlapping))


def key_range(task: FileScanTask, order: SortOrder, fields: Mapping[int, NestedField]) -> KeyRange | None:
    """The range of sort keys in a file; None if the first column's bounds are unknown or its transform does not keep the order."""
    low: list[tuple[int, Any]] = []
    high: list[tuple[int, Any]] = []
    exact = True
    for field in order.fields:
        column_range = _column_range(task, field, fields)
        if column_range is None:
            if not low:
                return None
            break
        low.append(column_range[0])
        high.append(column_range[1])
        exact = exact and column_range[2]
        if column_range[0] != column_range[1]:
            break
    missing = len(order.fields) - len(low)
    return KeyRange((*low, *((_FIRST, 0),) * missing), (*high, *((_LAST, 0),) * missing), len(low), exact)


def _column_range(
    task: FileScanTask, field: SortField, fields: Mapping[int, NestedField]
) -> tuple[tuple[int, Any], tuple[int, Any], bool] | None:
    column = fields.get(field.source_id)
    if column is None or not (field.transform.is_identity or field.transform.name in ("truncate", "year", "month", "day", "hour")):
        return None
    file = task.data_file
    nulls = (file.null_value_counts or {}).get(field.source_id)
    if nulls is None and column.optional:
        return None
    null_rank = _NULL_LOW if (field.null_order is NullOrder.NULLS_FIRST) == (field.direction is SortDirection.ASC) else _NULL_HIGH
    if nulls and nulls >= file.record_count:
        return (null_rank, 0), (null_rank, 0), True
    low_bytes, high_bytes = (file.lower_bounds or {}).get(field.source_id), (file.upper_bounds or {}).get(field.source_id)
    if low_bytes is None or high_bytes is None:
        return None
    try:
        bounds = [in_order(field.transform, column.type, from_bytes(column.type, side)) for side in (low_bytes, high_bytes)]
    except CorruptTableError:
        return None  # bytes that are not a valid value of the column are no bound
    if any(isinstance(side, float) and math.isnan(side) for side in bounds):
        return None
    low, high = (_VALUE, bounds[0]), (_VALUE, bounds[1])
    exact = not any(isinstance(side, str | bytes) and len(side) >= _TRUNCATED_WIDTH for side in bounds)
    if (file.nan_value_counts or {}).get(field.source_id):
        high = (_NAN, 0)
    if nulls and null_rank == _NULL_LOW:
        low = (_NULL_LOW, 0)
    elif nulls:
        high = (_NULL_HIGH, 0)
    return low, high, exact


def _overlap(a: KeyRange, b: KeyRange) -> bool:
    compared = min(a.told, b.told)
    (a_low, a_high), (b_low, b_high) = ((range_.low[:compared], range_.high[:compared]) for range_ in (a, b))
    if a_low == a_high:
        return b_low < a_low < b_high
    if b_low == b_high:
        return a_low < b_low < a_high
    return max(a_low, b_low) < min(a_high, b_high)


def _one_sorted_commit(a: FileScanTask, b: FileScanTask, a_range: KeyRange, b_range: KeyRange) -> bool:
    if a_range.exact and b_range.exact:
        return False
    return a.file_sequence_number is not None and a.file_sequence_number == b.file_sequence_number
