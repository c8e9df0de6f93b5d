"""Threads that share memory for keys all finish, whatever the moments at which they are interrupted."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from iceberg_ops.data.deletes.key_memory import KeyMemory

THREADS, SECONDS, PATIENCE = 4, 0.7, 5.0
LIMIT, BYTES = 10, 6
"""One share of these bytes fits within the limit, two do not."""


class HandingOver:
    """A lock whose taker lets other threads run first: what may happen between two locks does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self) -> None:
        time.sleep(0.0001)
        self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


@pytest.fixture(autouse=True)
def often_interrupted() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def finished(memory: KeyMemory, check: Callable[[], None]) -> list[int]:
    """Rounds of each thread that came to its end; daemons, so that threads that wait for each other do not hold up the run."""
    end, rounds = time.monotonic() + SECONDS, list[int]()

    def work() -> None:
        done = 0
        while time.monotonic() < end:
            with memory.beside() as share:
                full = not share.take(BYTES, LIMIT)
            if full:
                with memory.alone() as share:
                    assert share.take(BYTES, LIMIT), "alone, the bound is its own"
                    check()
            done += 1
        rounds.append(done)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + SECONDS + PATIENCE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return rounds


@pytest.mark.parametrize("lock", [threading.Lock, HandingOver])
def test_threads_that_read_beside_others_and_alone_do_not_wait_for_each_other(lock: Callable[[], threading.Lock]) -> None:
    memory = KeyMemory(lock)
    rounds = finished(memory, lambda: None)
    assert len(rounds) == THREADS, f"{THREADS - len(rounds)} threads still wait"
    assert not memory.held


def test_one_that_reads_alone_is_alone() -> None:
    memory, inside = KeyMemory(HandingOver), list[bool]()  # type: ignore[arg-type]

    def check() -> None:
        inside.append(memory.held == BYTES)

    assert len(finished(memory, check)) == THREADS
    assert inside, "no thread was alone"
    assert all(inside)


class InterruptedOnce(HandingOver):
    """A lock that a Ctrl-C meets the first time it is waited for by name."""

    interrupts = 1

    def acquire(self) -> None:
        if InterruptedOnce.interrupts and sys._getframe(1).f_code.co_name == "beside":
            InterruptedOnce.interrupts = 0
            raise KeyboardInterrupt
        super().acquire()


def test_a_reader_that_is_interrupted_while_it_waits_counts_no_more() -> None:
    """It counted for ever: the next reader entered beside one that read alone, and both held the memory that only one may hold."""
    memory = KeyMemory(InterruptedOnce)
    with pytest.raises(KeyboardInterrupt), memory.beside():
        pass
    entered = threading.Event()

    def reads() -> None:
        with memory.beside():
            entered.set()

    with memory.alone():
        reader = threading.Thread(target=reads, daemon=True)
        reader.start()
        assert not entered.wait(0.3)
    reader.join(PATIENCE)
    assert entered.is_set()
