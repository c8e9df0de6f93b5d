"""Ctrl-C while a job works, and the end of the command that started it: both are a KeyboardInterrupt in the main thread.

PySpark's own handler of SIGINT cancels jobs over the connection on which the main thread waits for its job, so that the job ends
with an error of Py4J. Here the signal only raises: Py4J gives the connection up, and what runs is cancelled over another one
(``runners.tagged_jobs``). An error that comes up while the interrupt is on its way (in a terminal Ctrl-C ends the JVM as well) does
not take its place (``came_of_interrupt``).
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

TIDYING_SECONDS = 30.0
"""How long a job whose command is gone may take to delete what it wrote."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Within, SIGINT raises KeyboardInterrupt and does nothing else. Only the main thread has signals: in another nothing
    changes."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def came_of_interrupt(error: BaseException) -> bool:
    """Whether ``error`` is an interrupt, or was raised while one was on its way."""
    seen: set[int] = set()
    found: BaseException | None = error
    while found is not None and id(found) not in seen:
        if isinstance(found, KeyboardInterrupt):
            return True
        seen.add(id(found))
        found = found.__context__
    return False


def end_with_command(pipe: str) -> None:
    """Interrupt this process when the command that started it writes to ``pipe``, and when that command is gone, however it ended.

    The command holds the only end of the pipe that can be written to. The pipe's name is removed when it is open here: so the
    command knows that the job may have begun."""
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reading, True)
    Path(pipe).unlink(missing_ok=True)
    threading.Thread(target=_follow, args=(reading,), name="command", daemon=True).start()


def _follow(reading: int) -> None:
    main = threading.main_thread().ident
    assert main is not None
    while os.read(reading, 1):
        signal.pthread_kill(main, signal.SIGINT)
    signal.pthread_kill(main, signal.SIGINT)
    threading.Event().wait(TIDYING_SECONDS)
    print(f"the command that started this job is gone, and the job did not end in {TIDYING_SECONDS:.0f} s", file=sys.stderr)
    os._exit(1)  # the JVM ends with its Python program
