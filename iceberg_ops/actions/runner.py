"""Who rewrites file groups: the seam between actions and engines.

An action hands over works and takes results in the order they complete; whether they were done in this process, in worker
processes or by Spark executors makes no difference to it. A runner commits nothing and deletes nothing but what it wrote itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from iceberg_ops.data.rewrite import GroupResult, GroupWork


@dataclass(frozen=True, slots=True)
class GroupFailure:
    """A work that was not done: ``code`` of the exception tree (or INTERNAL) and a one-line message. Its files are gone."""

    group_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is. ``seconds`` since it began."""

    works_done: int
    works: int
    bytes_done: int
    bytes: int
    seconds: float

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the bytes done so far; None before anything is."""
        return self.seconds * (self.bytes - self.bytes_done) / self.bytes_done if self.bytes_done else None


ProgressCallback = Callable[[Progress], None]


class RewriteRunner(Protocol):
    """Runs works anywhere. ``name`` is the lane named in reports."""

    @property
    def name(self) -> str: ...

    def run(self, works: Sequence[GroupWork]) -> Iterator[GroupResult | GroupFailure]:
        """One answer per work, in completion order. The failure of one work does not stop the others.

        A caller that stops iterating cancels what has not begun; closing the iterator waits for what has.
        """
        ...


def work_bytes(work: GroupWork) -> int:
    """Bytes of data files a work reads, from its tasks."""
    return sum(int(json.loads(task)["data-file"]["file_size_in_bytes"]) for task in work.tasks)
