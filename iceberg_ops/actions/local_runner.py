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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial

import pyarrow as pa

from iceberg_ops.actions.runner import GroupFailure, Stage, work_bytes
from iceberg_ops.actions.stage_answers import answer_of_stage, attempt_stage, share_of_sort
from iceberg_ops.data.arrow_allocator import choose_allocator
from iceberg_ops.data.pandas_kept_out import keep_pandas_out
from iceberg_ops.data.rewrite import GroupResult, GroupWork, rewrite_group
from iceberg_ops.data.staged_sort import is_staged, sorted_in_stages, stage_parts
from iceberg_ops.errors import IcebergOpsError, RetryableError

INLINE_BYTES = 24 * 2**20


class LocalRunner:
    """``workers`` None: one per usable CPU. ``inline_bytes``: up to this many input bytes in all, no process is started."""

    name = "local"

    def __init__(self, *, workers: int | None = None, inline_bytes: int = INLINE_BYTES) -> None:
        self.workers = workers or usable_cpus()
        self.inline_bytes = inline_bytes
        self._told: Callable[[str, float], None] = lambda group_id, share: None

    def watch(self, told: Callable[[str, float], None]) -> None:
        """See ``WatchedRunner``."""
        self._told = told

    def limited(self, works_at_a_time: int) -> LocalRunner:
        """The same runner with no more than that many works at a time."""
        return LocalRunner(workers=min(self.workers, works_at_a_time), inline_bytes=self.inline_bytes)

    def run(self, works: Sequence[GroupWork]) -> Iterator[GroupResult | GroupFailure]:
        """See ``RewriteRunner.run``."""
        in_memory = any(work.io_properties.get("io-impl") == "memory" for work in works)
        divisible = len(works) > 1 or any(self._is_staged(work) for work in works)
        if in_memory or not divisible or self.workers < 2 or sum(map(work_bytes, works)) <= self.inline_bytes:
            yield from map(attempt, works)
        else:
            yield from self._in_processes(works)

    @property
    def hands(self) -> int:
        return self.workers

    def spread(self, stage: Stage, texts: Sequence[str]) -> Iterator[str]:
        """See ``SpreadingRunner``: in worker processes, a single text in this one."""
        if len(texts) < 2 or self.workers < 2:
            yield from map(stage, texts)
            return
        with _pool(min(self.workers, len(texts))) as pool:
            pending = [pool.submit(attempt_stage, stage, text) for text in texts]
            try:
                yield from (answer_of_stage(future.result()) for future in as_completed(pending))
            except BrokenProcessPool as e:
                raise RetryableError(f"worker process lost: {e}") from e
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def _is_staged(self, work: GroupWork) -> bool:
        return is_staged(work) and work_bytes(work) > self.inline_bytes

    def _sorted(self, work: GroupWork, pool: ProcessPoolExecutor) -> GroupResult | GroupFailure:
        def run_all(stage: Callable[[str], str], texts: list[str]) -> list[str]:
            found = []
            for done, text in enumerate(pool.map(partial(attempt_stage, stage), texts), 1):
                found.append(answer_of_stage(text))
                self._told(work.group_id, share_of_sort(stage, done, len(texts)))
            return found

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
        pool = _pool(self.workers if staged else min(self.workers, len(works)))
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


def _pool(workers: int) -> ProcessPoolExecutor:
    choose_allocator()
    return ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn"), initializer=one_arrow_thread)


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
