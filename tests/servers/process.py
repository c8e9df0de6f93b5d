"""A server in a separate process: started in its own session, waited for until it is ready, and stopped by its id.

    with started("versitygw", ["build/servers/versitygw", ...], log=tmp / "gw.log", ready=lambda: answers(port)) as server:
        ...

A server that ends before it is ready, or is not ready in time, is an error with the end of its log.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

SERVERS = Path(__file__).parents[2] / "build" / "servers"
"""Where ``make servers`` puts programs."""
LOOPBACK = "127.0.0.1"
_PORTS = range(12_000, 32_000)
_STOP_S = 10.0
_LOG_END = 4_000
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None)


class ServerError(Exception):
    """A server ended before it was ready, or was not ready in time."""


def free_port() -> int:
    """A port of the loopback address that nothing listened on just now, below those that Linux gives to connections: a server that
    needs seconds to start finds it free."""
    while True:
        port = secrets.randbelow(_PORTS.stop - _PORTS.start) + _PORTS.start
        with socket.socket() as probe, suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port


def listens(port: int) -> bool:
    """Whether something accepts connections on a port of the loopback address."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def missing(what: str, command: str = "make servers") -> None:
    """A program that a test needs is not installed: skip the test, or fail it where oracles are required."""
    reason = f"{what} is not installed: `{command}` gets it"
    if os.environ.get("ICEBERG_OPS_REQUIRE_ORACLES") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def program(name: str) -> Path:
    """A program that ``make servers`` installs; the test is skipped or fails where it is missing."""
    path = SERVERS / name
    if not path.exists():
        missing(name)
    return path


@dataclass(frozen=True, slots=True)
class Server:
    """A running server. It is the leader of its session, so its children are found by its id."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def log_end(self) -> str:
        return self.log.read_bytes()[-_LOG_END:].decode(errors="replace") if self.log.exists() else ""

    def stop(self, patience_s: float = _STOP_S) -> None:
        """End the server: SIGTERM to it, after a while SIGKILL to whatever is left of its session. Without effect when it ended."""
        if self.is_running:
            self.process.terminate()
            try:
                self.process.wait(patience_s)
            except subprocess.TimeoutExpired:
                self.kill()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.wait(_STOP_S)


def start(
    name: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    ready: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    patience_s: float = 30.0,
) -> Server:
    """Start a server and wait until ``ready()`` is true; OSErrors that it raises mean "not yet". ``environment`` is added to this
    process's. The caller stops it; where this process is killed, the server ends with it. Raises ServerError."""
    with log.open("ab") as output:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=folder,
            start_new_session=True,
            preexec_fn=_die_with_parent,  # noqa: PLW1509 - one system call
        )
    server = Server(name, process, log)
    try:
        _wait(server, ready, patience_s)
    except BaseException:
        server.stop()
        raise
    return server


@contextmanager
def started(
    name: str,
    command: Sequence[str | Path],
    *,
    log: Path,
    ready: Callable[[], bool],
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    patience_s: float = 30.0,
    stop_s: float = _STOP_S,
) -> Iterator[Server]:
    """``start``, and ``stop`` within ``stop_s`` at the end of the ``with`` block."""
    server = start(name, command, log=log, ready=ready, environment=environment, folder=folder, patience_s=patience_s)
    try:
        yield server
    finally:
        server.stop(stop_s)


def _wait(server: Server, ready: Callable[[], bool], patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while server.is_running and time.monotonic() < until:
        try:
            if ready():
                return
        except OSError:
            pass  # nothing listens yet
        time.sleep(0.05)
    why = f"was not ready after {patience_s} s" if server.is_running else f"ended with exit code {server.process.returncode}"
    raise ServerError(f"{server.name} {why}: {server.log_end()}")


def _die_with_parent() -> None:
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
