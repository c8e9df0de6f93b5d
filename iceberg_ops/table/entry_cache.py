"""Decoded manifests, kept in this process: manifests never change, so none is decoded twice while it fits the budget.

Bounded by an estimate of the memory that entries take (about 600 bytes each, 90 per statistic); the least recently used go first.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

from iceberg_ops.spec.manifests import ManifestEntry

DEFAULT_BUDGET_BYTES = 256 * 1024 * 1024


class EntryCache:
    """Least-recently-used cache of entry lists. Safe to use from several threads; a miss may be decoded by two at once."""

    def __init__(self, budget_bytes: int = DEFAULT_BUDGET_BYTES) -> None:
        self._budget = budget_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, tuple[int, Sequence[ManifestEntry]]] = OrderedDict()
        self.used_bytes = 0

    def get(self, key: Hashable, decode: Callable[[], Sequence[ManifestEntry]]) -> Sequence[ManifestEntry]:
        """The entries kept under ``key``, else those that ``decode`` gives."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
                return found[1]
        entries = tuple(decode())
        size = estimated_bytes(entries)
        with self._lock:
            if size <= self._budget and key not in self._kept:
                self._kept[key] = (size, entries)
                self.used_bytes += size
                while self.used_bytes > self._budget:
                    _, (freed, _) = self._kept.popitem(last=False)
                    self.used_bytes -= freed
        return entries

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._kept.clear()
            self.used_bytes = 0


def estimated_bytes(entries: Sequence[ManifestEntry]) -> int:
    """What the entries take in memory, going by the first one's statistics."""
    if not entries:
        return 200
    f = entries[0].data_file
    maps = (f.column_sizes, f.value_counts, f.null_value_counts, f.nan_value_counts, f.lower_bounds, f.upper_bounds)
    return len(entries) * (600 + 90 * sum(len(m) for m in maps if m))
