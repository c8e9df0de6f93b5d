"""How much of delete keys all threads of a process may hold while they read them.

Sets are read beside one another as long as that is not more, all together, than the largest single one may be. Whoever would go
beyond gives back what it holds and reads its set again alone: then nobody else reads, and the bound is its own. So no thread waits
for another while it holds something, and those who begin later cannot keep one that waits from its turn.

Locks are taken in one order: the entrance, the room, the guard. Nothing is waited for with the guard, which every reader needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

LockMaker = Callable[[], threading.Lock]


class KeyMemory:
    """Counts bytes; holds none."""

    def __init__(self, lock: LockMaker = threading.Lock) -> None:
        self._guard, self._room, self._entrance = lock(), lock(), lock()
        self._readers = 0
        self.held = 0
        """Bytes of all who read now."""

    @contextmanager
    def beside(self) -> Iterator[Share]:
        """Read while others do."""
        with self._entrance:
            if self._readers_with(1) == 1:
                try:
                    self._room.acquire()  # free, or about to be: the last reader has left, and nobody else is at the entrance
                except BaseException:  # an interrupt: this reader never came in
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
        """Read while nobody else does; waits until those who read have done."""
        with self._entrance, self._room:
            share = Share(self)
            try:
                yield share
            finally:
                self.add(-share.bytes)

    def add(self, bytes_: int) -> int:
        """Bytes held by all, with these."""
        with self._guard:
            self.held += bytes_
            return self.held

    def _readers_with(self, more: int) -> int:
        with self._guard:
            self._readers += more
            return self._readers


class Share:
    """What one thread holds."""

    def __init__(self, memory: KeyMemory) -> None:
        self._memory = memory
        self.bytes = 0

    def take(self, bytes_: int, limit: int) -> bool:
        """Whether all threads together hold no more than ``limit`` with these bytes, which are held from now on."""
        self.bytes += bytes_
        return self._memory.add(bytes_) <= limit
