"""``iceberg-ops`` with a job on Spark, stopped by a signal: the job ends with it, and leaves only its report."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import JobSpec, Source
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.spark.conftest import Place

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PATIENCE_S = 120.0
SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
ENDLESS = "SELECT id, sha2(string(id), 512) AS v FROM range(0, 1000000000000, 1, 2)"


class Command:
    """A running ``iceberg-ops run`` of an append that never ends, in its own session, with files already written."""

    def __init__(self, place: Place) -> None:
        self.report = place.folder / "report.json"
        spec, self.log = place.folder / "job.json", place.folder / "log"
        source = Source(format="sql", query=ENDLESS)
        job = JobSpec(job="append", table="test.db.t", catalog=place.config, source=source, lane="spark", report=str(self.report))
        spec.write_bytes(to_json(job))
        (place.folder / "tmp").mkdir()
        environment = {**os.environ, "ICEBERG_OPS_SPARK_MASTER": "local[2]", "TMPDIR": str(place.folder / "tmp")}
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "iceberg_ops.cli.main", "run", "--job-spec", str(spec)],
                stdout=out, stderr=subprocess.STDOUT, start_new_session=True, env=environment,
            )  # fmt: skip

    def wait_for(self, what: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE_S
        while not what():
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.1)

    def session(self) -> list[psutil.Process]:
        """What runs of its session."""
        found = []
        for process in psutil.process_iter():
            try:
                if os.getsid(process.pid) == self.process.pid and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (ProcessLookupError, psutil.Error):
                continue
        return found


@pytest.fixture
def before(place: Place) -> set[str]:
    place.create("t", SCHEMA, write_target__file__size__bytes="65536", write_parquet_row__group__size__bytes="65536")
    return place.files_on_disk("t")


@pytest.fixture
def command(place: Place, before: set[str]) -> Iterator[Command]:
    made = Command(place)
    try:
        made.wait_for(lambda: any(f.endswith(".parquet") for f in place.files_on_disk("t") - before))
        yield made
    finally:
        for process in made.session():
            process.kill()
        made.process.wait()


def test_an_interrupt_of_the_command_discards_what_its_job_wrote(place: Place, before: set[str], command: Command) -> None:
    command.process.send_signal(signal.SIGINT)
    assert command.process.wait(PATIENCE_S) == 130
    assert command.session() == []
    assert place.files_on_disk("t") == before
    assert json.loads(command.report.read_text())["error"]["code"] == "INTERRUPTED"
    said = [line for line in command.log.read_text().splitlines() if line.startswith("error: ")]
    assert said == ["error: INTERRUPTED: stopped by the user"]
    assert [path for path in (place.folder / "tmp").rglob("*") if path.is_file()] == []


def test_a_command_that_is_killed_takes_its_job_with_it(place: Place, before: set[str], command: Command) -> None:
    assert len(command.session()) > 3
    command.process.kill()
    command.wait_for(lambda: command.session() == [])
    assert place.files_on_disk("t") == before
    assert place.rows("t") == []


def test_a_command_that_is_terminated_discards_what_its_job_wrote(place: Place, before: set[str], command: Command) -> None:
    command.process.terminate()
    assert command.process.wait(PATIENCE_S) == -signal.SIGTERM
    assert command.session() == []
    assert place.files_on_disk("t") == before


STUBBORN = """
import os, signal, sys, time
from spark_jobs.jobs import interrupts
interrupts.TIDYING_SECONDS = 0.5
signal.signal(signal.SIGINT, signal.SIG_IGN)
interrupts.end_with_command(sys.argv[1])
print("ready", flush=True)
time.sleep(600)
"""


def test_a_job_that_does_not_heed_the_end_of_its_command_is_ended(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    job = subprocess.Popen([sys.executable, "-c", STUBBORN, str(pipe)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "the command that started this job is gone" in job.communicate(timeout=PATIENCE_S)[1]
    assert job.returncode == 1
    assert not pipe.exists()
