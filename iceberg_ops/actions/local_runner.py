"""The lane without a JVM: file groups rewritten in worker processes of this machine.

Works that together are small run in this process, because starting an interpreter with Arrow costs about half a second, which is
what a core rewrites of 20 MB. Larger runs use a pool of spawned processes (never forked: Arrow's threads do not survive a fork),
at most one per CPU, each with one Arrow thread; a large sort is done by all of them in two stages (``staged_sort``). Tables in
memory live in this process only, so their works never leave it.

The rule upheld: one work's failure is an answer, not an exception; a pool that dies is an answer for each work it had.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from functools import partial

import pyarrow as pa

from iceberg_ops.actions.runner import GroupFailure, Progress, ProgressCallback, work_bytes
from iceberg_ops.actions.stage_answers import answer_of_stage, attempt_stage
from iceberg_ops.data.pandas_kept_out import keep_pandas_out
from iceberg_ops.data.rewrite import GroupResult, GroupWork, rewrite_group
from iceberg_ops.data.staged_sort import is_staged, sorted_in_stages, stage_parts
from iceberg_ops.errors import IcebergOpsError

INLINE_BYTES = 24 * 2**20


class LocalRunner:
    """``workers`` None: one per usable CPU. ``inline_bytes``: up to this many input bytes in all, no process is started."""

    name = "local"

    def __init__(
        self, *, workers: int | None = None, inline_bytes: int = INLINE_BYTES, progress: ProgressCallback | None = None
    ) -> None:
        self.workers = workers or usable_cpus()
        self.inline_bytes = inline_bytes
        self.progress = progress

    def limited(self, works_at_a_time: int) -> LocalRunner:
        """The same runner with no more than that many works at a time."""
        return LocalRunner(workers=min(self.workers, works_at_a_time), inline_bytes=self.inline_bytes, progress=self.progress)

    def run(self, works: Sequence[GroupWork]) -> Iterator[GroupResult | GroupFailure]:
        """See ``RewriteRunner.run``."""
        sizes = {work.group_id: work_bytes(work) for work in works}
        total, begun, done_bytes = sum(sizes.values()), time.monotonic(), 0
        for done, answer in enumerate(self._answers(works, total), 1):
            done_bytes += sizes[answer.group_id]
            if self.progress is not None:
                self.progress(Progress(done, len(works), done_bytes, total, time.monotonic() - begun))
            yield answer

    def _answers(self, works: Sequence[GroupWork], total: int) -> Iterator[GroupResult | GroupFailure]:
        in_memory = any(work.io_properties.get("io-impl") == "memory" for work in works)
        divisible = len(works) > 1 or any(self._is_staged(work) for work in works)
        if in_memory or not divisible or self.workers < 2 or total <= self.inline_bytes:
            yield from map(attempt, works)
        else:
            yield from self._in_processes(works)

    def _is_staged(self, work: GroupWork) -> bool:
        return is_staged(work) and work_bytes(work) > self.inline_bytes

    def _sorted(self, work: GroupWork, pool: ProcessPoolExecutor) -> GroupResult | GroupFailure:
        def run_all(stage: Callable[[str], str], texts: list[str]) -> list[str]:
            return [answer_of_stage(text) for text in pool.map(partial(attempt_stage, stage), texts)]

        try:
            return sorted_in_stages(work, stage_parts(work_bytes(work), self.workers), run_all)
        except IcebergOpsError as e:
            return GroupFailure(work.group_id, e.code, str(e))
        except Exception as e:  # noqa: BLE001 - a killed worker breaks the pool
            return _worker_lost(work, e)

    def _in_processes(self, works: Sequence[GroupWork]) -> Iterator[GroupResult | GroupFailure]:
        """Large sorts one after the other, by all workers; then the largest first, so that the last to finish is short; two per
        worker are in flight."""
        staged = [work for work in works if self._is_staged(work)]
        pool = ProcessPoolExecutor(
            self.workers if staged else min(self.workers, len(works)),
            mp_context=multiprocessing.get_context("spawn"), initializer=one_arrow_thread,
        )  # fmt: skip
        waiting = sorted((work for work in works if not self._is_staged(work)), key=work_bytes)
        running: dict[Future[GroupResult | GroupFailure], GroupWork] = {}
        try:
            for work in staged:
                yield self._sorted(work, pool)
            while waiting or running:
                while waiting and len(running) < 2 * self.workers:
                    work = waiting.pop()
                    try:
                        running[pool.submit(attempt, work)] = work
                    except RuntimeError as e:
                        yield _worker_lost(work, e)
                done, _ = wait(running, return_when=FIRST_COMPLETED) if running else (set(), set())
                for future in done:
                    yield _answer(future, running.pop(future))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def attempt(work: GroupWork) -> GroupResult | GroupFailure:
    """Do one work; whatever goes wrong becomes a GroupFailure."""
    try:
        return rewrite_group(work)
    except IcebergOpsError as e:
        return GroupFailure(work.group_id, e.code, str(e))
    except Exception as e:  # noqa: BLE001 - a worker must answer for every work; the report carries the message
        return GroupFailure(work.group_id, "INTERNAL", " ".join(f"{type(e).__name__}: {e}".split()))


def one_arrow_thread() -> None:
    """Workers share the CPUs by processes, so each keeps to one. They are processes of our own, which need no pandas."""
    keep_pandas_out()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)


def usable_cpus() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _answer(future: Future[GroupResult | GroupFailure], work: GroupWork) -> GroupResult | GroupFailure:
    try:
        return future.result()
    except Exception as e:  # noqa: BLE001 - a killed worker breaks the pool; each of its works is answered for
        return _worker_lost(work, e)


def _worker_lost(work: GroupWork, e: Exception) -> GroupFailure:
    return GroupFailure(work.group_id, "INTERNAL", " ".join(f"worker process lost: {type(e).__name__}: {e}".split()))
