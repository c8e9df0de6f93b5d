"""Who rewrites file groups: the seam between actions and engines.

An action hands over works and takes results in the order they complete; whether they were done in this process, in worker
processes or by Spark executors makes no difference to it. A runner commits nothing and deletes nothing but what it wrote itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork


@dataclass(frozen=True, slots=True)
class GroupFailure:
    """A work that was not done: ``code`` of the exception tree (or INTERNAL) and a one-line message. Its files are gone."""

    group_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: ``works_done`` of ``works`` (0: not known) in ``unit``. ``seconds`` since it began."""

    works_done: int
    works: int
    bytes_done: int
    bytes: int
    seconds: float
    what: str = "rewriting"
    unit: str = "groups"

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the bytes done so far, or without any from the works; None before anything is."""
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
    """Runs works anywhere. ``name`` is the lane named in reports."""

    @property
    def name(self) -> str: ...

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        """One answer per work, in completion order. The failure of one work does not stop the others.

        A caller that stops early closes the generator: when that returns, no work goes on, and no file of one comes any more.
        """
        ...


Stage = Callable[[str], str]
"""A task as a function of a module that every worker can import: text in, text out."""


@runtime_checkable
class SpreadingRunner(Protocol):
    """A runner that does any stage, not only rewrites. ``parallelism``: how many tasks it runs at once."""

    @property
    def parallelism(self) -> int: ...

    def spread(self, stage: Stage, texts: Sequence[str]) -> Generator[str]:
        """One answer per text, as they complete; to be closed as ``run`` is. Raises the typed error of the first task that
        failed."""
        ...


@runtime_checkable
class WatchedRunner(Protocol):
    """A runner that tells of works that take long before they are done."""

    def watch(self, told: Callable[[str, float], None]) -> None:
        """Call ``told`` with the group id of a work and the share of it that is done."""
        ...


def work_bytes(work: GroupWork) -> int:
    """Bytes of data files a work reads, from its tasks."""
    return sum(int(json.loads(task)["data-file"]["file_size_in_bytes"]) for task in work.tasks)
