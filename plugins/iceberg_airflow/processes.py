"""The processes of one task: code that opens catalogs and tables, and every engine, runs outside the worker and ends with the task.

Every command runs under ``guard.py`` in a separate session. Stopping the task (``kill``, from Airflow's ``on_kill``) ends the
whole session: the engine, its JVM, Python drivers and workers. A stopped task starts no more processes. If a task is killed
by SIGKILL, the guard's standard input closes, which ends the session as well.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from iceberg_airflow import guard
from iceberg_airflow.outcome import ProcessEnd, error_of_line
from iceberg_ops.cli.child_output import output_until
from iceberg_ops.errors import IcebergOpsError, JobDiedError, OptionError, RetryableError

PLUGINS_FOLDER = Path(__file__).resolve().parents[1]
_GUARD_SECONDS = 15.0
"""The guard ends a session within 12 seconds (2 of grace, 10 of SIGKILL)."""


@dataclass(slots=True)
class Processes:
    """Starts the processes of one task, one at a time, and ends them."""

    _stopped: bool = False
    _running: _Guarded | None = field(default=None, repr=False)

    def run(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        files: Mapping[Path, bytes] | None = None,
        heard: Callable[[str], None] = lambda _line: None,
    ) -> ProcessEnd:
        """Run a command to its end. ``files`` exist, readable only by the owner, as long as it runs; ``heard`` gets each line of
        its output. Raises RetryableError for a task that was stopped before."""
        self._check()
        running = _Guarded.start(command, {**os.environ, **environment})
        self._running = running
        try:
            self._check()  # a stop between the first check and this line found no process to end
            running.ask(guard.request(files or {}))
            return running.listen(heard)
        finally:
            running.end()
            for path in files or {}:
                path.unlink(missing_ok=True)
            self._running = None

    def kill(self) -> None:
        """End running processes, and start no more. Returns at once: ``run`` waits until all have ended. Safe in a signal
        handler."""
        self._stopped = True
        if self._running is not None:
            self._running.let_go()

    def _check(self) -> None:
        if self._stopped:
            raise RetryableError("the task was stopped before its process began: nothing was changed")


@dataclass(slots=True)
class _Guarded:
    """A running guard, and the write end of its standard input: closing that ends the session."""

    process: subprocess.Popen[bytes]
    asked: int
    over: threading.Event = field(default_factory=threading.Event)
    """Set when the guard and its session have ended."""

    @classmethod
    def start(cls, command: Sequence[str], environment: Mapping[str, str]) -> _Guarded:
        """Raises OptionError for a command that no system accepts, RetryableError if this system cannot start a process now."""
        read, write = os.pipe()
        try:
            process = subprocess.Popen(
                [sys.executable, "-P", guard.__file__, *command],
                stdin=read,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
            )
        except BaseException as e:
            os.close(write)
            if isinstance(e, OSError | ValueError):
                raise _not_started(e) from e
            raise
        finally:
            os.close(read)
        return cls(process, write)

    def ask(self, request: bytes) -> None:
        """Send the request. A guard that has already ended, or was released in the meantime, reports why in its output."""
        with contextlib.suppress(OSError):
            while request:
                request = request[os.write(self.asked, request) :]

    def listen(self, heard: Callable[[str], None]) -> ProcessEnd:
        """Read the output to its end, or to the end of the session: a process that left the session may hold the output open."""
        last: deque[str] = deque(maxlen=1)
        assert self.process.stdout is not None
        # The engine also holds the output open: without its guard nothing would end it.
        threading.Thread(target=self._end_session_after_guard, daemon=True).start()
        with self.process.stdout as pipe:
            for line in io.TextIOWrapper(output_until(self.over, pipe.fileno()), encoding="utf-8", errors="replace"):
                if line.strip():
                    last.append(line.strip())
                    heard(line.rstrip())
        return ProcessEnd(_exit_code(self.process.wait()), last[0] if last else "")

    def let_go(self) -> None:
        """Close the guard's input, once."""
        write, self.asked = self.asked, -1
        if write >= 0:
            os.close(write)

    def end(self) -> None:
        """Close the input, and wait until the session has ended."""
        self.let_go()
        try:
            self.process.wait(timeout=_GUARD_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        self._end_what_is_left()

    def _end_session_after_guard(self) -> None:
        self.process.wait()
        self._end_what_is_left()
        self.over.set()

    def _end_what_is_left(self) -> None:
        """End the session whose guard is gone. A live process with the guard's id means that the system has reused the id, which it
        does only if the session is empty."""
        if not psutil.pid_exists(self.process.pid):
            guard.end_session(self.process.pid, grace=0)


def _not_started(error: OSError | ValueError) -> IcebergOpsError:
    """Nothing was changed: no process has begun."""
    if isinstance(error, ValueError):
        return OptionError("the job's command line or environment has a NUL character: look at its settings and names")
    if error.errno == errno.E2BIG:
        return OptionError(
            "the job's command line or environment is longer than the system takes: give it fewer or shorter settings"
        )
    return RetryableError(f"the job's process could not be started: {error.strerror or error}; nothing was changed")


def run_module(processes: Processes, module: str, arguments: Sequence[str], files: Mapping[Path, bytes]) -> None:
    """Run this interpreter on a module of the plugins folder. Raises the typed error of its last line, and JobDiedError for a
    process without one."""
    path = os.pathsep.join([str(PLUGINS_FOLDER), python_environment()["PYTHONPATH"]])
    ended = processes.run(
        [sys.executable, "-m", module, *arguments], environment={**python_environment(), "PYTHONPATH": path}, files=files
    )
    if ended.killed:
        raise JobDiedError(f"{module.rpartition('.')[2]} was killed with exit code {ended.exit_code}")
    if ended.exit_code:
        name = module.rpartition(".")[2]
        raise error_of_line(ended.last_line) or JobDiedError(f"{name} ended with exit code {ended.exit_code}: {ended.last_line}")


def python_environment() -> dict[str, str]:
    """Variables with which Spark uses the running interpreter, and the application finds the packages."""
    root = str(project_folder())
    known = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p and p != root]
    return {
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join([root, *known]),
    }


def project_folder() -> Path:
    """The folder with ``spark_jobs``: beside this package if it is installed, above ``plugins`` in a checkout."""
    here = PLUGINS_FOLDER
    return here if (here / "spark_jobs").is_dir() else here.parent


def _exit_code(code: int) -> int:
    """The exit code of a shell: 128 + n for signal n."""
    return code if code >= 0 else 128 - code
