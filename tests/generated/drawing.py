"""Seeds, and counts of what was generated from them: a kind that is never generated proves nothing, so the counts must show it."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
DRAWN: dict[str, Counter[str]] = {}
"""By kind of case: how often each thing was drawn in this process."""


def seeds(few: int) -> range:
    """The seeds of this run: ``few`` in a normal one."""
    if (one := os.environ.get("ICEBERG_OPS_SEED")) is not None:
        return range(int(one), int(one) + 1)
    return range(int(os.environ.get("ICEBERG_OPS_CASES", few)))


def is_small_run() -> bool:
    """One seed alone does not draw everything."""
    return "ICEBERG_OPS_SEED" in os.environ


class Draw(random.Random):
    """A random source of one case, which counts what is noted."""

    def __init__(self, kind: str, seed: int) -> None:
        super().__init__(f"{kind} {seed}")
        self.kind, self.seed = kind, seed
        self.note("cases")

    def note(self, *what: object) -> None:
        counter = DRAWN.setdefault(self.kind, Counter())
        counter.update(map(str, what))

    def often(self, share: float) -> bool:
        return self.random() < share

    def turn(self, options: Sequence[T]) -> T:
        """The option whose turn it is: as many seeds in a row as there are options draw each of them once."""
        return options[self.seed % len(options)]


def for_each_seed(kind: str, few: int, check: Callable[[Draw], None]) -> None:
    """Run ``check`` on every seed; the first that fails is named."""
    for seed in seeds(few):
        try:
            check(Draw(kind, seed))
        except Exception as e:
            raise AssertionError(f"{kind}: ICEBERG_OPS_SEED={seed} fails: {type(e).__name__}: {e}") from e


@contextmanager
def uncounted() -> Iterator[None]:
    """Within: what is drawn proves nothing."""
    before = {kind: found.copy() for kind, found in DRAWN.items()}
    try:
        yield
    finally:
        DRAWN.clear()
        DRAWN.update(before)


def missing(kind: str, wanted: set[str]) -> set[str]:
    """What of ``wanted`` was never drawn."""
    return set() if is_small_run() else {what for what in wanted if not DRAWN.get(kind, Counter())[what]}


def report(drawn: dict[str, Counter[str]]) -> list[str]:
    """One line a kind, for people."""
    return [f"{kind}: " + ", ".join(f"{what} {n}" for what, n in sorted(found.items())) for kind, found in sorted(drawn.items())]
