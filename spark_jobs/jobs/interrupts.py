"""Ctrl-C during a job, and the end of the command that started it: both become a KeyboardInterrupt in the main thread.

PySpark's own SIGINT handler cancels jobs over the connection on which the main thread waits for its job, so that the job ends
with an error of Py4J. Here the signal only raises: Py4J closes the connection, and running jobs are cancelled over another one
(``runners.tagged_jobs``). An error that is raised while the interrupt is pending (in a terminal Ctrl-C also ends the JVM) does
not replace it (``came_of_interrupt``).
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
"""How long a job may take to delete its files after its command is gone."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Within this context SIGINT raises KeyboardInterrupt and does nothing else. Only the main thread handles signals: in other
    threads nothing changes."""
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
    """Whether ``error`` is an interrupt, or was raised while one was pending."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        if isinstance(current, KeyboardInterrupt):
            return True
        seen.add(id(current))
        current = current.__context__
    return False


def end_with_command(pipe: str) -> None:
    """Interrupt this process when the command that started it writes to ``pipe``, or when that command is gone, however it ended.

    The command has the only writing end of the pipe. The pipe's name is removed when this process has opened it: this shows the
    command that the job may have begun."""
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
