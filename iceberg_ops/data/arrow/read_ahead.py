"""Reads while writing: a thread iterates the input, a few items ahead.

Decoding and encoding both release the interpreter's lock. So a task that would otherwise alternate between them uses a second core
if one is idle (the last task of a stage, a table of one file), and costs no more if none is. A writer collects a whole row group
and then encodes it for a while; its reader stays busy only if about a row group may wait.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

_DEPTH = 2


def _one(_: object) -> int:
    return 1


def prefetched(items: Iterator[T], depth: int = _DEPTH, size_of: Callable[[T], int] = _one) -> Generator[T]:
    """The same items; the next is read while the waiting items are together smaller than ``depth`` (``size_of`` gives the size of
    an item: 1, or for example bytes). An error of the iterator is raised here, after the items before it.

    Closing this iterator stops the thread and waits for it, so nothing is read after an error of the consumer.
    """
    waiting: _Waiting[T] = _Waiting(depth, size_of)
    thread = threading.Thread(target=waiting.drain, args=(items,), name="read-ahead", daemon=True)
    thread.start()
    try:
        yield from waiting.taken()
    finally:
        waiting.stop()
        thread.join()


class _Waiting(Generic[T]):
    """The items between the thread that reads and the consumer."""

    def __init__(self, depth: int, size_of: Callable[[T], int]) -> None:
        self._depth, self._size_of = depth, size_of
        self._items: deque[tuple[T, int]] = deque()
        self._held = 0
        self._changed = threading.Condition()
        self._stopped = self._ended = False
        self._error: BaseException | None = None

    def drain(self, items: Iterator[T]) -> None:
        try:
            for item in items:
                if not self._put(item):
                    return
        except BaseException as e:  # noqa: BLE001 - raised where the items are taken
            self._error = e
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _put(self, item: T) -> bool:
        size = self._size_of(item)
        with self._changed:
            self._changed.wait_for(lambda: self._stopped or self._held < self._depth)
            if self._stopped:
                return False
            self._items.append((item, size))
            self._held += size
            self._changed.notify_all()
            return True

    def taken(self) -> Generator[T]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._ended)
                if not self._items:
                    break
                item, size = self._items.popleft()
                self._held -= size
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._items.clear()
            self._changed.notify_all()
