"""Keeps decompressed bytes in memory for a while: statistics are often read soon after planning.

The owners hold the bytes (in an attribute that they clear on request); this module limits how many stay in the process.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import Protocol

BUDGET_BYTES = 128 * 1024 * 1024
MOST_OWNERS = 64


class Owner(Protocol):
    """An object that holds bytes and can release them."""

    def drop(self) -> None:
        """Release the bytes."""


class OpenBytes:
    """The last owners that were opened, up to ``budget_bytes`` and ``most_owners``; older ones must release their bytes. Safe to
    use from several threads. This object does not keep an owner alive."""

    def __init__(self, budget_bytes: int = BUDGET_BYTES, most_owners: int = MOST_OWNERS) -> None:
        self._budget, self._most = budget_bytes, most_owners
        self._lock = threading.Lock()
        self._open: deque[tuple[int, weakref.ref[Owner]]] = deque()

    def add(self, owner: Owner, size: int) -> None:
        """``owner`` holds ``size`` bytes that it can release."""
        with self._lock:
            self._open.append((size, weakref.ref(owner)))
            kept = sum(s for s, _ in self._open)
            while kept > self._budget or len(self._open) > self._most:
                freed, oldest = self._open.popleft()
                kept -= freed
                gone = oldest()
                if gone is not None:
                    gone.drop()
