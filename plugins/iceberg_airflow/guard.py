"""Runs one command, and ends all processes that it started when the task is gone: ``python guard.py COMMAND...``.

A task starts this program in a separate session and keeps the write end of its standard input open. The end of that input means
that the task was stopped or died, also by SIGKILL: every process of the session then gets SIGTERM, and SIGKILL two seconds later.
So a killed task never leaves an engine that continues and commits. When the command ends by itself, its remaining processes
(Python workers, a JVM) are ended too.

Files with secrets are written here and deleted here, so they do not outlive the job even if the task is killed: standard
input begins with eight bytes of length and a JSON object ``{"files": {path: text}}``. They are new files that only the owner can
read. The exit code is the command's; 128 + n if signal n ended it.

It is started by file name, so it imports nothing of this package.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

TERM_SECONDS = 2.0
"""From SIGTERM to SIGKILL. Python ends at once, a JVM needs about a second; Airflow itself waits five before it uses SIGKILL."""
_LEAVE_SECONDS = 1.0
_KILL_SECONDS = 10.0
_POLL_SECONDS = 0.02
_HEADER_BYTES = 8


def request(files: Mapping[Path, bytes]) -> bytes:
    """The first bytes that the task writes to the guard's standard input."""
    body = json.dumps({"files": {str(path): data.decode() for path, data in files.items()}}).encode()
    return len(body).to_bytes(_HEADER_BYTES, "big") + body


def end_session(session: int, *, grace: float = TERM_SECONDS) -> None:
    """End every process of a session except the caller: SIGTERM, after ``grace`` seconds SIGKILL until none is left (at most 10
    s)."""
    _signal_all(session, signal.SIGTERM)
    if _wait_until_empty(session, grace):
        return
    until = time.monotonic() + _KILL_SECONDS
    while _signal_all(session, signal.SIGKILL) and time.monotonic() < until:
        time.sleep(_POLL_SECONDS)


def members(session: int) -> list[psutil.Process]:
    """Running processes of a session, without the caller."""
    processes = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            running = process.pid != os.getpid() and os.getsid(process.pid) == session
            if running and process.status() != psutil.STATUS_ZOMBIE:
                processes.append(process)
    return processes


def main(command: list[str]) -> int:
    """Run the command; returns the exit code."""
    files = _read_request()
    if files is None:
        return 128 + signal.SIGTERM  # the task ended before it sent a request
    written: list[Path] = []
    try:
        for name, text in files.items():
            written.append(Path(name))
            _write_private(Path(name), text)
        return _run(command)
    except OSError as e:
        # Errors have the same form as in all our processes; nothing was changed, because nothing has run.
        code = "RUNTIME_MISSING" if e.filename == command[0] else "RETRYABLE"
        print(f"error: {code}: {e.filename or command[0]}: {e.strerror or e}", file=sys.stderr, flush=True)
        return 1
    finally:
        for path in written:
            path.unlink(missing_ok=True)


def _run(command: list[str]) -> int:
    signal.signal(signal.SIGTERM, lambda _signal, _frame: end_session(os.getpid()))
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=_watch_task, daemon=True).start()
    code = child.wait()
    if not _wait_until_empty(os.getpid(), _LEAVE_SECONDS):
        end_session(os.getpid())
    return code if code >= 0 else 128 - code


def _watch_task() -> None:
    """Returns after the session has been ended, because the task closed its end."""
    while os.read(0, 1):
        pass
    end_session(os.getpid())


def _read_request() -> dict[str, str] | None:
    header = _read(_HEADER_BYTES)
    body = None if header is None else _read(int.from_bytes(header, "big"))
    return None if body is None else dict(json.loads(body)["files"])


def _read(count: int) -> bytes | None:
    """That many bytes of standard input; None if it ends before."""
    data = b""
    while len(data) < count:
        part = os.read(0, count - len(data))
        if not part:
            return None
        data += part
    return data


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)


def _signal_all(session: int, number: signal.Signals) -> int:
    """The number of processes that got the signal."""
    processes = members(session)
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.send_signal(number)
    return len(processes)


def _wait_until_empty(session: int, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while members(session):
        if time.monotonic() >= until:
            return False
        time.sleep(_POLL_SECONDS)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
