"""A cache of decoded manifests in this process: manifests never change, so none is decoded twice while it fits the budget.

The size is limited by an estimate of memory; the least recently used ones are removed first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, TypeVar

from iceberg_ops.spec.manifests import ManifestEntry

T = TypeVar("T")

DEFAULT_BUDGET_BYTES = 256 * 1024 * 1024


class EntryCache:
    """Least-recently-used cache of immutable values. Safe to use from several threads; two threads may compute the same missing
    value."""

    def __init__(self, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[int, Any]] = OrderedDict()
        self.used_bytes = 0

    def get(self, key: Hashable, make: Callable[[], T], size_of: Callable[[T], int]) -> T:
        """The value under ``key``, else the result of ``make``; ``size_of`` gives its size in bytes."""
        kept: T | None = self.known(key)
        if kept is not None:
            return kept
        made = make()
        size = size_of(made)
        with self._lock:
            if size <= self._budget and key not in self._kept:
                self._kept[key] = (size, made)
                self.used_bytes += size
                while self.used_bytes > self._budget:
                    _, (freed, _) = self._kept.popitem(last=False)
                    self.used_bytes -= freed
        return made

    def known(self, key: Hashable) -> Any:
        """The value under ``key``; None if there is none."""
        with self._lock:
            entry = self._kept.get(key)
            if entry is None:
                return None
            self._kept.move_to_end(key)
            return entry[1]

    def clear(self) -> None:
        """Remove everything."""
        with self._lock:
            self._kept.clear()
            self.used_bytes = 0


def entries_bytes(entries: Sequence[ManifestEntry]) -> int:
    """The memory of entries, estimated from the first one: about 600 bytes each and 90 per statistic."""
    if not entries:
        return 200
    f = entries[0].data_file
    maps = (f.column_sizes, f.value_counts, f.null_value_counts, f.nan_value_counts, f.lower_bounds, f.upper_bounds)
    return len(entries) * (600 + 90 * sum(len(m) for m in maps if m))
