"""The demo's servers as processes: started in separate sessions, stopped by their recorded pid, with all processes they
started.

A pid file holds the pid and the process's start time; a pid that now belongs to another program is ignored. Airflow's
components are ``api-server``, ``scheduler`` and ``dag-processor``, each a separate process.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from demo.places import Places

COMPONENTS: dict[str, tuple[str, ...]] = {
    "api-server": ("api-server",),
    "scheduler": ("scheduler", "--skip-serve-logs"),
    "dag-processor": ("dag-processor",),
}
GRACE_SECONDS = 10.0
_SAME_START_SECONDS = 2.0


class DemoError(Exception):
    """A step of the demo failed: what happened, the log to read, and the next thing to try."""

    def __init__(self, message: str, *, log: Path | None = None, next_step: str = "") -> None:
        super().__init__(message)
        self.log = log
        self.next_step = next_step


@dataclass(frozen=True, slots=True)
class Program:
    """A program that runs until it is stopped. ``user``: the id of the user it runs as, where that is another one."""

    name: str
    command: Sequence[str | Path]
    environment: Mapping[str, str]
    folder: Path
    user: int | None = None


def airflow_component(name: str, places: Places, environment: Mapping[str, str]) -> Program:
    """A component of Airflow."""
    command = [sys.executable, "-m", "airflow", *COMPONENTS[name]]
    return Program(name, command, environment, places.airflow_home)


def start(program: Program, places: Places) -> int:
    """Start a program and return its pid. A running one is not started again."""
    running = pid_of(program.name, places)
    if running is not None:
        return running
    with places.log_of(program.name).open("ab") as out:
        process = subprocess.Popen(
            [str(part) for part in program.command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(program.environment),
            cwd=program.folder,
            start_new_session=True,
            user=program.user,
            group=_group_of(program.user),
            extra_groups=None if program.user is None else [],
        )
    try:
        record = {"pid": process.pid, "started": psutil.Process(process.pid).create_time()}
        _pid_file(program.name, places).write_text(json.dumps(record) + "\n")
    except BaseException:  # without a record nobody would stop it
        stop(process.pid)
        raise
    return process.pid


def pid_of(name: str, places: Places) -> int | None:
    """The pid of a running component that we started, or None."""
    try:
        record = json.loads(_pid_file(name, places).read_text())
        process = psutil.Process(int(record["pid"]))
        same = abs(process.create_time() - float(record["started"])) < _SAME_START_SECONDS
        alive = process.status() != psutil.STATUS_ZOMBIE
    except (FileNotFoundError, psutil.NoSuchProcess, ValueError, KeyError):
        return None
    return process.pid if same and alive else None


def running(places: Places) -> dict[str, int]:
    """Name -> pid, for all running servers, the one that was started last first."""
    found = {name: pid_of(name, places) for name in _recorded(places)}
    return {name: pid for name, pid in found.items() if pid is not None}


def stop_all(places: Places, *, keep: Collection[str] = ()) -> list[str]:
    """Stop all servers but those in ``keep``: the scheduler first so that it starts nothing new, then those that were started
    last. Returns the names of the stopped ones."""
    stopped = []
    for name in sorted(_recorded(places), key=lambda name: name != "scheduler"):
        if name in keep:
            continue
        pid = pid_of(name, places)
        if pid is not None:
            stop(pid)
            stopped.append(name)
        _pid_file(name, places).unlink(missing_ok=True)
    return stopped


def stop(pid: int, grace_seconds: float = GRACE_SECONDS) -> None:
    """End a process that we started, and its descendants: SIGTERM, and after the grace time SIGKILL for those left."""
    family = _family(pid)
    for process in family:
        _signal(process, signal.SIGTERM)
    _, alive = psutil.wait_procs(family, timeout=grace_seconds)
    late = {p.pid: p for p in alive}
    for process in alive:
        late.update({p.pid: p for p in _family(process.pid)})
    for process in late.values():
        _signal(process, signal.SIGKILL)
    psutil.wait_procs(list(late.values()), timeout=grace_seconds)
    _reap(pid)


def check_alive(places: Places) -> None:
    """Raise DemoError naming the first component of Airflow, or other started server, that ended, with the log to read."""
    for name in (*COMPONENTS, *_recorded(places)):
        if pid_of(name, places) is None:
            log = places.log_of(name)
            advice = "read the log's last lines, then run the demo again"
            whose = "airflow " if name in COMPONENTS else ""
            raise DemoError(f"{whose}{name} ended by itself: {last_line(log)}", log=log, next_step=advice)


def last_line(log: Path) -> str:
    """The last line of a log that is not blank, or a note that there is none."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.is_file() else []
    return lines[-1] if lines else "its log is empty"


def run(
    arguments: Sequence[str | Path],
    places: Places,
    environment: Mapping[str, str],
    log_name: str,
    *,
    timeout: float = 600,
    user: int | None = None,
    folder: Path | None = None,
) -> None:
    """Run a command to its end, with its output in a separate log. Raises DemoError that names the log and its last line."""
    log = places.log_of(log_name)
    with log.open("ab") as out:
        process = subprocess.Popen(
            [str(part) for part in arguments],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            # Unbuffered, otherwise early output of a command would come after its error.
            env={**environment, "PYTHONUNBUFFERED": "1"},
            cwd=folder,
            start_new_session=True,
            user=user,
            group=_group_of(user),
            extra_groups=None if user is None else [],
        )
    try:
        code = process.wait(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise DemoError(f"{log_name} took more than {timeout:.0f} s", log=log) from None
    finally:
        if process.poll() is None:
            stop(process.pid)
    if code:
        raise DemoError(f"{log_name} ended with code {code}: {last_line(log)}", log=log)


def wait_until(condition: Callable[[], bool], seconds: float, *, poll: float = 0.5) -> bool:
    """Call ``condition`` until it is true or the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(poll)
    return False


def _family(pid: int) -> list[psutil.Process]:
    """The process, its descendants, and all processes of its session (a task's own children outlive their parent)."""
    found: dict[int, psutil.Process] = {}
    with contextlib.suppress(psutil.NoSuchProcess):
        root = psutil.Process(pid)
        found[pid] = root
        found.update({p.pid: p for p in root.children(recursive=True)})
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == pid:
                found[process.pid] = process
        except (ProcessLookupError, PermissionError):
            continue
    return list(found.values())


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process.send_signal(number)


def _reap(pid: int) -> None:
    """Collect the exit status if the process is our own child, so that no zombie stays."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _group_of(user: int | None) -> int | None:
    return None if user is None else pwd.getpwuid(user).pw_gid


def _recorded(places: Places) -> list[str]:
    """Names that have a pid file, the one that was started last first."""
    files = sorted(places.pids.glob("*.json"), key=lambda path: path.stat().st_mtime_ns, reverse=True)
    return [path.stem for path in files]


def _pid_file(name: str, places: Places) -> Path:
    return places.pids / f"{name}.json"
