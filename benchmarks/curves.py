"""Z-order and Hilbert curve compared: how many files a range filter must read, how much files overlap, and the cost of the keys.

Rows with 16-bit ranks per column, like those from a rewrite's quantiles, are ordered by either curve and cut into equal files; a
filter reads the files whose bounds intersect it. Filters are boxes over some of the columns, each side with the same share of the
rows, at random places. Both curves get the same rows and filters. ``CURVES_ROWS`` and ``CURVES_FILES`` change the size.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.records import record
from iceberg_ops.data.sorting.hilbert import transposed
from iceberg_ops.data.sorting.zorder import Ranks, interleave

ROWS = int(os.environ.get("CURVES_ROWS", "2000000"))
FILES = [int(n) for n in os.environ.get("CURVES_FILES", "32,100,256,1000").split(",")]
BITS = 16
FILTERS = 2_000
SHARES = (0.01, 0.05, 0.2)
"""The share of the rows along each filtered column."""
Curve = Callable[[Sequence[Ranks]], Ranks]
Bounds = npt.NDArray[np.uint64]


def zorder(ranks: Sequence[Ranks]) -> Ranks:
    """The key that rewrites use."""
    return interleave(ranks, BITS)


def hilbert(ranks: Sequence[Ranks]) -> Ranks:
    """The other key that rewrites can use."""
    return interleave(transposed(ranks, BITS), BITS)


CURVES: dict[str, Curve] = {"zorder": zorder, "hilbert": hilbert}


@dataclass(frozen=True, slots=True)
class Layout:
    """Lower and upper bounds of each file (rows) and column."""

    low: Bounds
    high: Bounds

    @classmethod
    def of(cls, ranks: Sequence[Ranks], keys: Ranks, files: int) -> Layout:
        order = np.argsort(keys, kind="stable")
        cuts = np.linspace(0, len(keys), files + 1).astype(np.int64)[:-1]
        sorted_ranks = [r[order] for r in ranks]
        return cls(
            np.stack([np.minimum.reduceat(r, cuts) for r in sorted_ranks], axis=1),
            np.stack([np.maximum.reduceat(r, cuts) for r in sorted_ranks], axis=1),
        )

    def read_by(self, columns: Sequence[int], low: Bounds, high: Bounds) -> float:
        """The mean share of files that intersect the boxes ``low`` to ``high`` (a row each) over ``columns``."""
        met = np.ones((len(low), len(self.low)), bool)
        for n, column in enumerate(columns):
            met &= (self.low[:, column] <= high[:, [n]]) & (self.high[:, column] >= low[:, [n]])
        return float(met.mean())

    def overlaps(self) -> float:
        """The mean number of other files whose bounds intersect those of a file in every column."""
        met = np.ones((len(self.low), len(self.low)), bool)
        for column in range(self.low.shape[1]):
            met &= (self.low[:, [column]] <= self.high[:, column]) & (self.high[:, [column]] >= self.low[:, column])
        return float(met.sum(axis=1).mean() - 1)


def points(columns: int, kind: str) -> list[Ranks]:
    """Ranks of rows: independent columns, or the second one following the first as a ship date follows an order date."""
    rng = np.random.default_rng(columns)
    found = [rng.random(ROWS) for _ in range(columns)]
    if kind == "correlated":
        found[1] = found[0] + 0.05 * found[1]
    return [((np.argsort(np.argsort(v)) << BITS) // ROWS).astype(np.uint64) for v in found]


def boxes(columns: int, share: float) -> tuple[Bounds, Bounds]:
    """Random filters: low and high of each."""
    side = int(share * (1 << BITS))
    low = np.random.default_rng(7).integers(0, (1 << BITS) - side, (FILTERS, columns)).astype(np.uint64)
    return low, low + np.uint64(side - 1)


def run() -> Iterable[dict[str, Any]]:
    """A record for each kind of rows and number of files; ``ours`` is z-order, the peer Hilbert, and their seconds are CPU."""
    for columns in (2, 3):
        for kind in ("independent", "correlated"):
            ranks = points(columns, kind)
            keys, cost = {}, {}
            for name, curve in CURVES.items():
                begun = time.process_time()
                keys[name] = curve(ranks)
                cost[name] = time.process_time() - begun
            for files in FILES:
                layouts = {name: Layout.of(ranks, key, files) for name, key in keys.items()}
                yield record(
                    f"{columns} columns, {kind}, {files} files",
                    ours_s=cost["zorder"],
                    peer="hilbert",
                    peer_s=round(cost["hilbert"], 3),
                    rows=ROWS,
                    overlaps={name: round(layout.overlaps(), 2) for name, layout in layouts.items()},
                    read_percent=_read(layouts, columns),
                )


def _read(layouts: dict[str, Layout], columns: int) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for filtered in range(1, columns + 1):
        for share in SHARES:
            low, high = boxes(filtered, share)
            found[f"{share:.0%} of {filtered}"] = {
                name: round(100 * layout.read_by(range(filtered), low, high), 2) for name, layout in layouts.items()
            }
    return found
