"""Decompressed bytes that stay in memory a while: whoever has just planned often asks for statistics next.

The bytes are their owners' (an attribute that they drop when told to); here is only how many stay. Bounded for the process.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Protocol

BUDGET_BYTES = 128 * 1024 * 1024
MOST_OWNERS = 64


class Owner(Protocol):
    def drop(self) -> None:
        """Let go of the bytes."""


class OpenBytes:
    """The owners that opened last, up to ``budget_bytes`` and ``most_owners``; older ones are told to drop. Safe to use from
    several threads. An owner is not kept alive by being here."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES, most_owners: int = MOST_OWNERS) -> None:
        self._budget, self._most = budget_bytes, most_owners
        self._lock = threading.Lock()
        self._open: deque[tuple[int, weakref.ref[Owner]]] = deque()

    def add(self, owner: Owner, size: int) -> None:
        """``owner`` holds ``size`` bytes that it could do without."""
        with self._lock:
            self._open.append((size, weakref.ref(owner)))
            kept = sum(s for s, _ in self._open)
            while kept > self._budget or len(self._open) > self._most:
                freed, oldest = self._open.popleft()
                kept -= freed
                gone = oldest()
                if gone is not None:
                    gone.drop()
