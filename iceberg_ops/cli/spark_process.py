"""spark-submit as a child process that ends with this command, and the result of its job.

The command waits for it (not for processes that it leaves behind, see ``child_output``), passes its output on, and records whether
it ended with a line ``error: CODE: message``. Ctrl-C, SIGTERM and SIGHUP end the child, with its process group, before the command
itself ends: Spark must not continue, and commit, without it. A running job is first interrupted through a pipe, so that it deletes
its files and writes its report. The pipe also ends the job of a killed command: then it has no writer.
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
from pathlib import Path
from types import FrameType

from iceberg_ops.cli.child_output import output_until

_ERROR = re.compile(rb"error: [A-Z_]+: ")
_TERM_SECONDS = 10.0
"""From SIGTERM to SIGKILL: a JVM needs about a second for its shutdown hooks."""
_TIDYING_SECONDS = 60.0
"""How long a job may take to end after a Ctrl-C. After another signal the command waits less and then kills it."""
_STOPS = (signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class ProcessEnd:
    """How spark-submit ended: its exit code (128 + n for signal n), and whether its output contains an error line."""

    exit_code: int
    said_why: bool = False


class _Stopped(BaseException):
    """A signal asks this process to end; running children must be ended first."""


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Within this context SIGTERM and SIGHUP unwind the block, so that its files and its child are removed, and then end the
    process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    caught: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in _STOPS:
            signal.signal(each, signal.SIG_IGN)  # only the first signal counts: a second one must not interrupt the clean-up
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


class CommandPipe:
    """A named pipe whose only writing end belongs to this process. The job opens it when it begins, and removes
    its name (``spark_jobs.jobs.interrupts``)."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "command.pipe"
        os.mkfifo(self.path, 0o600)
        reading = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)  # a writing end can only be opened if a reader exists
        self._writing = os.open(self.path, os.O_WRONLY | os.O_NONBLOCK)
        os.close(reading)

    @property
    def has_begun(self) -> bool:
        """Whether the job has opened it: before that it cannot have changed anything."""
        return not self.path.exists()

    def interrupt(self) -> None:
        """Interrupt the job, if it has not ended."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._writing, b"!")

    def close(self) -> None:
        """Close the pipe: this interrupts a job that is still running."""
        os.close(self._writing)


def run_to_end(command: Sequence[str], environment: Mapping[str, str], pipe: CommandPipe) -> ProcessEnd:
    """Run the command; its output goes to standard error. However this call ends, the command and its children have ended.

    After a Ctrl-C it returns how the interrupted job ended; it raises KeyboardInterrupt if the job had not begun."""
    process = subprocess.Popen(
        command, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, process_group=0
    )
    output = _Output(process)
    try:
        try:
            output.copy_to_stderr()
        except (KeyboardInterrupt, _Stopped) as e:
            if not pipe.has_begun:
                raise
            pipe.interrupt()
            seconds = _TIDYING_SECONDS if isinstance(e, KeyboardInterrupt) else _TERM_SECONDS
            with _ended_after(seconds, process), contextlib.suppress(KeyboardInterrupt):
                output.copy_to_stderr()  # A second Ctrl-C ends the job at once.
            if isinstance(e, _Stopped):
                raise
            _end_group(process)
        code = process.wait()
        return ProcessEnd(code if code >= 0 else 128 - code, output.said_why)
    finally:
        _end_group(process)


class _Output:
    """The output of a process, and whether one of its lines gives the reason for its failure."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        over = threading.Event()
        self._lines = output_until(over, process.stdout.fileno())
        self.said_why = False

        def wait() -> None:
            process.wait()
            over.set()

        threading.Thread(target=wait, daemon=True).start()

    def copy_to_stderr(self) -> None:
        """Copy it to standard error until the process has ended."""
        for line in self._lines:
            self.said_why = self.said_why or _ERROR.match(line) is not None
            sys.stderr.write(line.decode(errors="backslashreplace"))
            sys.stderr.flush()


@contextlib.contextmanager
def _ended_after(seconds: float, process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Within this context the process group is killed after that number of seconds."""

    def kill() -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the child's process group, if any process of it is left."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TERM_SECONDS)
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
