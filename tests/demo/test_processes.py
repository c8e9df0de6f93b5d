"""Components are started once, stopped by their recorded pid together with their child processes, and no other process is
touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from demo import processes
from demo.places import Places
from demo.processes import DemoError

PARENT = (
    "import subprocess, sys, time; child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']);"
    "open(sys.argv[1], 'w').write(str(child.pid)); time.sleep(600)"
)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    found = Places.of(tmp_path / "demo")
    found.make()
    return found


def started_by_us(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", program, *arguments], start_new_session=True)


def record(places: Places, pid: int, started: float) -> None:
    (places.pids / "scheduler.json").write_text(json.dumps({"pid": pid, "started": started}))


def test_stopping_ends_children_too(tmp_path: Path) -> None:
    parent = started_by_us(PARENT, str(tmp_path / "child"))
    assert processes.wait_until(lambda: (tmp_path / "child").is_file() and bool((tmp_path / "child").read_text()), 30, poll=0.05)
    child = int((tmp_path / "child").read_text())
    processes.stop(parent.pid, grace_seconds=5)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE
    assert parent.poll() is not None or not psutil.pid_exists(parent.pid)


def test_a_process_that_ignores_the_polite_signal_is_killed() -> None:
    stubborn = started_by_us("import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)")
    processes.stop(stubborn.pid, grace_seconds=0.5)
    assert not psutil.pid_exists(stubborn.pid) or psutil.Process(stubborn.pid).status() == psutil.STATUS_ZOMBIE


def test_a_recorded_pid_that_now_belongs_to_another_program_is_left_alone(places: Places) -> None:
    record(places, os.getpid(), started=1.0)
    assert processes.pid_of("scheduler", places) is None
    assert processes.stop_all(places) == []
    assert psutil.pid_exists(os.getpid())


@pytest.mark.parametrize("text", ["", "{}", '{"pid": "x", "started": 1}', '{"pid": 999999999, "started": 1}'])
def test_a_pid_file_that_says_nothing_useful_means_not_running(places: Places, text: str) -> None:
    (places.pids / "scheduler.json").write_text(text)
    assert processes.pid_of("scheduler", places) is None


def test_stopping_what_does_not_run_is_quiet(places: Places) -> None:
    assert processes.stop_all(places) == []


def test_a_component_that_ended_is_named_with_its_last_line(places: Places) -> None:
    (places.logs / "api-server.log").write_text("starting\nAddress already in use\n\n")
    with pytest.raises(DemoError, match="airflow api-server ended by itself: Address already in use") as caught:
        processes.check_alive(places)
    assert caught.value.log == places.logs / "api-server.log"


def test_a_failing_command_is_told_by_its_last_line(places: Places) -> None:
    program = [sys.executable, "-c", "import sys; print('so far so good'); sys.exit('no such table')"]
    with pytest.raises(DemoError, match="db-migrate ended with code 1: no such table"):
        processes.run(program, places, dict(os.environ), "db-migrate")


def test_a_command_that_takes_too_long_is_stopped(places: Places) -> None:
    with pytest.raises(DemoError, match="slow took more than 0 s"):
        processes.run([sys.executable, "-c", "import time; time.sleep(600)"], places, dict(os.environ), "slow", timeout=0.2)
