"""Sorts any number of lines in bounded memory: runs that do not fit are sorted on this machine's disk, and merged.

A line may hold any text without a line break (JSON has none). Runs lie in a temporary folder that is deleted with the ``with``
block.
"""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

MOST_HELD = 500_000
"""Lines in memory: about 150 MB of paths with their sizes and times."""


class SortedLines:
    """Add lines, then read them in order, any number of times. A context manager."""

    def __init__(self, most_held: int = MOST_HELD) -> None:
        self._most_held = most_held
        self._held: list[str] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._runs: list[Path] = []
        self.count = 0

    def add(self, line: str) -> None:
        self._held.append(line)
        self.count += 1
        if len(self._held) >= self._most_held:
            self._write_run()

    def __iter__(self) -> Iterator[str]:
        self._held.sort()
        with ExitStack() as files:
            runs: list[Iterator[str]] = [iter(self._held)]
            for path in self._runs:
                runs.append(map(_without_break, files.enter_context(path.open(encoding="utf-8", newline="\n"))))
            yield from heapq.merge(*runs)

    def __enter__(self) -> SortedLines:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def _write_run(self) -> None:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="iceberg-ops-sort-")
        path = Path(self._folder.name) / f"{len(self._runs):05d}"
        with path.open("w", encoding="utf-8", newline="\n") as f:
            f.writelines(f"{line}\n" for line in sorted(self._held))
        self._runs.append(path)
        self._held = []


def _without_break(line: str) -> str:
    return line[:-1]
