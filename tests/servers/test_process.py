"""Servers are waited for until they answer, and nothing of them is left when they are stopped."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.servers.process import LOOPBACK, ServerError, free_port, listens, start, started

_IDLE = "import time; time.sleep(60)"
_FOREVER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"


def test_a_server_is_ready_when_it_answers_and_gone_when_it_is_stopped(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "http.server", "--bind", LOOPBACK, str(port)]
    with started("http.server", command, log=tmp_path / "log", folder=tmp_path, ready=lambda: listens(port)) as server:
        assert listens(port)
        assert os.getsid(server.process.pid) == server.process.pid
    assert not server.is_running
    assert not listens(port)


def test_what_ends_early_or_is_never_ready_is_an_error_with_its_log(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"ended with exit code 3: no such port"):
        start("broken", [sys.executable, "-c", "print('no such port'); exit(3)"], log=tmp_path / "a", ready=lambda: False)
    with pytest.raises(ServerError, match=r"was not ready after 0\.5 s"):
        start("slow", [sys.executable, "-c", _IDLE], log=tmp_path / "b", ready=lambda: False, patience_s=0.5)


def test_a_server_that_does_not_listen_to_signals_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    server = start("stubborn", [sys.executable, "-c", _FOREVER], log=log, ready=lambda: log.read_bytes() == b"up\n")
    server.stop(patience_s=0.2)
    assert not server.is_running
