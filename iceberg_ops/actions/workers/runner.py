"""The protocol of runners, which rewrite file groups: the interface between actions and engines.

An action passes units of work (``works``) and receives results in the order of completion; it does not matter whether this process,
worker processes or Spark executors did them. A runner commits nothing and deletes nothing except its own files.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork


@dataclass(frozen=True, slots=True)
class GroupFailure:
    """A unit of work that was not done: ``code`` of the exception tree (or INTERNAL) and a one-line message. Its files are
    deleted."""

    group_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run: ``works_done`` of ``works`` (0: not known) in ``unit``. ``seconds`` since it began."""

    works_done: int
    works: int
    bytes_done: int
    bytes: int
    seconds: float
    what: str = "rewriting"
    unit: str = "groups"

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the bytes done so far, or without bytes from the units of work; None at the beginning."""
        done, of = (self.bytes_done, self.bytes) if self.bytes else (self.works_done, self.works)
        return self.seconds * (of - done) / done if done and of else None

    def __str__(self) -> str:
        """``rewriting 12 of 40 files, 1.2 of 4.0 GiB, 1:05 left``."""
        text = f"{self.what} {self.works_done:,}" + (f" of {self.works:,}" if self.works else "") + f" {self.unit}"
        if self.bytes:
            unit, size = next((u, s) for u, s in _UNITS if self.bytes >= s or s == 1)
            text += f", {self.bytes_done / size:,.1f} of {self.bytes / size:,.1f} {unit}"
        left = self.seconds_left
        return text if left is None else f"{text}, {int(left) // 60}:{int(left) % 60:02d} left"


_UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("bytes", 1))
ProgressCallback = Callable[[Progress], None]


class RewriteRunner(Protocol):
    """Runs units of work anywhere. ``name`` is the lane in reports."""

    @property
    def name(self) -> str: ...

    def run(self, group_works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        """One answer per work, in completion order. The failure of one work does not stop the others.

        A caller that stops early closes the generator: after that no work is running, and no more files are written.
        """
        ...


Stage = Callable[[str], str]
"""A task as a function of a module that every worker can import: text in, text out."""


@runtime_checkable
class SpreadingRunner(Protocol):
    """A runner that runs any stage, not only rewrites. ``parallelism``: how many tasks it runs at once."""

    @property
    def parallelism(self) -> int: ...

    def spread(self, stage: Stage, texts: Sequence[str]) -> Generator[str]:
        """One answer per text, in the order of completion; close it like ``run``. Raises the typed error of the first task that
        failed."""
        ...


@runtime_checkable
class WatchedRunner(Protocol):
    """A runner that reports the progress of a long unit of work before it is done."""

    def watch(self, on_progress: Callable[[str, float], None]) -> None:
        """Call ``told`` with the group id of a work and the finished share of it."""
        ...


def work_bytes(work: GroupWork) -> int:
    """Bytes of data files a work reads, from its tasks."""
    return sum(int(json.loads(task)["data-file"]["file_size_in_bytes"]) for task in work.tasks)
