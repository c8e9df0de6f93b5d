"""How far long work is: told to a callback as it happens, and to the log every now and then.

A meter counts what its work is done in (groups, files, folders) and bytes. The log gets a line when ten seconds have passed since
the last one, so short work leaves none, and a night's work leaves enough to see whether it moves.
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
    """``total`` 0: nobody knows how much there is. ``subject`` names job and table in the log. ``clock`` gives seconds."""

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
        """So much more is done."""
        self._done += count
        self._bytes_done += bytes_
        self._tell()

    def at(self, done: int, total: int) -> None:
        """So much is done in all, of so much."""
        self._done, self._total = done, total
        self._tell()

    def part(self, name: str, bytes_: int) -> None:
        """The bytes that are done of a work in progress; 0 once it is done."""
        self._parts[name] = bytes_
        if bytes_:
            self._tell()

    def _tell(self) -> None:
        now = self._clock()
        bytes_done = min(self._bytes, self._bytes_done + sum(list(self._parts.values())))
        progress = Progress(self._done, self._total, bytes_done, self._bytes, now - self._begun, self._what, self._unit)
        if self._callback is not None:
            self._callback(progress)
        if now - self._logged >= LOG_SECONDS:
            self._logged = now
            log.info("%s: %s", self._subject, progress)


def run_works(runner: RewriteRunner, works: Sequence[GroupWork], meter: Meter) -> Generator[GroupResult | GroupFailure]:
    """``runner.run(works)`` with every answer, and every part of a large sort, counted. Who stops early closes it: then no work
    goes on."""
    sizes = {work.group_id: work_bytes(work) for work in works}
    files = {work.group_id: len(work.tasks) for work in works}
    if isinstance(runner, WatchedRunner):
        runner.watch(lambda group_id, share: meter.part(group_id, int(share * sizes[group_id])))
    with closing(runner.run(works)) as answers:
        for answer in answers:
            meter.part(answer.group_id, 0)
            meter.advance(files[answer.group_id], sizes[answer.group_id])
            yield answer
