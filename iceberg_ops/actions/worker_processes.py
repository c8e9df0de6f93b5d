"""Processes of this machine that work for one run, and end with it.

They are spawned, never forked (Arrow's threads do not survive a fork), and each has one Arrow thread. They end when their parent is
gone, and where a run stops early, before it deletes what they wrote: Ctrl-C in a program that runs jobs itself does not reach them.

The thread of the run, which an interrupt may reach at any line, takes no lock of the pool while it works: a lock that an interrupt
leaves closed would keep the pool, and the whole program, from ending. Another thread hands out the work, and the answers come
through a queue that needs no lock in Python.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from functools import partial
from queue import SimpleQueue
from types import TracebackType
from typing import Generic, TypeVar

import pyarrow as pa

from iceberg_ops.config.secrets import hide_in_logs
from iceberg_ops.data.arrow_allocator import choose_allocator
from iceberg_ops.data.pandas_kept_out import keep_pandas_out

T = TypeVar("T")
R = TypeVar("R")

_ENDING_SECONDS = 10.0


class WorkerProcesses:
    """Up to ``workers`` processes, and a folder for what they spill, for the time of a ``with`` block. When it ends the processes
    have done their work, or it is left early, by an error or by a caller that wants no more answers: then they are ended."""

    def __init__(self, workers: int) -> None:
        choose_allocator()
        self._folder = _temporary_folder()
        self._handing_out: list[_HandingOut[object]] = []
        self._pool = ProcessPoolExecutor(
            workers, mp_context=multiprocessing.get_context("spawn"), initializer=begin_worker, initargs=(self._folder,)
        )

    def __enter__(self) -> WorkerProcesses:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is not None:
                self.end()
            self._pool.shutdown(wait=True, cancel_futures=True)
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def answers(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, Future[R]]]:
        """``function(item)`` of each item as soon as it is known: the index of the item, and a future that is done. A process that
        is lost is the error of its items. Items that no process has begun are given up when the caller stops early."""
        work = _HandingOut(self._pool, function, items)
        self._handing_out.append(work)  # type: ignore[arg-type]
        try:
            for _ in items:
                yield work.done.get()
        finally:
            work.stop()

    def end(self) -> None:
        """End the processes at once."""
        for work in self._handing_out:
            work.stop()
        workers = list((self._pool._processes or {}).values())
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join(_ENDING_SECONDS)


class _HandingOut(Generic[R]):
    """A thread that gives items to a pool, in order. ``done`` gets an answer for each of them."""

    def __init__(self, pool: ProcessPoolExecutor, function: Callable[[T], R], items: Sequence[T]) -> None:
        self.done: SimpleQueue[tuple[int, Future[R]]] = SimpleQueue()
        self._pending: list[Future[R]] = []
        self._stopped = False
        self._thread = threading.Thread(target=self._give, args=(pool, function, items), name="hand-out", daemon=True)
        self._thread.start()

    def _give(self, pool: ProcessPoolExecutor, function: Callable[[T], R], items: Sequence[T]) -> None:
        for index, item in enumerate(items):
            if self._stopped:
                return
            try:
                future = pool.submit(function, item)
            except Exception as e:  # noqa: BLE001 - a pool that is broken, or cannot start a process, is the item's answer
                future = Future()
                future.set_exception(e)
            self._pending.append(future)
            future.add_done_callback(partial(self._answered, index))

    def _answered(self, index: int, answer: Future[R]) -> None:
        self.done.put((index, answer))

    def stop(self) -> None:
        self._stopped = True
        self._thread.join(_ENDING_SECONDS)
        for future in self._pending:
            future.cancel()


def begin_worker(folder: str | None = None) -> None:
    """Workers share the CPUs by processes, so each keeps to one. They are processes of our own, which need no pandas. ``folder``:
    where they spill."""
    threading.Thread(target=_end_with_parent, args=(folder,), name="parent", daemon=True).start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides: a terminal sends Ctrl-C to workers as well
    tempfile.tempdir = folder
    keep_pandas_out()
    hide_in_logs()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(2)


def usable_cpus() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _end_with_parent(folder: str | None) -> None:
    """A worker that waits for work of a parent that was killed would wait for ever: it holds an end of the queue itself."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _temporary_folder() -> str | None:
    """None where there is no space for one: most works spill nothing."""
    try:
        return tempfile.mkdtemp(prefix="iceberg-ops-workers-")
    except OSError:
        return None
