"""Worker processes of the local lane end with what they work for: a parent that is killed, a run that is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actions import slow_workers

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0


class Program:
    """``slow_workers``, until its three workers have written: one has answered, two are at work."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.notes, self.temporary = folder / "notes", folder / "tmp"
        self.notes.mkdir()
        self.temporary.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "NOTES": str(self.notes), "TMPDIR": str(self.temporary)}
        environment["PYTHONFAULTHANDLER"] = "1"
        # In a group of its own: what is sent to it is not sent to its workers.
        self.process = subprocess.Popen(
            [sys.executable, slow_workers.__file__, str(folder), *args],
            env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.data = Path(self.process.stdout.readline().strip()) / "data"
        self.before = self.files()
        wait(lambda: len(list(self.notes.iterdir())) == 3 or self.process.poll() is not None)
        self.workers = [int(note.name) for note in self.notes.iterdir()]

    def files(self) -> set[str]:
        return {p.name for p in self.data.rglob("*") if p.is_file()}

    def errors(self) -> str:
        """What the program says when it has ended by itself."""
        try:
            return self.process.communicate(timeout=PATIENCE_S)[1]
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            pytest.fail(f"the program hangs: {self.process.communicate()[1]}")

    def workers_have_ended(self) -> bool:
        return not any(is_running(pid) for pid in self.workers)


def wait(for_what: object) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not for_what() and time.monotonic() < deadline:  # type: ignore[operator]
        time.sleep(0.05)


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path)
    yield made
    for pid in (made.process.pid, *made.workers):
        if is_running(pid):
            os.kill(pid, signal.SIGKILL)
    made.process.communicate()


def test_workers_end_when_their_parent_is_killed(program: Program) -> None:
    """Those at work, and those that wait for work: either would stay for ever."""
    assert len(program.workers) == 3
    os.kill(program.process.pid, signal.SIGKILL)
    wait(program.workers_have_ended)
    assert program.workers_have_ended()
    assert list(program.temporary.iterdir()) == [], "what they spilled"


def test_an_interrupted_run_ends_its_workers_before_it_deletes_what_they_wrote(program: Program) -> None:
    """Ctrl-C in a notebook reaches the driver alone, while works go on for minutes."""
    assert len(program.files() - program.before) == 3
    os.kill(program.process.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in program.errors()
    assert program.workers_have_ended()
    assert program.files() == program.before
    assert list(program.temporary.iterdir()) == []


def test_a_terminal_s_interrupt_reaches_workers_too_and_changes_nothing(program: Program) -> None:
    os.killpg(program.process.pid, signal.SIGINT)
    assert "KeyboardInterrupt" in program.errors()
    assert program.workers_have_ended()
    assert program.files() == program.before


def test_a_run_that_stops_between_two_answers_ends_its_workers_before_it_deletes_what_they_wrote(tmp_path: Path) -> None:
    program = Program(tmp_path, "stops")
    assert "KeyboardInterrupt" in program.errors()
    assert program.workers_have_ended()
    assert program.files() == program.before
