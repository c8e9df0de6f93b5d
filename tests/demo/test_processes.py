"""Components are started once, stopped by their recorded pid together with their child processes, and no other process is
touched."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from demo import processes
from demo.__main__ import _interrupt
from demo.places import Places
from demo.processes import DemoError, Program

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


def sleeper(name: str, places: Places) -> Program:
    return Program(name, [sys.executable, "-c", "import time; time.sleep(600)"], dict(os.environ), places.root)


def test_what_started_last_stops_first_but_the_scheduler_before_all(places: Places) -> None:
    names = ["postgresql", "s3", "scheduler", "dag-processor"]
    for name in names:
        processes.start(sleeper(name, places), places)
    assert list(processes.running(places)) == names[::-1]
    try:
        assert processes.stop_all(places, keep=("postgresql", "s3")) == ["scheduler", "dag-processor"]
        assert list(processes.running(places)) == ["s3", "postgresql"]
    finally:
        assert processes.stop_all(places) == ["s3", "postgresql"]
    assert processes.running(places) == {}


def test_a_program_is_started_once(places: Places) -> None:
    try:
        first = processes.start(sleeper("s3", places), places)
        assert processes.start(sleeper("s3", places), places) == first
    finally:
        processes.stop_all(places)


def test_another_server_that_ended_is_named_too(places: Places) -> None:
    for name in (*processes.COMPONENTS, "s3"):
        processes.start(sleeper(name, places), places)
    try:
        processes.check_alive(places)
        os.kill(processes.running(places)["s3"], signal.SIGKILL)
        assert processes.wait_until(lambda: processes.pid_of("s3", places) is None, 30)
        with pytest.raises(DemoError, match=r"^s3 ended by itself"):
            processes.check_alive(places)
    finally:
        processes.stop_all(places)


def test_a_second_interrupt_does_not_end_the_stopping_of_servers() -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(KeyboardInterrupt):
            _interrupt(signal.SIGINT, None)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
