"""spark-submit as a child that ends with this command, and that says how its job ended.

The command waits for it, hands its output on, and remembers whether it ended with a line ``error: CODE: message``. Ctrl-C, SIGTERM
and SIGHUP end the child, with its process group, before the command itself ends: Spark must not go on, and commit, without it.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

_ERROR = re.compile(rb"error: [A-Z_]+: ")
_TERM_SECONDS = 10.0
"""From SIGTERM to SIGKILL: a JVM needs about a second for its shutdown hooks."""
_STOPS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Ended:
    """How spark-submit ended: its exit code (128 + n for signal n), and whether its output has the line of an error."""

    exit_code: int
    said_why: bool = False


class _Stopped(BaseException):
    """A signal asks this process to end; what runs must be ended first."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Within: SIGTERM and SIGHUP unwind the block, so that its files and its child are removed, and then end the process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in _STOPS:
            signal.signal(each, signal.SIG_IGN)  # the first one counts: a second one must not cut the tidying short
        caught.append(number)
        raise _Stopped

    before = {number: signal.getsignal(number) for number in _STOPS}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # nohup
            signal.signal(number, stop)
    try:
        yield
    except _Stopped:
        signal.signal(caught[0], signal.SIG_DFL)
        os.kill(os.getpid(), caught[0])
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run_to_end(command: Sequence[str], environment: Mapping[str, str]) -> Ended:
    """Run the command; its output goes to standard error. However this call ends, the command and its children have ended."""
    process = subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0
    )
    said_why = False
    try:
        assert process.stdout is not None
        for line in process.stdout:
            said_why = said_why or _ERROR.match(line) is not None
            sys.stderr.write(line.decode(errors="backslashreplace"))
            sys.stderr.flush()
        code = process.wait()
        return Ended(code if code >= 0 else 128 - code, said_why)
    finally:
        _end_group(process)


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the child's process group, if any of it is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TERM_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
