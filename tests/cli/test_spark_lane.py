"""``--lane spark``: however spark-submit ends, the command ends with its own exit code and line, and Spark ends with it."""

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
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import Cli

REPORT = '{"action": "append", "table": "lake.ns.t", "status": "%s", "started-at": "2026-01-01T00:00:00Z", "duration-ms": 1%s}'
COMMITTED, FAILED = REPORT % ("committed", ""), REPORT % ("failed", ', "error": {"code": "BAD_DATA", "message": "no such path"}')
WRITE_REPORT = "import json, sys; open(json.load(open(sys.argv[1]))['report'], 'w').write(sys.argv[2])"


class Spark:
    """A stand-in for spark-submit: a shell script. ``$spec`` is the job spec's path, ``report TEXT`` writes the report."""

    def __init__(self, folder: Path) -> None:
        self.script = folder / "spark/bin/spark-submit"
        self.script.parent.mkdir(parents=True)

    def does(self, body: str) -> None:
        write = f'report() {{ "{sys.executable}" -c "{WRITE_REPORT}" "$spec" "$1"; }}'
        self.script.write_text(f"#!/bin/bash\nfor spec; do :; done\n{write}\n{body}\n")
        self.script.chmod(0o755)


@pytest.fixture
def spark(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spark:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setattr("iceberg_ops.cli.spark_launcher.find_java", lambda _environment: (17, "java"))
    assert cli("create", "lake.ns.t", "id int").code == 0
    return Spark(tmp_path)


APPEND = ["append", "lake.ns.t", "--query", "SELECT 1", "--lane", "spark"]


def signalled(program: str, report: Path, begun: Path, number: signal.Signals) -> tuple[subprocess.Popen[str], str]:
    """An append by a Python program of its own, which gets the signal once the file ``begun`` is there; and what it said."""
    command = subprocess.Popen([sys.executable, "-c", program, *APPEND, "--report", str(report)], stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not begun.exists() and time.monotonic() < until:
        time.sleep(0.05)
    command.send_signal(number)
    return command, command.communicate(timeout=60)[1]


@pytest.mark.parametrize(("how", "code"), [("kill -9 $$", 137), ("exit 137", 137), ("exit 0", 0), ("exit 1", 1), ("exit 3", 3)])
def test_a_job_without_a_report_has_an_unknown_outcome(cli: Cli, spark: Spark, how: str, code: int) -> None:
    """The exit code was Spark's, and there was no line that said what had happened."""
    spark.does(how)
    done = cli(*APPEND)
    assert (done.code, done.out) == (1, "")
    said = f"error: COMMIT_STATE_UNKNOWN: append on lake.ns.t: spark-submit ended with exit code {code} and without a report"
    assert done.err.splitlines()[-1].startswith(said)


def test_a_dry_run_without_a_report_has_changed_nothing(cli: Cli, spark: Spark) -> None:
    spark.does("exit 137")
    (line,) = cli("append", "lake.ns.t", "--from", "/x", "--dry-run", "--lane", "spark").err.splitlines()[-1:]
    assert line.startswith("error: ")
    assert "COMMIT_STATE_UNKNOWN" not in line


def test_a_job_that_could_not_start_says_so_once(cli: Cli, spark: Spark) -> None:
    spark.does("echo starting; echo 'error: RUNTIME_MISSING: no spark' >&2; exit 1")
    assert cli(*APPEND) == (1, "", "starting\nerror: RUNTIME_MISSING: no spark\n")


def test_a_reports_error_is_said_once(cli: Cli, spark: Spark) -> None:
    spark.does(f"report '{FAILED}'; echo 'error: BAD_DATA: no such path' >&2; exit 1")
    assert cli(*APPEND) == (1, "", "error: BAD_DATA: no such path\n")
    spark.does(f"report '{FAILED}'; exit 137")
    assert cli(*APPEND) == (1, "", "error: BAD_DATA: no such path\n")


def test_what_a_report_says_has_happened_whatever_became_of_spark(cli: Cli, spark: Spark) -> None:
    spark.does(f"report '{COMMITTED}'; kill -9 $$")
    done = cli(*APPEND, "--json")
    assert (done.code, done.json["status"], done.err) == (0, "committed", "")


def test_a_report_that_was_cut_off_says_nothing(cli: Cli, spark: Spark) -> None:
    spark.does(f"report '{COMMITTED[:40]}'; exit 0")
    assert "error: COMMIT_STATE_UNKNOWN: " in cli(*APPEND).err


@pytest.mark.parametrize(
    "report",
    [
        COMMITTED.replace("lake.ns.t", "lake.ns.other"),
        COMMITTED.replace("append", "upsert"),
        COMMITTED,
        COMMITTED[:-1] + ', "run-key": "k2"}',
    ],
    ids=["table", "action", "no run key", "run key"],
)
def test_a_report_of_another_job_says_nothing(cli: Cli, spark: Spark, report: str) -> None:
    spark.does(f"report '{report}'; exit 0")
    assert "error: COMMIT_STATE_UNKNOWN: " in cli(*APPEND, "--run-key", "k1").err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("is_whole", [True, False])
def test_a_job_that_reported_is_not_said_to_have_changed_nothing(
    spark: Spark, tmp_path: Path, number: signal.Signals, is_whole: bool
) -> None:
    """The rows were committed, but Spark had not yet stopped, and the job never opened the pipe: a Ctrl-C said INTERRUPTED."""
    report = COMMITTED if is_whole else COMMITTED[:40]
    spark.does(f"report '{report}'; touch {tmp_path}/reported; sleep 600")
    code = "import iceberg_ops.cli.main as m, iceberg_ops.cli.spark_launcher as s; s.find_java = lambda e: (17, 'java'); m.main()"
    command, said = signalled(code, tmp_path / "report.json", tmp_path / "reported", number)
    assert "INTERRUPTED" not in said
    assert (tmp_path / "report.json").exists() is is_whole
    if number == signal.SIGTERM:
        assert command.returncode == -number
    else:
        assert (command.returncode, "error: COMMIT_STATE_UNKNOWN" in said) == ((0, False) if is_whole else (1, True))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_stopping_the_command_ends_spark_and_removes_the_job_spec(spark: Spark, tmp_path: Path, number: signal.Signals) -> None:
    """Spark went on, and committed, without its parent, and the catalog's password stayed in the temporary folder."""
    (tmp_path / "tmp").mkdir()
    spark.does(f"sleep 600 & echo $! $$ > {tmp_path}/pids.part; mv {tmp_path}/pids.part {tmp_path}/pids; wait")
    code = "import iceberg_ops.cli.main as m, iceberg_ops.cli.spark_launcher as s; s.find_java = lambda e: (17, 'java'); m.main()"
    environment = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    command = subprocess.Popen([sys.executable, "-c", code, *APPEND], env=environment, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not (tmp_path / "pids").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert list((tmp_path / "tmp").rglob("job-spec.json"))
    command.send_signal(number)
    said = command.communicate(timeout=60)[1]
    assert (command.returncode, said.strip().splitlines()[-1:]) == (
        (130, ["error: INTERRUPTED: stopped by the user"]) if number == signal.SIGINT else (-number, [])
    )
    assert not [pid for pid in (tmp_path / "pids").read_text().split() if _runs(int(pid))]
    assert [path for path in (tmp_path / "tmp").rglob("*") if path.is_file()] == []


JOB = """
import json, os, signal, sys, time
pipe = sys.argv[sys.argv.index("--command-pipe") + 1]
report = json.load(open(sys.argv[-1]))["report"]
reading = os.open(pipe, os.O_RDONLY)
os.unlink(pipe)
open(sys.argv[1], "w").close()
os.read(reading, 1)
if sys.argv[2]:
    open(report, "w").write(sys.argv[2])
    print("error: INTERRUPTED: stopped by the user")
    sys.exit(130)
time.sleep(600)
"""
STOPPED = REPORT % ("failed", ', "error": {"code": "INTERRUPTED", "message": "stopped by the user"}')


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("report", "code", "said"),
    [(STOPPED, 130, "error: INTERRUPTED: stopped by the user"), (COMMITTED, 0, ""), ("", 1, "error: COMMIT_STATE_UNKNOWN: ")],
    ids=["stopped", "done already", "does not end"],
)
def test_a_job_that_has_begun_is_interrupted_and_says_how_it_ended(
    spark: Spark, tmp_path: Path, report: str, code: int, said: str, number: signal.Signals
) -> None:
    (tmp_path / "job.py").write_text(JOB)
    spark.does(f'exec "{sys.executable}" {tmp_path}/job.py {tmp_path}/begun \'{report}\' "$@"')
    program = (
        "import iceberg_ops.cli.main as m, iceberg_ops.cli.spark_launcher as s, iceberg_ops.cli.spark_process as p\n"
        "s.find_java = lambda e: (17, 'java'); p._TIDYING_SECONDS = 1.0; p._TERM_SECONDS = 1.0; m.main()"
    )
    command, told = signalled(program, tmp_path / "report.json", tmp_path / "begun", number)
    lines = told.splitlines()
    assert (tmp_path / "report.json").exists() is bool(report)
    if number == signal.SIGTERM:
        assert command.returncode == -number
        return
    assert command.returncode == code, lines
    if report != COMMITTED:
        assert lines[-1].startswith(said)
        assert len([line for line in lines if line.startswith("error: ")]) == 1


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


ESCAPED = "import os, sys, time; os.{}; open(sys.argv[1], 'w').write(str(os.getpid())); os.rename(*sys.argv[1:]); time.sleep(600)"
"""A process that holds the output open, as a daemon or an agent does that Spark's environment file starts."""


@pytest.fixture
def left_behind(tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """A line of shell that starts such a process in its own session (``setsid()``) or in spark-submit's (``getpid()``)."""
    pid = tmp_path / "left.pid"
    yield lambda call: f'"{sys.executable}" -c "{ESCAPED.format(call)}" {pid}.part {pid} & until [ -e {pid} ]; do sleep 0.05; done'
    if _runs(int(pid.read_text())):
        os.kill(int(pid.read_text()), signal.SIGKILL)


@pytest.mark.parametrize("call", ["setsid()", "getpid()"])
def test_the_command_ends_with_spark_whatever_holds_its_output(
    cli: Cli, spark: Spark, left_behind: Callable[[str], str], call: str
) -> None:
    """The command waited for the end of the output: for ever, although the job was done and its report written."""
    spark.does(f"{left_behind(call)}; report '{COMMITTED}'; echo engine is done; exit 0")
    done = cli(*APPEND, "--json")
    assert (done.code, done.json["status"], done.err) == (0, "committed", "engine is done\n")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_command_whatever_holds_the_output(
    spark: Spark, tmp_path: Path, left_behind: Callable[[str], str], number: signal.Signals
) -> None:
    (tmp_path / "job.py").write_text(JOB)
    spark.does(f'{left_behind("setsid()")}; exec "{sys.executable}" {tmp_path}/job.py {tmp_path}/begun \'{STOPPED}\' "$@"')
    program = (
        "import iceberg_ops.cli.main as m, iceberg_ops.cli.spark_launcher as s; s.find_java = lambda e: (17, 'java'); m.main()"
    )
    report = tmp_path / "report.json"
    command = subprocess.Popen([sys.executable, "-c", program, *APPEND, "--report", str(report)], stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not (tmp_path / "begun").exists() and time.monotonic() < until:
        time.sleep(0.05)
    command.send_signal(number)
    try:
        assert command.wait(60) == (130 if number == signal.SIGINT else -number)
    finally:
        command.kill()
    assert report.exists()


@pytest.mark.parametrize("master", ["", " "])
def test_a_master_without_a_value_is_none(
    cli: Cli, spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, master: str
) -> None:
    """It counted as a cluster, and spark-submit got ``--master ''``."""
    monkeypatch.setenv("ICEBERG_OPS_SPARK_MASTER", master)
    monkeypatch.setenv("ICEBERG_OPS_DRIVER_MEMORY", master)
    catalogs = tmp_path / "catalogs.yml"
    catalogs.write_text(catalogs.read_text().replace("warehouse:", "spark-from-bytes: '0', warehouse:"))
    done = cli("run", "rewrite_data_files", "lake.ns.t", "--json")
    assert (done.json["lane"], done.json["lane-reason"]) == ("local", "auto: no Spark master is configured")
    spark.does(f"echo \"$1 $2 $3\"; report '{COMMITTED}'")
    assert cli(*APPEND).err.startswith("--master local[*] ")
    assert "--driver-memory" not in cli(*APPEND).err


@pytest.mark.parametrize(
    "arguments",
    [
        ["append", "lake.ns.t", "--from", "{tmp}/new.parquet"],
        ["overwrite", "lake.ns.t", "--from", "{tmp}/new.parquet"],
        ["delete", "lake.ns.t", "--where", "id = 1"],
        ["update", "lake.ns.t", "--set", "id = 7", "--where", "id = 1"],
    ],
    ids=lambda found: found[0],
)
def test_lane_auto_does_here_what_needs_no_spark(cli: Cli, spark: Spark, tmp_path: Path, arguments: list[str]) -> None:
    spark.does("exit 3")
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), tmp_path / "new.parquet")
    assert cli("append", "lake.ns.t", "--from", str(tmp_path / "new.parquet"), "--lane", "local").code == 0
    report = tmp_path / "report.json"
    done = cli(*(word.format(tmp=tmp_path) for word in arguments), "--json", "--report", str(report))
    assert done.code == 0, done.err
    assert json.loads(report.read_text())["snapshot-ids"] == done.json["snapshot-ids"]
    assert (done.json["lane"], done.json["lane-reason"][:5]) == ("local", "auto:")


@pytest.mark.parametrize(
    ("arguments", "needs"),
    [
        (["append", "lake.ns.t", "--query", "SELECT 1"], "a source query"),
        (["delete", "lake.ns.t", "--where", "hash(id) = 1"], "delete where hash(id) = 1 (function hash)"),
        (["update", "lake.ns.t", "--set", "id = hash(id)"], "SET id = hash(id) (function hash)"),
    ],
    ids=lambda found: found[0] if isinstance(found, list) else "",
)
def test_lane_auto_starts_spark_for_what_needs_it_and_says_why(
    cli: Cli, spark: Spark, tmp_path: Path, arguments: list[str], needs: str
) -> None:
    spark.does("exit 3")
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), tmp_path / "new.parquet")
    assert cli("append", "lake.ns.t", "--from", str(tmp_path / "new.parquet"), "--lane", "local").code == 0
    report = tmp_path / "report.json"
    done = cli(*arguments, "--report", str(report))
    assert done.err.startswith(f"lane spark (auto: needs Spark: {needs})\n")
    assert "spark-submit ended with exit code 3" in done.err
    assert not report.exists(), "the outcome is unknown, and no report says that nothing was done"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["append", "lake.ns.u", "--query", "SELECT 1"], "NO_SUCH_TABLE"),
        (["append", "lake.ns.t", "--from", "/nothing/there"], "BAD_DATA"),
        (["append", "lake.ns.t", "--query", "SELECT 1", "--option", "write-task=3"], "BAD_OPTION"),
        (["delete", "lake.ns.t", "--where", "idd = 1"], "BAD_WHERE"),
        (["update", "lake.ns.t", "--set", "idd = 1"], "BAD_OPTION"),
        (["upsert", "lake.ns.t", "--query", "SELECT 1 AS id", "--keys", "idd"], "BAD_SCHEMA"),
    ],
    ids=lambda found: found if isinstance(found, str) else found[0],
)
def test_what_is_wrong_is_said_before_spark_is_started(cli: Cli, spark: Spark, arguments: list[str], code: str) -> None:
    spark.does("echo STARTED")
    done = cli(*arguments, "--lane", "spark")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith(f"error: {code}: "), done.err


def test_a_run_that_may_be_committed_already_is_asked_though_its_source_is_gone(cli: Cli, spark: Spark, tmp_path: Path) -> None:
    source = tmp_path / "new.parquet"
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), source)
    again = ["append", "lake.ns.t", "--from", str(source), "--run-key", "k", "--json"]
    assert cli(*again).json["status"] == "committed"
    source.unlink()
    assert cli(*again).json["status"] == "already-committed"


def test_much_data_goes_to_spark(cli: Cli, spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.does("exit 3")
    source = tmp_path / "new.parquet"
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), source)
    monkeypatch.setattr("iceberg_ops.actions.lanes.MOST_ROW_BYTES", source.stat().st_size - 1)
    said = cli("append", "lake.ns.t", "--from", str(source)).err
    assert said.startswith(f"lane spark (auto: {source.stat().st_size} bytes to read, more than ")


def test_many_computed_rows_go_to_spark(cli: Cli, spark: Spark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spark.does("exit 3")
    source = tmp_path / "new.parquet"
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32())}), source)
    assert cli("append", "lake.ns.t", "--from", str(source)).code == 0
    monkeypatch.setattr("iceberg_ops.actions.lanes.MOST_COMPUTED_ROWS", 1)
    said = cli("delete", "lake.ns.t", "--where", "id + 1 = 3").err
    assert said.startswith("lane spark (auto: a condition or a value is computed from each of 2 rows, more than 1)")
    assert cli("delete", "lake.ns.t", "--where", "id = 2").code == 0
    monkeypatch.setattr("iceberg_ops.actions.lanes.MOST_ROW_BYTES", 1)
    assert cli("delete", "lake.ns.t", "--where", "id < 5").code == 0
