"""The lane without a JVM: file groups rewritten in worker processes of this machine.

Works that together are small run in this process, because starting an interpreter with Arrow costs about half a second, which is
what a core rewrites of 20 MB. Larger runs use a pool of spawned processes (never forked: Arrow's threads do not survive a fork),
at most one per CPU, each with one Arrow thread; a large sort is done by all of them in two stages (``staged_sort``). Tables in
memory live in this process only, so their works never leave it.

The rules upheld: one work's failure is an answer, not an exception; a pool that dies is an answer for each work it had. No worker
outlives its work: workers end when their parent is gone, and are ended before an interrupted run deletes what they wrote.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, as_completed, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial

import pyarrow as pa

from iceberg_ops.actions.runner import GroupFailure, Stage, work_bytes
from iceberg_ops.actions.stage_answers import answer_of_stage, attempt_stage, share_of_sort
from iceberg_ops.data.arrow_allocator import choose_allocator
from iceberg_ops.data.pandas_kept_out import keep_pandas_out
from iceberg_ops.data.rewrite import GroupResult, GroupWork, rewrite_group
from iceberg_ops.data.staged_sort import is_staged, sorted_in_stages, stage_parts
from iceberg_ops.errors import IcebergOpsError, RetryableError
from iceberg_ops.io.machine_limits import typed_limits

INLINE_BYTES = 24 * 2**20
_INTERRUPTS = (KeyboardInterrupt, SystemExit, MemoryError)
_ENDING_SECONDS = 10.0


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

    def _is_staged(self, work: GroupWork) -> bool:
        return is_staged(work) and work_bytes(work) > self.inline_bytes

    def _sorted(self, work: GroupWork, pool: ProcessPoolExecutor) -> GroupResult | GroupFailure:
        def run_all(stage: Callable[[str], str], texts: list[str]) -> list[str]:
            found = []
            try:
                for done, text in enumerate(pool.map(partial(attempt_stage, stage), texts), 1):
                    found.append(answer_of_stage(text))
                    self._told(work.group_id, share_of_sort(stage, done, len(texts)))
            except _INTERRUPTS:
                _end(pool)  # before what is staged is cleared
                raise
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
        waiting = sorted((work for work in works if not self._is_staged(work)), key=work_bytes)
        running: dict[Future[GroupResult | GroupFailure], GroupWork] = {}
        with _pool(self.workers if staged else min(self.workers, len(works))) as pool:
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


def attempt(work: GroupWork) -> GroupResult | GroupFailure:
    """Do one work; whatever goes wrong becomes a GroupFailure."""
    try:
        with typed_limits():
            return rewrite_group(work)
    except IcebergOpsError as e:
        return GroupFailure(work.group_id, e.code, str(e))
    except Exception as e:  # noqa: BLE001 - a worker must answer for every work; the report carries the message
        return GroupFailure(work.group_id, "INTERNAL", " ".join(f"{type(e).__name__}: {e}".split()))


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Worker processes, with a folder for what they spill. When the block ends they finish what has begun, except after an
    interrupt: Ctrl-C in a program that runs jobs itself does not reach them, so they are ended, and what they wrote can be
    deleted."""
    choose_allocator()
    with _temporary_folder() as folder:
        pool = ProcessPoolExecutor(
            workers, mp_context=multiprocessing.get_context("spawn"), initializer=begin_worker, initargs=(folder,)
        )
        try:
            yield pool
        except _INTERRUPTS:
            _end(pool)
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def _temporary_folder() -> Iterator[str | None]:
    """None where there is no space for one: most works spill nothing."""
    try:
        folder = tempfile.mkdtemp(prefix="iceberg-ops-workers-")
    except OSError:
        yield None
        return
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end(pool: ProcessPoolExecutor) -> None:
    workers = list((pool._processes or {}).values())
    for worker in workers:
        worker.terminate()
    for worker in workers:
        worker.join(_ENDING_SECONDS)


def begin_worker(folder: str | None = None) -> None:
    """Workers share the CPUs by processes, so each keeps to one. They are processes of our own, which need no pandas. ``folder``:
    where they spill."""
    threading.Thread(target=_end_with_parent, args=(folder,), name="parent", daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides: a terminal sends Ctrl-C to workers as well
    tempfile.tempdir = folder
    keep_pandas_out()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)


def _end_with_parent(folder: str | None) -> None:
    """A worker that waits for work of a parent that was killed would wait for ever: it holds an end of the queue itself."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


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
