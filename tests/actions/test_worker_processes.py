"""Worker processes of the local lane end when their parent is killed or their run is interrupted."""

from __future__ import annotations

import errno
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from io import FileIO
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.actions.workers import worker_frames, worker_processes
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.actions.workers.worker_frames import NoMemoryForFrameError
from iceberg_ops.actions.workers.worker_processes import WorkerLostError, WorkerProcesses
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.errors import MachineLimitError
from iceberg_ops.io.local import LocalFileIO
from tests.actions import slow_workers
from tests.actions.lake import Lake, numbered
from tests.builders import make_table

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


APPENDS_AND_COMPACTS = """
import sys
from pathlib import Path
from iceberg_ops.actions.workers.local_runner import LocalRunner
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.io.local import LocalFileIO
from tests.actions.lake import Lake, numbered
from tests.builders import make_table
print("begun", flush=True)
catalog = FileSystemCatalog("test", LocalFileIO(), warehouse=FOLDER)
if not Path(FOLDER).exists():
    catalog.create_namespace(("ns",))
    make_table(catalog, partitioned=True)
lake = Lake(catalog)
for region in "abc":
    for n in range(5):
        lake.append(numbered(10 * n, 10, region))
print(lake.run("rewrite_data_files", runner=LocalRunner(workers=2, inline_bytes=0)).status)
print(len(lake.rows()), "rows")
"""
"""Without ``if __name__ == "__main__"``, which is not required of a program that starts no process itself."""


@pytest.mark.parametrize("how", ["script", "module", "standard input", "-c", "notebook"])
def test_workers_do_not_run_the_program_that_runs_the_job(tmp_path: Path, how: str) -> None:
    code = APPENDS_AND_COMPACTS.replace("FOLDER", repr(str(tmp_path / "wh")))
    if how == "notebook":  # its cells are executed in a __main__ that is the kernel's own module
        code = f"import sys\nexec(compile({code!r}, 'cell', 'exec'), vars(sys.modules['__main__']))"
    (tmp_path / "program.py").write_text(code)
    command = {"module": ["-m", "program"], "standard input": ["-"], "-c": ["-c", code]}.get(how, [str(tmp_path / "program.py")])
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        [sys.executable, *command],
        input=code, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.stdout.split("\n") == ["begun", "committed", "150 rows", ""], done.stderr


def test_a_daemonic_process_has_workers_too(tmp_path: Path) -> None:
    """``multiprocessing`` lets it start none: the hosts of many task queues run their tasks so."""
    told: Queue[str] = multiprocessing.get_context("spawn").Queue()
    process = multiprocessing.get_context("spawn").Process(target=_compact, args=(str(tmp_path / "wh"), told), daemon=True)
    process.start()
    assert [told.get(timeout=PATIENCE_S), told.get(timeout=PATIENCE_S)] == ["committed", "committed"]
    process.join()


def _compact(folder: str, told: Queue[str]) -> None:
    catalog = FileSystemCatalog("test", LocalFileIO(), warehouse=folder)
    catalog.create_namespace(("ns",))
    make_table(catalog, partitioned=True)
    lake = Lake(catalog)
    for region in "abc":
        lake.append(*(numbered(10 * n, 10, region) for n in range(5)))
    for job in ("rewrite_data_files", "compute_table_stats"):
        try:
            told.put(lake.run(job, runner=LocalRunner(workers=2, inline_bytes=0)).status)
        except Exception as e:  # noqa: BLE001 - told to the test
            told.put(f"{type(e).__name__}: {e}")


def test_a_worker_that_is_lost_is_the_error_of_its_item_alone() -> None:
    with WorkerProcesses(1) as workers:
        found = dict(workers.answers(eval, ["1", "__import__('os')._exit(7)", "3"]))
    assert [found[0].result(), found[2].result()] == [1, 3]
    with pytest.raises(WorkerLostError, match="exit code 7"):
        found[1].result()


def test_what_a_worker_prints_or_cannot_send_is_no_answer() -> None:
    texts = ["print('noise') or 1", "(lambda: 1)", "__import__('sys').exit(3)", "__import__('sys').stdin.read()"]
    with WorkerProcesses(2) as workers:
        found = dict(workers.answers(eval, texts))
    assert (found[0].result(), found[3].result()) == (1, "")
    assert isinstance(found[1].exception(), (pickle.PicklingError, AttributeError))
    assert isinstance(found[2].exception(), SystemExit)


def test_a_worker_sees_the_modules_of_its_parent_and_not_those_of_the_working_directory(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "pickle.py").write_text("raise SystemExit('shadowed')")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "mine.py").write_text("def double(x): return 2 * x")
    (tmp_path / "program.py").write_text(
        f"import os, sys\nsys.path.append({str(tmp_path / 'own')!r})\nimport mine\n"
        "from iceberg_ops.actions.workers.worker_processes import WorkerProcesses\n"
        f"os.chdir({str(tmp_path / 'elsewhere')!r})\n"
        "with WorkerProcesses(1) as workers: print(*(a.result() for _, a in workers.answers(mine.double, [21])))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py")], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout == "42\n", done.stderr


@pytest.mark.parametrize("line", ["Loading profile", "This host is managed by ops", "INFO: site customised", "N.", "]"])
def test_a_python_that_prints_when_it_starts_changes_no_answer(tmp_path: Path, line: str) -> None:
    """By its first letter, such a line ended the worker, kept the run waiting for ever, or gave each item the answer of another."""
    (tmp_path / "sitecustomize.py").write_text(f"print({line!r}, flush=True)")
    code = (
        "import math\nfrom iceberg_ops.actions.workers.worker_processes import WorkerProcesses\n"
        "with WorkerProcesses(1) as workers: print(*(a.result() for _, a in workers.answers(math.sqrt, [1, 4, 9])))\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), str(ROOT)))}
    done = run_python(code, environment)
    assert done.stdout == f"{line}\n1.0 2.0 3.0\n", done.stderr
    assert done.stderr == f"{line}\n", "what the worker printed"


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_program_without_standard_streams_has_workers_too(tmp_path: Path, closed: tuple[int, ...]) -> None:
    code = (
        f"import os\nfor fd in {closed}: os.close(fd)\nfrom iceberg_ops.actions.workers.worker_processes import WorkerProcesses\n"
        "with WorkerProcesses(2) as workers:\n"
        "    found = dict(workers.answers(eval, [\"print('noise') or 1\", '2', '3']))\n"
        f"open({str(tmp_path / 'found')!r}, 'w').write(repr([found[n].result() for n in range(3)]))\n"
    )
    done = run_python(code, {**os.environ, "PYTHONPATH": str(ROOT)})
    assert (tmp_path / "found").read_text() == "[1, 2, 3]", done.stderr


def test_what_a_worker_prints_is_not_written_into_a_file_that_has_the_number_of_a_closed_standard_error(tmp_path: Path) -> None:
    """With two workers, the pipe of one had that number while the other was started: its item was lost."""
    code = (
        "import os\nfrom iceberg_ops.actions.workers.worker_processes import WorkerProcesses\n"
        "os.close(2)\nwith WorkerProcesses(1) as workers:\n"
        f"    spilled = os.open({str(tmp_path / 'spilled')!r}, os.O_CREAT | os.O_WRONLY)\n"
        "    assert spilled == 2\n"
        "    print(*(a.result() for _, a in workers.answers(eval, [\"print('noise') or 1\"])))\n"
    )
    done = run_python(code, {**os.environ, "PYTHONPATH": str(ROOT)})
    assert (done.stdout, (tmp_path / "spilled").read_text()) == ("1\n", "")


def run_python(code: str, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def test_a_worker_without_memory_for_a_request_answers_with_an_error_and_goes_on() -> None:
    """Its receiving thread ended, and the run waited for ever."""
    limit = (
        "(lambda r: r.setrlimit(r.RLIMIT_AS, (int(open('/proc/self/statm').read().split()[0]) * 4096 + (60 << 20), -1)))"
        "(__import__('resource'))"
    )
    with WorkerProcesses(1) as workers:
        found = dict(workers.answers(eval, [limit, " " * (200 << 20) + "1", "3"]))
    assert (found[0].result(), found[2].result()) == (None, 3)
    assert isinstance(found[1].exception(), MemoryError)


@pytest.mark.parametrize("error", [MemoryError(), EOFError(), NoMemoryForFrameError("200 bytes"), ValueError("whatever")])
def test_a_worker_whose_answer_cannot_be_read_is_ended(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """What it sends later would be the answer to the next request."""
    real, calls = worker_frames.receive, list[int]()

    def fails_at_the_second(pipe: FileIO) -> bytearray:
        calls.append(1)
        if len(calls) == 2:
            raise error
        return real(pipe)

    monkeypatch.setattr(worker_processes, "receive", fails_at_the_second)
    with WorkerProcesses(1) as workers:
        found = dict(workers.answers(eval, ["__import__('os').getpid()", "2", "__import__('os').getpid()", "4"]))
    assert isinstance(found[1].exception(), WorkerLostError)
    assert (found[3].result(), found[0].result() == found[2].result()) == (4, False)


def test_an_error_that_cannot_be_read_here_is_described() -> None:
    with WorkerProcesses(1) as workers:
        found = dict(workers.answers(_raises_an_odd_error, [1]))
    assert str(found[0].exception()) == "OddError: needs two arguments"


class OddError(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__("needs two arguments")


def _raises_an_odd_error(item: int) -> None:
    raise OddError(item, item)


@pytest.mark.parametrize("error", [BlockingIOError(errno.EAGAIN, "try again"), OSError(errno.ENOMEM, "no memory"), MemoryError()])
def test_a_process_that_cannot_be_started_is_the_retryable_loss_of_its_item(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It ended as an internal error, which is not tried again."""
    real, calls, before = subprocess.Popen, list[int](), open_files()

    def fails_at_first(*arguments: Any, **options: Any) -> subprocess.Popen[bytes]:
        calls.append(1)
        if len(calls) == 1:
            raise error
        return real(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", fails_at_first)
    with WorkerProcesses(1) as workers:
        found = dict(workers.answers(eval, ["1", "2"]))
    assert found[1].result() == 2
    with pytest.raises(WorkerLostError, match=f"a worker process could not be started: {type(error).__name__}"):
        found[0].result()
    assert open_files() == before


def test_too_many_open_files_are_named_when_a_process_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any, **__: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(subprocess, "Popen", fails)
    with WorkerProcesses(1) as workers:
        found = dict(workers.answers(eval, ["1"]))
    assert isinstance(found[0].exception(), MachineLimitError)


def test_where_a_thread_cannot_be_started_the_others_and_the_folder_are_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls, before = threading.Thread.start, list[int](), set(threading.enumerate())

    def fails_at_the_third(self: threading.Thread) -> None:
        calls.append(1)
        if len(calls) == 3:
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", fails_at_the_third)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(RuntimeError, match="can't start new thread"), WorkerProcesses(4):
        pytest.fail("it has begun")
    assert set(threading.enumerate()) == before
    assert list(tmp_path.iterdir()) == []


def test_a_program_whose_working_folder_was_removed_has_workers_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty entry of the module path, as ``python -c`` has it, is the working folder."""
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    with WorkerProcesses(1) as workers:
        found = dict(workers.answers(eval, ["1 + 1"]))
    assert found[0].result() == 2


def open_files() -> set[str]:
    return {name for name in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{name}")}
