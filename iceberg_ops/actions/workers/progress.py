"""Progress of long work: each step is reported to a callback, and from time to time to the log.

A meter counts the units of its work (groups, files, folders) and bytes. The log gets a line if ten seconds have passed since the
last one, so short work leaves none, and a night's work leaves enough to see whether it advances.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing

from iceberg_ops.actions.workers.runner import (
    GroupFailure,
    Progress,
    ProgressCallback,
    RewriteRunner,
    WatchedRunner,
    work_bytes,
)
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork

log = logging.getLogger(__name__)
LOG_SECONDS = 10.0


class Meter:
    """``total`` 0: the total is unknown. ``subject`` names job and table in the log. ``clock`` gives seconds."""

    def __init__(
        self, what: str, total: int, bytes_: int, *, unit: str, subject: str,
        callback: ProgressCallback | None = None, clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._what, self._unit, self._subject = what, unit, subject
        self._total, self._bytes = total, bytes_
        self._callback, self._clock = callback, clock
        self._begun = self._logged = clock()
        self._done = self._bytes_done = 0
        self._parts: dict[str, int] = {}

    def advance(self, count: int, bytes_: int = 0) -> None:
        """Add finished units and bytes."""
        self._done += count
        self._bytes_done += bytes_
        self._report()

    def at(self, done: int, total: int) -> None:
        """Set the finished units and the total."""
        self._done, self._total = done, total
        self._report()

    def part(self, name: str, bytes_: int) -> None:
        """The finished bytes of a running work; 0 once it is done."""
        self._parts[name] = bytes_
        if bytes_:
            self._report()

    def _report(self) -> None:
        now = self._clock()
        bytes_done = min(self._bytes, self._bytes_done + sum(list(self._parts.values())))
        progress = Progress(self._done, self._total, bytes_done, self._bytes, now - self._begun, self._what, self._unit)
        if self._callback is not None:
            self._callback(progress)
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            log.info("%s: %s", self._subject, progress)


def run_group_works(runner: RewriteRunner, group_works: Sequence[GroupWork], meter: Meter) -> Generator[GroupResult | GroupFailure]:
    """``runner.run(works)``; counts every answer, and every part of a large sort. A caller that stops early closes it: after that
    no work is running."""
    sizes = {work.group_id: work_bytes(work) for work in group_works}
    files = {work.group_id: len(work.tasks) for work in group_works}
    if isinstance(runner, WatchedRunner):
        runner.watch(lambda group_id, share: meter.part(group_id, int(share * sizes[group_id])))
    with closing(runner.run(group_works)) as answers:
        for answer in answers:
            meter.part(answer.group_id, 0)
            meter.advance(files[answer.group_id], sizes[answer.group_id])
            yield answer
