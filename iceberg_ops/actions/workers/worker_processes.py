"""Worker processes of this machine, which work for one run and end with it.

Each is a separate Python that runs ``worker_main``, with one Arrow thread. It is neither forked (Arrow's threads do not survive a
fork) nor spawned by ``multiprocessing``, which imports the caller's main program in every worker: a script without
``if __name__ == "__main__"`` would append its rows once more in each. A daemonic process may also have such workers. They end when
their parent is gone, and if a run stops early, before it deletes their files: Ctrl-C in a program that runs jobs itself does not
reach them.

The thread of the run, which an interrupt may reach at any line, takes no lock of the pool while it works: a lock that an interrupt
leaves closed would prevent the pool, and the whole program, from ending. Each process has a thread that passes work to it, and the
answers come through a queue that needs no lock in Python.

Requests and answers use two separate pipes (``worker_frames``). A worker's standard input is empty, and its standard output is this
process's standard error from its first instruction, so that nothing it prints is taken for an answer.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from io import FileIO
from multiprocessing.spawn import get_executable
from queue import SimpleQueue
from types import TracebackType
from typing import Any, TypeVar

from iceberg_ops.actions.workers.worker_frames import receive, send
from iceberg_ops.data.arrow.arrow_allocator import choose_allocator
from iceberg_ops.io.machine_limits import limit_error

T = TypeVar("T")
R = TypeVar("R")

_ENDING_SECONDS, _DYING_SECONDS = 10.0, 1.0
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[4:]; import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "from iceberg_ops.actions.workers.worker_main import main; main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] or None)"
)
"""The worker finds the modules that this process finds, whatever is in the working directory."""


class WorkerLostError(Exception):
    """A worker process gave no answer: it was killed (most often for lack of memory), could not be started, or its answer could not
    be read. The message says which."""


class WorkerProcesses:
    """Up to ``workers`` processes, and a folder for their spills, for the time of a ``with`` block. If the block ends normally, the
    processes have done their work; if it is left early, by an error or a caller that stops, the processes are ended."""

    def __init__(self, workers: int) -> None:
        choose_allocator()
        self._folder = _temporary_folder()
        self._items: SimpleQueue[_Item | None] = SimpleQueue()
        prints = _has_standard_error()
        self._threads = [_WorkerThread(self._items, self._folder, prints) for _ in range(workers)]

    def __enter__(self) -> WorkerProcesses:
        try:
            for thread in self._threads:
                thread.start()
        except BaseException:  # no thread can be started, or an interrupt came
            self.end()
            self._remove_folder()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            if error is not None:
                self.end()
            self._close_requests()
            for thread in self._threads:
                thread.join()
        except BaseException:
            self.end()
            raise
        finally:
            self._remove_folder()

    def answers(self, function: Callable[[T], R], items: Sequence[T]) -> Iterator[tuple[int, Future[R]]]:
        """``function(item)`` of each item as soon as it is done: the index of the item, and a finished future. The function must be
        one of an importable module. A lost process is an error (WorkerLostError) of its item only. Items that no process has begun
        are dropped if the caller stops early."""
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
        for thread in self._threads:
            thread.end()
        self._close_requests()
        for thread in self._threads:
            if thread.is_alive():  # a thread that was not started cannot be joined
                thread.join(_ENDING_SECONDS)

    def _remove_folder(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _close_requests(self) -> None:
        for _ in self._threads:
            self._items.put(None)


@dataclass(slots=True)
class _Item:
    """A piece of work. ``answer`` is put into ``done`` when it is complete."""

    index: int
    function: Callable[[Any], Any]
    argument: object
    done: SimpleQueue[tuple[int, Future[Any]]]
    answer: Future[Any] = field(default_factory=Future)


@dataclass(frozen=True, slots=True)
class _Worker:
    """A process, and this end of its pipes."""

    process: subprocess.Popen[bytes]
    requests: FileIO
    answers: FileIO


class _WorkerThread(threading.Thread):
    """Gives items to one process, which it starts for the first item, and again after a loss."""

    def __init__(self, items: SimpleQueue[_Item | None], folder: str | None, prints: bool) -> None:
        super().__init__(name="worker-process", daemon=True)
        self._items, self._folder, self._prints = items, folder, prints
        self._worker: _Worker | None = None
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
        if (worker := self._worker) is not None:
            worker.process.kill()

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

    def _asked(self, request: bytes) -> bytearray:
        """After any error the process is ended: its late output could be taken for the answer to the next request."""
        worker = self._worker or self._start()
        try:
            send(worker.requests, request)
            return receive(worker.answers)
        except (EOFError, OSError) as e:
            code = self._end_process(_DYING_SECONDS)
            lost = f"a worker process was killed (out of memory?): it ended with exit code {code} before it answered"
            raise WorkerLostError(lost) from e
        except BaseException as e:
            self._end_process()
            raise WorkerLostError(f"the answer of a worker process could not be read: {type(e).__name__}: {e}") from e

    def _start(self) -> _Worker:
        """Raises WorkerLostError if the machine has no room for a process, MachineLimitError if files cannot be opened."""
        try:
            self._worker = worker = _started(self._folder, self._prints)
        except (OSError, MemoryError) as e:
            if isinstance(e, OSError) and (limit := limit_error(e)) is not None:
                raise limit from e
            raise WorkerLostError(f"a worker process could not be started: {type(e).__name__}: {e}") from e
        if self._ended:  # before there was a process to end
            worker.process.kill()
        return worker

    def _end_process(self, seconds: float = 0) -> int | None:
        """Its exit code. It has nothing left to do, or is about to end by itself within ``seconds``."""
        worker, self._worker = self._worker, None
        if worker is None:
            return None
        with suppress(subprocess.TimeoutExpired):
            worker.process.wait(seconds)
        worker.process.kill()
        worker.requests.close()
        worker.answers.close()
        return worker.process.wait()


def _started(folder: str | None, prints: bool) -> _Worker:
    """A new process, which has the other ends of its pipes. If it cannot be started, no pipe is left open. ``prints``: to this
    process's standard error; else nowhere."""
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    path = [entry for p in sys.path if isinstance(p, str) and (entry := p or _working_folder())]
    with ExitStack() as theirs, ExitStack() as ours:
        output, errors = (2, None) if prints else (subprocess.DEVNULL, subprocess.DEVNULL)
        for_requests, requests = _pipe(theirs, ours)
        answers, for_answers = _pipe(ours, theirs)
        ends = (for_requests.fileno(), for_answers.fileno())
        command = [os.fsdecode(get_executable()), *flags, "-c", _PROGRAM, *map(str, ends), folder or "", *path]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, pass_fds=ends)
        ours.pop_all()
    return _Worker(process, requests, answers)


def _pipe(reader: ExitStack, writer: ExitStack) -> tuple[FileIO, FileIO]:
    """Its ends, which the stacks close. Their numbers are above those of the standard streams, even if these are closed here."""
    read_fd, write_fd = os.pipe()
    try:
        read = reader.enter_context(FileIO(fcntl.fcntl(read_fd, fcntl.F_DUPFD_CLOEXEC, 3), "rb"))
        return read, writer.enter_context(FileIO(fcntl.fcntl(write_fd, fcntl.F_DUPFD_CLOEXEC, 3), "wb"))
    finally:
        os.close(read_fd)
        os.close(write_fd)


def _working_folder() -> str | None:
    """None if it was removed: then it contains no modules."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return None


def _has_standard_error() -> bool:
    """Call this before a pipe or a file of the run is opened: if standard error is closed, the next opened one gets its number."""
    if sys.__stderr__ is None:  # closed when Python started
        return False
    try:
        os.fstat(2)
    except OSError:
        return False
    return True


def usable_cpus() -> int:
    """CPUs this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _temporary_folder() -> str | None:
    """None if there is no space for one: most units of work spill nothing."""
    try:
        return tempfile.mkdtemp(prefix="iceberg-ops-workers-")
    except OSError:
        return None
