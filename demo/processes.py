"""Airflow's components as processes: started in separate sessions, stopped by their recorded pid, with all processes they
started.

A pid file holds the pid and the process's start time; a pid that now belongs to another program is ignored. The
components are ``api-server``, ``scheduler`` and ``dag-processor``, each a separate process.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
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


def start(name: str, places: Places, environment: Mapping[str, str]) -> int:
    """Start a component and return its pid. A running one is not started again."""
    running = pid_of(name, places)
    if running is not None:
        return running
    log = places.logs / f"{name}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", *COMPONENTS[name]],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            cwd=places.airflow_home,
            start_new_session=True,
        )
    record = {"pid": process.pid, "started": psutil.Process(process.pid).create_time()}
    _pid_file(name, places).write_text(json.dumps(record) + "\n")
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
    """Component -> pid, for running components."""
    found = {name: pid_of(name, places) for name in COMPONENTS}
    return {name: pid for name, pid in found.items() if pid is not None}


def stop_all(places: Places) -> list[str]:
    """Stop all components, the scheduler first so that it starts nothing new; returns the names of the stopped ones."""
    stopped = []
    for name in ("scheduler", "dag-processor", "api-server"):
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
    """Raise DemoError naming the first component that ended, with the log to read."""
    for name in COMPONENTS:
        if pid_of(name, places) is None:
            log = places.logs / f"{name}.log"
            advice = "read the log's last lines, then run make demo again"
            raise DemoError(f"airflow {name} ended by itself: {last_line(log)}", log=log, next_step=advice)


def last_line(log: Path) -> str:
    """The last line of a log that is not blank, or a note that there is none."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()] if log.is_file() else []
    return lines[-1] if lines else "its log is empty"


def run(arguments: list[str], places: Places, environment: Mapping[str, str], log_name: str, *, timeout: float = 300) -> None:
    """Run a command to its end, with its output in a separate log. Raises DemoError that names the log and its last line."""
    log = places.logs / f"{log_name}.log"
    with log.open("ab") as out:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            # Unbuffered, otherwise early output of a command would come after its error.
            env={**environment, "PYTHONUNBUFFERED": "1"},
            start_new_session=True,
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


def _pid_file(name: str, places: Places) -> Path:
    return places.pids / f"{name}.json"
