"""Processes of this machine that work for one run, and end with it.

Each is a Python of its own that runs ``worker_main``, with one Arrow thread. It is neither forked (Arrow's threads do not survive a
fork) nor spawned by ``multiprocessing``, which imports the caller's main program in every worker: a script without
``if __name__ == "__main__"`` would append its rows once more in each. A daemonic process may have such workers, too. They end when
their parent is gone, and where a run stops early, before it deletes what they wrote: Ctrl-C in a program that runs jobs itself does
not reach them.

The thread of the run, which an interrupt may reach at any line, takes no lock of the pool while it works: a lock that an interrupt
leaves closed would keep the pool, and the whole program, from ending. Each process has a thread that hands it the work, and the
answers come through a queue that needs no lock in Python.
"""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.spawn import get_executable
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from iceberg_ops.data.arrow_allocator import choose_allocator

T = TypeVar("T")
R = TypeVar("R")

_ENDING_SECONDS, _DYING_SECONDS = 10.0, 1.0
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[2:]; import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "from iceberg_ops.actions.worker_main import main; main(sys.argv[1] or None)"
)
"""Sees the modules that this process sees, whatever lies in the working directory."""


class WorkerLostError(Exception):
    """A worker process ended before it answered: it was killed, for want of memory most often, or could not begin."""


class WorkerProcesses:
    """Up to ``workers`` processes, and a folder for what they spill, for the time of a ``with`` block. When it ends the processes
    have done their work, or it is left early, by an error or by a caller that wants no more answers: then they are ended."""

    def __init__(self, workers: int) -> None:
        choose_allocator()
        self._folder = _temporary_folder()
        self._items: SimpleQueue[_Item | None] = SimpleQueue()
        self._hands = [_Hand(self._items, self._folder) for _ in range(workers)]

    def __enter__(self) -> WorkerProcesses:
        for hand in self._hands:
            hand.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is not None:
                self.end()
            self._give_no_more()
            for hand in self._hands:
                hand.join()
        except BaseException:
            self.end()
            raise
        finally:
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)

    def answers(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, Future[R]]]:
        """``function(item)`` of each item as soon as it is known: the index of the item, and a future that is done. The function is
        one of a module that can be imported. A process that is lost is the error (WorkerLostError) of its item alone. Items that no
        process has begun are given up when the caller stops early."""
        done: SimpleQueue[tuple[int, Future[R]]] = SimpleQueue()
        given = [_Item(index, function, item, done) for index, item in enumerate(items)]
        for each in given:
            self._items.put(each)
        try:
            for _ in given:
                yield done.get()
        finally:
            for each in given:
                each.answer.cancel()

    def end(self) -> None:
        """End the processes at once."""
        for hand in self._hands:
            hand.end()
        self._give_no_more()
        for hand in self._hands:
            hand.join(_ENDING_SECONDS)

    def _give_no_more(self) -> None:
        for _ in self._hands:
            self._items.put(None)


@dataclass(slots=True)
class _Item:
    """A piece of work. ``answer`` is put into ``done`` when it is known."""

    index: int
    function: Callable[[Any], Any]
    argument: object
    done: SimpleQueue[tuple[int, Future[Any]]]
    answer: Future[Any] = field(default_factory=Future)


class _Hand(threading.Thread):
    """Gives items to one process, which it starts for the first of them, and again after it was lost."""

    def __init__(self, items: SimpleQueue[_Item | None], folder: str | None) -> None:
        super().__init__(name="hand-out", daemon=True)
        self._items, self._folder = items, folder
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = False

    def run(self) -> None:
        try:
            while (item := self._items.get()) is not None and not self._ended:
                if item.answer.set_running_or_notify_cancel():
                    self._answer(item)
        finally:
            self._end_process()

    def end(self) -> None:
        """End the process at once; called by another thread."""
        self._ended = True
        if (process := self._process) is not None:
            process.kill()

    def _answer(self, item: _Item) -> None:
        try:
            result, error = pickle.loads(self._asked(pickle.dumps((item.function, item.argument))))
        except BaseException as e:  # noqa: BLE001 - whatever prevents an answer is the answer
            result, error = None, e
        if error is None:
            item.answer.set_result(result)
        else:
            item.answer.set_exception(error)
        item.done.put((item.index, item.answer))

    def _asked(self, request: bytes) -> bytes:
        process = self._process or self._start()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(request, process.stdin)
            process.stdin.flush()
            answer: bytes = pickle.load(process.stdout)
        except (EOFError, OSError, pickle.UnpicklingError) as e:
            code = self._end_process(_DYING_SECONDS)
            raise WorkerLostError(f"it ended with exit code {code} before it answered") from e
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        path = [p or os.getcwd() for p in sys.path if isinstance(p, str)]
        command = [os.fsdecode(get_executable()), *flags, "-c", _PROGRAM, self._folder or "", *path]
        self._process = process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self._ended:  # before there was a process to end
            process.kill()
        return process

    def _end_process(self, seconds: float = 0) -> int | None:
        """Its exit code. It has nothing to do any more, or is about to end by itself within ``seconds``."""
        process, self._process = self._process, None
        if process is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
        process.kill()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):  # a request that was not sent whole
                pipe.close()
        return process.wait()


def usable_cpus() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _temporary_folder() -> str | None:
    """None where there is no space for one: most works spill nothing."""
    try:
        return tempfile.mkdtemp(prefix="iceberg-ops-workers-")
    except OSError:
        return None
