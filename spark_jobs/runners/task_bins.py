"""Distributes work evenly over a number of Spark tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Work = TypeVar("Work")


def spread(items: Iterable[Work], count: int, size: Callable[[Work], int]) -> list[list[Work]]:
    """``count`` bins, filled largest first, each work into the bin with the smallest total so far. ``size`` in bytes."""
    bins: list[list[Work]] = [[] for _ in range(count)]
    loads = [0] * count
    for work in sorted(items, key=size, reverse=True):
        least = loads.index(min(loads))
        bins[least].append(work)
        loads[least] += size(work)
    return bins
