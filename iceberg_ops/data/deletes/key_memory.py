"""Limits the memory of delete keys that all threads of a process hold while they read them.

Sets are read in parallel as long as all together take no more than the largest allowed single one. A thread that would exceed this
releases its memory and reads its set again alone: then no other thread reads, and it has the whole limit. So no thread waits for
another while it holds memory, and later threads cannot delay a waiting one for ever.

Locks are taken in one order: ``_entrance`` (lets one reader in at a time), ``_room`` (held by all parallel readers together, or by
a single reader), ``_guard`` (protects the counts). Code never waits while holding ``_guard``, which every reader needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LockMaker = Callable[[], threading.Lock]


class KeyMemory:
    """Counts bytes; it holds no data itself."""

    def __init__(self, lock: LockMaker = threading.Lock) -> None:
        self._guard, self._room, self._entrance = lock(), lock(), lock()
        self._readers = 0
        self.held = 0
        """Bytes of all current readers."""

    @contextmanager
    def beside(self) -> Iterator[Share]:
        """Read in parallel with others."""
        with self._entrance:
            if self._readers_with(1) == 1:
                try:
                    self._room.acquire()  # free now or soon: the last reader has left, and no other thread has the entrance
                except BaseException:  # an interrupt: this reader did not enter
                    self._readers_with(-1)
                    raise
        share = Share(self)
        try:
            yield share
        finally:
            self.add(-share.bytes)
            if not self._readers_with(-1):
                self._room.release()

    @contextmanager
    def alone(self) -> Iterator[Share]:
        """Read alone; waits until the current readers have finished."""
        with self._entrance, self._room:
            share = Share(self)
            try:
                yield share
            finally:
                self.add(-share.bytes)

    def add(self, bytes_: int) -> int:
        """Bytes held by all, including these."""
        with self._guard:
            self.held += bytes_
            return self.held

    def _readers_with(self, more: int) -> int:
        with self._guard:
            self._readers += more
            return self._readers


class Share:
    """The memory of one thread."""

    def __init__(self, memory: KeyMemory) -> None:
        self._memory = memory
        self.bytes = 0

    def take(self, bytes_: int, limit: int) -> bool:
        """Whether all threads together hold no more than ``limit`` including these bytes, which are counted from now on."""
        self.bytes += bytes_
        return self._memory.add(bytes_) <= limit
