"""A secret in a command line, in a title, in Spark's settings or in any file of the demo is found, and named without its value."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from demo.cluster_stack import ClusterStack
from demo.credentials import POSTGRESQL_PASSWORD, S3_SECRET_KEY, credentials, secret_values
from demo.leaks import CommandLines, nothing_leaked
from demo.places import Places
from demo.processes import DemoError
from demo.stack import LocalStack


@pytest.fixture
def places(tmp_path: Path) -> Places:
    made = Places.of(tmp_path / "demo")
    made.make()
    return made


@pytest.fixture
def stack(places: Places) -> ClusterStack:
    """One that has run a job in one Spark application."""
    made = ClusterStack(places)
    event_log(made, {"spark.app.name": "append", "spark.executor.memory": "640m"})
    return made


def event_log(stack: ClusterStack, settings: dict[str, str]) -> None:
    assert stack.events is not None
    log = stack.events / "eventlog_v2_app-1" / "events_1_app-1"
    log.parent.mkdir(parents=True, exist_ok=True)
    events: list[dict[str, object]] = [
        {"Event": "SparkListenerLogStart"},
        {"Event": "SparkListenerEnvironmentUpdate", "Spark Properties": settings},
    ]
    log.write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))


def job(places: Places) -> list[str]:
    """Words of a command line that starts a job."""
    return ["spark-submit", "--job-spec", str(places.jobs / "job.json")]


def lines_of(places: Places, *extra: str) -> CommandLines:
    """What was seen while a program ran, whose command line is that of a job and ``extra``."""
    lines = CommandLines(secret_values(places), places.jobs)
    with subprocess.Popen([sys.executable, "-c", "print('here', flush=True); input()", *job(places), *extra],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:  # fmt: skip
        assert program.stdout is not None
        program.stdout.readline()
        lines.look()
        program.communicate(b"\n")
    return lines


def test_a_run_without_leaks_says_what_was_looked_at(stack: ClusterStack) -> None:
    told = nothing_leaked(stack, lines_of(stack.places))
    assert told.startswith("1 command lines of jobs, ")
    assert told.endswith("event logs of 1 applications")


def test_a_secret_in_a_command_line_is_found(stack: ClusterStack) -> None:
    secret = credentials(stack.places)[S3_SECRET_KEY]
    with pytest.raises(DemoError, match="s3-secret-key stood in the command line of python") as caught:
        nothing_leaked(stack, lines_of(stack.places, "--conf", f"spark.hadoop.fs.s3a.secret.key={secret}"))
    assert secret not in str(caught.value)


def test_a_secret_in_a_title_is_found(stack: ClusterStack) -> None:
    """A process that renames itself, as Airflow's and PostgreSQL's do."""
    lines = lines_of(stack.places)
    secret = credentials(stack.places)[POSTGRESQL_PASSWORD]
    program = "import setproctitle, sys; setproctitle.setproctitle('x ' + sys.stdin.readline()); print(flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as renamed:
        assert renamed.stdin is not None
        assert renamed.stdout is not None
        renamed.stdin.write(f"{secret}\n".encode())
        renamed.stdin.flush()
        renamed.stdout.readline()
        lines.look()
        renamed.communicate(b"\n")
    with pytest.raises(DemoError, match="postgresql-password stood in the command line"):
        nothing_leaked(stack, lines)


def in_a_log(stack: ClusterStack, secret: str) -> None:
    (stack.places.logs / "scheduler.log").write_text(f"connecting as airflow:{secret}@db\n")


def in_the_event_log(stack: ClusterStack, secret: str) -> None:
    event_log(stack, {"spark.app.name": f"append {secret}"})


def in_a_job_spec(stack: ClusterStack, secret: str) -> None:
    (stack.places.jobs / "job.json").write_text(json.dumps({"s3.secret-access-key": secret}))


def in_a_linked_folder(stack: ClusterStack, secret: str) -> None:
    elsewhere = stack.places.root.with_name("elsewhere")
    elsewhere.mkdir()
    (elsewhere / "log").write_text(secret)
    (stack.places.root / "postgresql").symlink_to(elsewhere)


@pytest.mark.parametrize("leak", [in_a_log, in_the_event_log, in_a_job_spec, in_a_linked_folder])
def test_a_secret_in_a_file_is_found(stack: ClusterStack, leak: Callable[[ClusterStack, str], None]) -> None:
    secret = credentials(stack.places)[S3_SECRET_KEY]
    lines = lines_of(stack.places)
    leak(stack, secret)
    with pytest.raises(DemoError, match="the s3-secret-key stands in ") as caught:
        nothing_leaked(stack, lines)
    assert secret not in str(caught.value)


def test_a_setting_that_spark_hides_is_found(stack: ClusterStack) -> None:
    """Spark's event log hides the values of settings whose names are those of secrets: that they are there is the fault."""
    event_log(stack, {"spark.hadoop.fs.s3a.secret.key": "*********(redacted)"})
    with pytest.raises(DemoError, match=r"hides the setting \['spark.hadoop.fs.s3a.secret.key'\]"):
        nothing_leaked(stack, lines_of(stack.places))


def test_a_check_that_saw_no_job_or_no_event_log_fails(places: Places) -> None:
    with pytest.raises(DemoError, match="no job's command line was seen"):
        nothing_leaked(LocalStack(places), CommandLines(secret_values(places), places.jobs))
    with pytest.raises(DemoError, match="Spark left no event log"):
        nothing_leaked(ClusterStack(places), lines_of(places))


def test_the_watcher_sees_what_starts_after_it(places: Places) -> None:
    lines = CommandLines(secret_values(places), places.jobs)
    lines.start()
    try:
        with subprocess.Popen([sys.executable, "-c", "input()", *job(places)], stdin=subprocess.PIPE) as program:
            for _ in range(100):
                if lines.jobs:
                    break
                lines._over.wait(0.1)
            program.communicate(b"\n")
    finally:
        lines.stop()
    assert lines.jobs
