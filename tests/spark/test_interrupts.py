"""Ctrl-C while Spark works is handled like any interrupt: the run's files are deleted, and its report shows that it was stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange, Source
from iceberg_ops.deletion.leases import active_leases
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.jobs.interrupts import came_of_interrupt, interruptible
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark
PATIENCE_S = 300.0
SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
ENDED = re.compile(r"^ended with (\d+)$", re.MULTILINE)
ENDLESS = "SELECT id, sha2(string(id), 512) AS v FROM range(0, 1000000000000, 1, 2)"
SLOW = "length(array_join(transform(sequence(1, 3000), x -> sha2(string(x + id), 512)), '')) > 1"
"""A condition that takes a row a few milliseconds."""


@dataclass
class Stopped:
    """What is left of a job after a signal."""

    code: int
    said: str
    report: dict[str, Any]


class Program:
    """A program that runs one job after the other, in a session of its own."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "log"
        with open(self._log, "wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.interrupted_program"],
                stdin=subprocess.PIPE, stdout=out, stderr=subprocess.STDOUT, start_new_session=True,
                env={**os.environ, "ICEBERG_OPS_SPARK_LOG_LEVEL": "ERROR"},
            )  # fmt: skip

    def stop(self, place: Place, job: JobSpec, ready: Callable[[str], bool]) -> Stopped:
        """Run ``job``, and stop it once ``ready`` says so of what it has said."""
        begin = self.begin(place, job, ready)
        os.kill(self.process.pid, signal.SIGINT)
        said = self.wait(begin, lambda log: bool(ENDED.search(log)))
        code = ENDED.search(said)
        assert code is not None
        return Stopped(int(code[1]), said[: code.start()], json.loads((place.folder / "report.json").read_text()))

    def begin(self, place: Place, job: JobSpec, ready: Callable[[str], bool]) -> int:
        """Run ``job`` until ``ready`` says so of what it has said; where that begins in the log."""
        spec, begin = place.folder / "job.json", len(self._log.read_text())
        spec.write_bytes(to_json(job))
        assert self.process.stdin is not None
        self.process.stdin.write(f"{spec}\n".encode())
        self.process.stdin.flush()
        self.wait(begin, ready)
        return begin

    def wait(self, begin: int, ready: Callable[[str], bool]) -> str:
        until = time.monotonic() + PATIENCE_S
        while not ready(said := self._log.read_text()[begin:]):
            assert self.process.poll() is None, said
            assert time.monotonic() < until, said
            time.sleep(0.05)
        return said

    def close(self) -> None:
        for _ in end_of_session(self.process.pid):
            pass
        self.process.wait()


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """A JVM takes longer to start than such a job."""
    made = Program(tmp_path_factory.mktemp("program"))
    yield made
    made.close()


def end_of_session(leader: int) -> Iterator[int]:
    """Kill what is left of the session that the program leads."""
    with_session = [int(p.name) for p in Path("/proc").iterdir() if p.name.isdigit()]
    for pid in with_session:
        try:
            if os.getsid(pid) == leader:
                os.kill(pid, signal.SIGKILL)
                yield pid
        except ProcessLookupError:
            continue


def job_of(place: Place, job: str, **parts: Any) -> JobSpec:
    return JobSpec(job=job, table="test.db.t", catalog=place.config, report=str(place.folder / "report.json"), **parts)


@pytest.fixture
def filled(place: Place) -> Place:
    place.create("t", SCHEMA, write_target__file__size__bytes="65536", write_parquet_row__group__size__bytes="65536")
    place.fill("t", pa.table({"id": list(range(20_000)), "v": [str(i) for i in range(20_000)]}))
    return place


MERGE = RowChange(mode="merge-on-read", on="target.id = source.id", clauses=[MergeClause(when="not-matched", action="insert")])
JOBS: dict[str, dict[str, Any]] = {
    "append": {"source": Source(format="sql", query=ENDLESS)},
    "merge": {"source": Source(format="sql", query=ENDLESS.replace("sha2(string(id), 512)", "uuid()")), "change": MERGE},
    "delete": {"where": SLOW},
    "update": {"where": SLOW, "change": RowChange(set={"v": "'x'"})},
}


@pytest.mark.slow
@pytest.mark.parametrize("job", JOBS)
def test_a_job_that_is_interrupted_leaves_a_report_and_nothing_else(filled: Place, program: Program, job: str) -> None:
    files, rows = filled.files_on_disk("t"), filled.rows("t")

    def at_work(log: str) -> bool:
        if job == "append":
            return bool({f for f in filled.files_on_disk("t") - files if f.endswith(".parquet")})
        return ("running 0 of" if job == "merge" else "evaluate") in log

    done = program.stop(filled, job_of(filled, job, **JOBS[job]), at_work)
    assert (done.code, done.said.strip().splitlines()[-1]) == (130, "error: INTERRUPTED: stopped by the user"), done.said
    assert (done.report["status"], done.report["error"]["code"]) == ("failed", "INTERRUPTED")
    assert filled.files_on_disk("t") == files
    assert filled.rows("t") == rows
    assert active_leases(filled.table("t"), 0) == []


@pytest.mark.slow
def test_a_rewrite_that_is_interrupted_leaves_a_report_and_nothing_else(filled: Place, program: Program) -> None:
    for i in range(40):
        filled.fill("t", pa.table({"id": [i] * 50_000, "v": [str(j * i) for j in range(50_000)]}))
    files = filled.files_on_disk("t")
    options = {"rewrite-all": "true", "target-file-size-bytes": "262144", "max-file-group-size-bytes": "1"}

    def at_work(_log: str) -> bool:
        return bool({f for f in filled.files_on_disk("t") - files if f.endswith(".parquet")})

    done = program.stop(filled, job_of(filled, "rewrite_data_files", options=options), at_work)
    assert (done.code, done.report["error"]["code"]) == (130, "INTERRUPTED"), done.said
    assert filled.files_on_disk("t") == files


@pytest.mark.slow
def test_an_interrupt_that_reaches_the_whole_terminal_is_one_as_well(filled: Place) -> None:
    files = filled.files_on_disk("t")

    def at_work(_log: str) -> bool:
        return bool({f for f in filled.files_on_disk("t") - files if f.endswith(".parquet")})

    program = Program(filled.folder)
    try:
        begin = program.begin(filled, job_of(filled, "append", **JOBS["append"]), at_work)
        assert program.process.stdin is not None
        program.process.stdin.close()
        os.killpg(program.process.pid, signal.SIGINT)
        code = program.process.wait(PATIENCE_S)
    finally:
        program.close()
    said, report = program.wait(begin, bool), json.loads((filled.folder / "report.json").read_text())
    assert (code, report["error"]["code"]) == (130, "INTERRUPTED"), said


def test_an_error_on_the_way_of_an_interrupt_is_told_from_one_without() -> None:
    def raised(first: BaseException) -> BaseException:
        try:
            try:
                raise first
            finally:
                raise OSError("gone")
        except OSError as e:
            return e

    assert came_of_interrupt(raised(KeyboardInterrupt()))
    assert not came_of_interrupt(raised(ValueError()))


def test_a_program_keeps_its_own_handler_of_signals() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interruptible():
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
