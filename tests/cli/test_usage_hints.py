"""A usage error shows where the command accepts the argument that was given elsewhere, and users see the next step."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from iceberg_ops.cli.main import run
from tests.cli.conftest import Cli


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["append", "lake.web.t", "a b.csv", "c.csv"], "(a b.csv c.csv): rows come from --from, so --from c.csv"),
        (["upsert", "lake.web.t", "a.csv"], "extra argument (a.csv): rows come from --from, so --from a.csv"),
        (["rollback", "lake.web.t", "42"], "extra argument (42): a snapshot is named by --snapshot-id 42"),
        (["append", "lake.web.t", "--path", "a.csv"], "No such option '--path'. Rows come from --from PATH."),
        (["append", "lake.web.t", "--bad-records", "fail"], "It is an option of the job: --option bad-records=VALUE"),
        (["run", "expire-snapshots", "lake.web.t", "--retain_last=1"], "It is an option of the job: --option retain-last=VALUE"),
        (["plan", "lake.web.t", "rewrite_data_files", "--rewrite-all"], "It is an option of the job: --option rewrite-all=VALUE"),
    ],
)
def test_a_usage_error_says_where_it_belongs(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: USAGE: ")
    assert error.strip().endswith(said)


@pytest.mark.parametrize(
    "arguments",
    [["scan", "lake.web.t", "x"], ["run", "lake.web.t", "--blah"], ["expire_snapshots"], ["scan", "--retain-last", "1"]],
)
def test_a_usage_error_without_a_near_place_stays_as_it_is(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: USAGE: ")
    assert "rows come from" not in error.lower()
    assert "option of the job" not in error


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["scan", "lake.ns.none"], ["error: NO_SUCH_TABLE: ", "next: check the name, and which catalogs file is in use"]),
        (["scan"], ["error: USAGE: "]),
    ],
)
def test_the_next_step_stands_under_the_error_on_a_terminal_only(cli: Cli, arguments: list[str], told: list[str]) -> None:
    assert cli(*arguments).err.count("\n") == 1
    master, terminal = pty.openpty()
    command = [sys.executable, "-m", "iceberg_ops.cli.main", *arguments]
    done = subprocess.run(command, stderr=terminal, stdout=subprocess.DEVNULL, check=False, env=dict(os.environ))
    os.close(terminal)
    said = os.read(master, 10_000).decode().splitlines()
    os.close(master)
    assert done.returncode == 1
    assert [line.startswith(start) for line, start in zip(said, told, strict=True)] == [True] * len(told)
