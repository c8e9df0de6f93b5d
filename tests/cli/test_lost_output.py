"""Standard output and error that are full, closed or not UTF-8 do not change the work of a command."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.workers.runner import Progress
from iceberg_ops.cli.progress import LINE_SECONDS, lines
from iceberg_ops.io.machine_limits import limit_error
from tests.cli.conftest import Cli, Ran

Shell = Callable[..., Ran]


@pytest.fixture
def shell(cli: Cli, tmp_path: Path) -> Shell:
    """Runs a command line in a shell, with redirections. ``lake.ns.t`` has no rows; ``$ROWS`` is a file of three."""
    assert cli("create", "lake.ns.t", "id bigint").code == 0
    pq.write_table(pa.table({"id": [1, 2, 3]}), tmp_path / "a.parquet")

    def call(line: str, **environment: str) -> Ran:
        script = f"{sys.executable} -m iceberg_ops.cli.main {line}"
        env = {**os.environ, "ROWS": str(tmp_path / "a.parquet"), **environment}
        encoding = env.get("PYTHONIOENCODING", "utf-8")
        done = subprocess.run(["bash", "-c", script], capture_output=True, encoding=encoding, check=False, env=env)
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


@pytest.mark.parametrize("how", ["> /dev/full", ">&-", "--json > /dev/full", "--json >&-"])
def test_a_job_whose_output_is_lost_keeps_its_exit_code(shell: Shell, cli: Cli, tmp_path: Path, how: str) -> None:
    report = tmp_path / "report.json"
    done = shell(f"append lake.ns.t --from $ROWS --lane local --report {report} {how}")
    assert (done.code, done.err.count("\n")) == (0, 1)
    assert done.err.startswith("warning: append is done (exit code 0), but standard output could not be written: ")
    assert json.loads(report.read_text())["status"] == "committed"
    assert len(cli("scan", "lake.ns.t").rows) == 3


@pytest.mark.parametrize(
    "line", ["plan rewrite_data_files lake.ns.t", "inspect lake.ns.t schema", "scan lake.ns.t", "files lake.ns.t --json"]
)
@pytest.mark.parametrize("how", ["> /dev/full", ">&-"])
def test_a_command_that_only_reads_has_failed_where_its_output_is_lost(
    shell: Shell, cli: Cli, tmp_path: Path, line: str, how: str
) -> None:
    assert cli("append", "lake.ns.t", "--from", f"{tmp_path}/a.parquet", "--lane", "local").code == 0
    done = shell(f"{line} {how}")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("error: IO: standard output could not be written: ")


@pytest.mark.parametrize("how", ["2>&-", "2> /dev/full"])
def test_a_job_whose_standard_error_is_lost_is_done(shell: Shell, cli: Cli, how: str) -> None:
    done = shell(f"append lake.ns.t --from $ROWS --lane local --json {how}")
    assert (done.code, done.json["status"]) == (0, "committed")
    assert len(cli("scan", "lake.ns.t").rows) == 3


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_report_is_valid_json_in_every_encoding(shell: Shell, encoding: str) -> None:
    done = shell("append lake.ns.t --from $ROWS --lane local --json --run-key café-日", PYTHONIOENCODING=encoding)
    assert (done.code, done.err) == (0, "")
    assert done.json["run-key"] == "café-日"
    told = shell("append lake.ns.t --from $ROWS --lane local --run-key café-日-2", PYTHONIOENCODING=encoding)
    assert (told.code, told.err) == (0, "")


def test_a_progress_line_that_cannot_be_written_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    with open("/dev/full", "w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        tell = lines(lambda: now)
        for now in (LINE_SECONDS, 2 * LINE_SECONDS):
            tell(Progress(1, 4, 0, 0, now, "rewriting", "files"))
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())


def test_only_a_temporary_file_without_space_is_about_the_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "spill"))
    no_space = (errno.ENOSPC, "No space left on device")
    assert limit_error(OSError(*no_space)) is not None
    assert limit_error(OSError(*no_space, str(tmp_path / "spill" / "run-1"))) is not None
    assert limit_error(OSError(*no_space, str(tmp_path / "log"))) is None


@pytest.mark.parametrize(
    "line",
    [
        "evolve lake.ns.t 'ADD COLUMN x int' --dry-run",
        "append lake.ns.t --from $ROWS --dry-run",
        "append --help",
        "run expire_snapshots -h",
        "namespace lake.ns",
    ],
)
def test_what_only_shows_something_has_failed_where_its_output_is_lost(shell: Shell, line: str) -> None:
    """It said that it was done, with the exit code of success: what it prints is all that a dry run is for."""
    done = shell(f"{line} > /dev/full")
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert done.err.startswith("error: IO: standard output could not be written: ")


@pytest.mark.parametrize("dry", [True, False])
@pytest.mark.parametrize("place", ["> /dev/full", ">&-"])
def test_a_dry_run_of_a_job_spec_has_failed_too_where_nothing_is_due(shell: Shell, tmp_path: Path, dry: bool, place: str) -> None:
    config = {"name": "lake", "type": "filesystem", "properties": {"warehouse": f"{tmp_path}/warehouse"}}
    job = {"job": "expire_snapshots", "table": "lake.ns.t", "catalog": config, "dry-run": dry}
    (tmp_path / "job.json").write_text(json.dumps(job))
    assert shell(f"run --job-spec {tmp_path}/job.json").code == 0, "nothing is due"
    done = shell(f"run --job-spec {tmp_path}/job.json {place}")
    assert (done.code, done.err[: done.err.index(":")]) == ((1, "error") if dry else (0, "warning"))
