"""Reading while writing: an iterator drained by a thread of its own, a few items ahead.

Decoding and encoding both leave the interpreter free, so a task that would otherwise alternate between them uses a second core
where one is idle (the last task of a stage, a table of one file), and costs no more where none is.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator
from queue import Empty, Full, Queue
from typing import TypeVar

T = TypeVar("T")

_DEPTH = 2
_POLL_S = 0.2


def ahead(items: Iterator[T], depth: int = _DEPTH) -> Generator[T]:
    """The same items; at most ``depth`` of them wait to be taken. What the iterator raises is raised here, after what came before.

    Closing this iterator stops the thread and waits for it, so nothing is read after an error on the taking side.
    """
    waiting: Queue[tuple[T] | BaseException | None] = Queue(depth)
    stopped = threading.Event()

    def put(found: tuple[T] | BaseException | None) -> bool:
        while not stopped.is_set():
            try:
                waiting.put(found, timeout=_POLL_S)
            except Full:
                continue
            return True
        return False

    def drain() -> None:
        end: BaseException | None = None
        try:
            for item in items:
                if not put((item,)):
                    return
        except BaseException as e:  # noqa: BLE001 - raised where the items are taken
            end = e
        put(end)

    thread = threading.Thread(target=drain, name="read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            found = waiting.get()
            if found is None:
                return
            if isinstance(found, BaseException):
                raise found
            yield found[0]
    finally:
        stopped.set()
        while thread.is_alive():
            try:
                waiting.get_nowait()
            except Empty:
                thread.join(_POLL_S)
