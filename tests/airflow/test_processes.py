"""A task's processes end with the task, however it ends, and so do their files with secrets."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from iceberg_airflow import guard
from iceberg_airflow.outcome import ProcessEnd
from iceberg_airflow.processes import Processes, run_module
from iceberg_ops.errors import JobDiedError, OptionError, RetryableError

pytestmark = pytest.mark.airflow
PLUGINS = Path(guard.__file__).parents[1]

FAMILY = """
import os, signal, subprocess, sys, time
path, mode = sys.argv[1:]
stubborn = "import os, signal, sys, time; {}; open(sys.argv[1], 'a').write(f'{os.getpid()}\\\\n'); time.sleep(600)"
deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)"
group = "os.setpgid(0, 0)"
for quirk in ("pass", deaf, group, f"{group}; {deaf}"):
    subprocess.Popen([sys.executable, "-c", stubborn.replace("{}", quirk, 1), path])
while open(path).read().count(chr(10)) < 4:
    time.sleep(0.01)
open(path, "a").write(f"{os.getpid()}\\n")
print("up", flush=True)
if mode == "stay":
    time.sleep(600)
"""
"""An engine like Spark's: a parent, children, process groups of their own (as PySpark's daemon has), some deaf to SIGTERM."""


class Family:
    """Starts FAMILY under a guard, and knows its pids."""

    def __init__(self, folder: Path, mode: str = "stay") -> None:
        self.pids_file, self.secret = folder / "pids", folder / "private-job.json"
        self.pids_file.touch()
        self.command = [sys.executable, "-c", FAMILY, str(self.pids_file), mode]

    def run(self, processes: Processes, heard: Callable[[str], None] = lambda _line: None) -> ProcessEnd:
        return processes.run(self.command, environment={}, files={self.secret: b'{"password": "x"}'}, heard=heard)

    def alive(self) -> list[int]:
        return [int(pid) for pid in self.pids_file.read_text().split() if _runs(int(pid))]


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _within(seconds: float, condition: Callable[[], bool]) -> bool:
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.02)
    return condition()


def a_task(body: str, *arguments: str) -> subprocess.Popen[str]:
    """A process that behaves like Airflow's task runner: on SIGTERM it calls on_kill, and continues."""
    program = f"""
    import signal, sys, threading
    sys.path.insert(0, {str(PLUGINS)!r})
    from pathlib import Path
    from iceberg_airflow.processes import Processes
    processes = Processes()
    signal.signal(signal.SIGTERM, lambda *_: processes.kill())
    def run(command, secret):
        return processes.run(command, environment={{}}, files={{Path(secret): b"{{}}"}}, heard=lambda line: print(line, flush=True))
    """
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program) + textwrap.dedent(body), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_files_with_secrets_exist_for_their_owner_only_while_the_process_runs(tmp_path: Path) -> None:
    path, lines = tmp_path / "private-job.json", []
    program = "import os, sys; s = os.stat(sys.argv[1]); print(oct(s.st_mode & 0o777), open(sys.argv[1]).read())"
    ended = Processes().run(
        [sys.executable, "-c", program, str(path)], environment={}, files={path: "sécret".encode()}, heard=lines.append
    )
    assert ended == ProcessEnd(0, "0o600 sécret")
    assert not path.exists()


def test_a_file_with_secrets_replaces_a_link_instead_of_following_it(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("precious")
    (tmp_path / "private-job.json").symlink_to(tmp_path / "elsewhere")
    Processes().run([sys.executable, "-c", ""], environment={}, files={tmp_path / "private-job.json": b"x"})
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_a_file_of_many_bytes_reaches_the_process(tmp_path: Path) -> None:
    path = tmp_path / "private-job.json"
    program = "import sys; print(len(open(sys.argv[1]).read()))"
    ended = Processes().run([sys.executable, "-c", program, str(path)], environment={}, files={path: b"x" * 1_000_000})
    assert ended == ProcessEnd(0, "1000000")


@pytest.mark.parametrize(("code", "ended"), [(0, ProcessEnd(0)), (3, ProcessEnd(3)), (2, ProcessEnd(2))])
def test_the_exit_code_is_the_commands(code: int, ended: ProcessEnd) -> None:
    assert Processes().run([sys.executable, "-c", f"raise SystemExit({code})"], environment={}) == ended


def test_a_command_that_a_signal_ended_has_a_code_above_128() -> None:
    ended = Processes().run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], environment={})
    assert (ended.exit_code, ended.killed) == (137, True)


def test_a_command_that_is_not_there_is_missing_on_this_worker() -> None:
    ended = Processes().run(["spark-submit"], environment={"PATH": "/nowhere"})
    assert ended == ProcessEnd(1, "error: RUNTIME_MISSING: spark-submit: No such file or directory")


@pytest.mark.parametrize(("argument", "said"), [("x" * 3_000_000, "longer than the system takes"), ("a\0b", "has a NUL character")])
def test_a_command_that_no_system_takes_is_refused(argument: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        Processes().run([sys.executable, argument], environment={})


def test_a_process_that_can_not_be_started_now_may_be_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: object, **_named: object) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(subprocess, "Popen", fails)
    with pytest.raises(RetryableError, match="could not be started: Resource temporarily unavailable; nothing was changed"):
        Processes().run(["true"], environment={})


def test_a_file_that_can_not_be_written_may_be_written_later(tmp_path: Path) -> None:
    ended = Processes().run([sys.executable, "-c", "print('ran')"], environment={}, files={tmp_path / "no" / "x": b""})
    assert ended.last_line.startswith("error: RETRYABLE: ")
    assert ended.last_line.endswith("no/x: No such file or directory")


def test_stopping_ends_the_engine_and_everything_it_started(tmp_path: Path) -> None:
    family, processes, up = Family(tmp_path), Processes(), threading.Event()
    ended: list[ProcessEnd] = []
    worker = threading.Thread(target=lambda: ended.append(family.run(processes, lambda _line: up.set())))
    worker.start()
    assert up.wait(60)
    assert len(family.alive()) == 5
    processes.kill()
    worker.join(60)
    assert ended[0].killed
    assert family.alive() == []
    assert not family.secret.exists()


def test_what_an_engine_leaves_running_is_ended_with_it(tmp_path: Path) -> None:
    family = Family(tmp_path, mode="leave")
    assert family.run(Processes()).last_line == "up"
    assert family.alive() == []


ESCAPED = """
import os, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)",
                  sys.argv[1]], start_new_session=True)
while not os.path.exists(sys.argv[1]) or not open(sys.argv[1]).read():
    time.sleep(0.01)
print("x" * 40_000)
print("engine is done", flush=True)
time.sleep(float(sys.argv[2]))
"""
"""An engine that leaves a process in another session, which holds the output open."""


@pytest.mark.parametrize("stopped", [False, True])
def test_a_process_that_left_the_session_keeps_no_task_waiting(tmp_path: Path, stopped: bool) -> None:
    """The job was over and its report there, and the task waited for ever; stopping it did not help."""
    pid, processes, ended, lines = tmp_path / "pid", Processes(), [], []
    command = [sys.executable, "-c", ESCAPED, str(pid), "600" if stopped else "0"]

    def heard(line: str) -> None:
        lines.append(line)
        if stopped and line == "engine is done":
            processes.kill()

    worker = threading.Thread(target=lambda: ended.append(processes.run(command, environment={}, heard=heard)), daemon=True)
    worker.start()
    try:
        worker.join(60)
        assert not worker.is_alive()
        assert lines == ["x" * 40_000, "engine is done"]
        assert ended[0].killed is stopped
    finally:
        os.kill(int(pid.read_text()), signal.SIGKILL)


def test_a_task_that_was_stopped_starts_nothing_more(tmp_path: Path) -> None:
    family, processes = Family(tmp_path), Processes()
    processes.kill()
    with pytest.raises(RetryableError, match="stopped before its process began: nothing was changed"):
        family.run(processes)
    assert family.pids_file.read_text() == ""


def test_stopping_while_nothing_runs_is_quiet() -> None:
    Processes().kill()


def test_an_error_of_whoever_listens_ends_the_session(tmp_path: Path) -> None:
    """Airflow's time limit is an exception that comes out of the middle of reading."""
    family = Family(tmp_path)

    def too_late(_line: str) -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        family.run(Processes(), too_late)
    assert family.alive() == []
    assert not family.secret.exists()


def test_sigterm_of_the_task_ends_the_session_before_the_task_ends(tmp_path: Path) -> None:
    family = Family(tmp_path)
    task = a_task("print(run(sys.argv[2:], sys.argv[1]), flush=True)", str(family.secret), *family.command)
    assert task.stdout is not None
    assert task.stdout.readline() == "up\n"
    task.send_signal(signal.SIGTERM)
    assert "exit_code=143" in task.communicate(timeout=60)[0]
    assert family.alive() == []


def test_sigkill_of_the_task_ends_the_session(tmp_path: Path) -> None:
    family = Family(tmp_path)
    task = a_task("run(sys.argv[2:], sys.argv[1])", str(family.secret), *family.command)
    assert task.stdout is not None
    assert task.stdout.readline() == "up\n"
    task.kill()
    task.communicate(timeout=60)
    assert _within(20, lambda: family.alive() == [])
    assert _within(5, lambda: not family.secret.exists())


def test_sigkill_of_the_guard_ends_the_session(tmp_path: Path) -> None:
    family, processes = Family(tmp_path), Processes()

    def kill_guard(_line: str) -> None:
        parent = psutil.Process(int(family.pids_file.read_text().split()[-1])).parent()
        assert parent is not None
        parent.kill()

    assert family.run(processes, kill_guard).exit_code == 137
    assert family.alive() == []
    assert not family.secret.exists()


def test_sigterm_of_the_guard_ends_the_session(tmp_path: Path) -> None:
    family, processes = Family(tmp_path), Processes()

    def stop_guard(_line: str) -> None:
        parent = psutil.Process(int(family.pids_file.read_text().split()[-1])).parent()
        assert parent is not None
        parent.terminate()

    assert family.run(processes, stop_guard).killed
    assert family.alive() == []


def test_a_stop_at_any_moment_of_the_start_leaves_nothing(tmp_path: Path) -> None:
    """SIGTERM at many moments between the first line of the task and the engine's first line: the task always ends soon, and
    nothing of it goes on."""
    for i in range(6):
        family = Family(tmp_path / str(i)) if (tmp_path / str(i)).mkdir() is None else None
        assert family is not None
        task = a_task(
            "print('begun', flush=True)\ntry:\n    run(sys.argv[2:], sys.argv[1])\nexcept Exception as e:\n    print(e)",
            str(family.secret),
            *family.command,
        )
        assert task.stdout is not None
        assert task.stdout.readline() == "begun\n"
        time.sleep(i * 0.05)
        task.send_signal(signal.SIGTERM)
        task.communicate(timeout=60)
        assert _within(5, lambda f=family: f.alive() == [])  # type: ignore[misc]
        assert not family.secret.exists()


def test_a_guard_whose_task_is_gone_before_it_asked_starts_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, guard.__file__, sys.executable, "-c", "print('started')"],
        input=guard.request({tmp_path / "x": b"secret"})[:12],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (143, b"")
    assert list(tmp_path.iterdir()) == []


def test_a_module_that_was_killed_died_and_one_that_failed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "killed.py").write_text("import os; os.kill(os.getpid(), 9)")
    (tmp_path / "failed.py").write_text("raise SystemExit('error: BAD_OPTION: retain-last: must be 1 or more')")
    (tmp_path / "crashed.py").write_text("raise MemoryError")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(JobDiedError, match="killed was killed with exit code 137"):
        run_module(Processes(), "killed", [], {})
    with pytest.raises(OptionError, match="retain-last: must be 1 or more"):
        run_module(Processes(), "failed", [], {})
    with pytest.raises(JobDiedError, match="crashed ended with exit code 1: MemoryError"):
        run_module(Processes(), "crashed", [], {})


def test_modes_of_written_files_do_not_depend_on_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "private"
    before = os.umask(0)
    try:
        guard._write_private(path, "x")
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
