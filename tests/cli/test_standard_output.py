"""A reader that stops early does not change how a command ends; other broken pipes are errors."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.cli import main
from iceberg_ops.errors import CommitInterruptedError
from iceberg_ops.io.local import LocalFileIO
from tests.cli.conftest import Cli, Ran

Piped = Callable[..., Ran]


@pytest.fixture
def piped(cli: Cli, tmp_path: Path) -> Piped:
    """Runs a command line as a process whose standard output has no reader. ``lake.ns.t`` has rows."""
    assert cli("create", "lake.ns.t", "id bigint").code == 0
    pq.write_table(pa.table({"id": list(range(100_000))}), tmp_path / "a.parquet")
    assert cli("append", "lake.ns.t", "--from", str(tmp_path / "a.parquet"), "--lane", "local").code == 0

    def call(*arguments: str) -> Ran:
        read, write = os.pipe()
        os.close(read)
        try:
            command = [sys.executable, "-m", "iceberg_ops.cli.main", *arguments]
            done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False, env=dict(os.environ))
        finally:
            os.close(write)
        return Ran(done.returncode, "", done.stderr)

    return call


def test_a_listing_without_a_reader_is_done(piped: Piped) -> None:
    for arguments in (["scan", "lake.ns.t"], ["files", "lake.ns.t", "--json"], ["inspect", "lake.ns.t", "snapshots"], ["--help"]):
        assert piped(*arguments) == Ran(0, "", "")


def test_a_check_that_found_something_says_so_without_a_reader(piped: Piped, tmp_path: Path) -> None:
    """It ended with 0: a script that checks the exit code considered the table intact."""
    next((tmp_path / "warehouse/ns/t/data").rglob("*.parquet")).unlink()
    assert piped("check", "lake.ns.t", "--json") == Ran(1, "", "")


def test_a_plan_that_found_work_says_so_without_a_reader(piped: Piped) -> None:
    assert piped("plan", "rewrite_data_files", "lake.ns.t", "--option", "rewrite-all=true", "--json").code == 2


def test_a_job_that_failed_says_so_without_a_reader(piped: Piped) -> None:
    done = piped("append", "lake.ns.t", "--from", "/nowhere", "--lane", "local", "--json")
    assert done.code == 1
    assert done.err.startswith("error: BAD_DATA: ")


def test_a_broken_connection_of_a_store_is_an_error(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was treated as a missing reader, with exit code 0, though nothing was done."""

    def broken(*_: object) -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr("iceberg_ops.catalog.filesystem.FileSystemCatalog.load_table", broken)
    done = cli("run", "expire_snapshots", "lake.ns.t")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("error: ")
    assert "Broken pipe" in done.err


def test_an_interrupt_whose_commit_may_have_happened_is_an_unknown_outcome(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """It read as INTERRUPTED, which says nothing about the commit."""

    def interrupted(*_: object) -> None:
        raise CommitInterruptedError("append on lake.ns.t: look for the run key")

    monkeypatch.setattr("iceberg_ops.catalog.filesystem.FileSystemCatalog.load_table", interrupted)
    done = cli("tag", "lake.ns.t", "g")
    assert (done.code, done.err) == (1, "error: COMMIT_STATE_UNKNOWN: append on lake.ns.t: look for the run key\n")


def test_an_interrupt_before_any_commit_is_one(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("iceberg_ops.catalog.filesystem.FileSystemCatalog.load_table", interrupted)
    assert cli("tag", "lake.ns.t", "g").err.strip().splitlines()[-1] == "error: INTERRUPTED: stopped by the user"
    assert main.run(["tag", "lake.ns.t", "g"]) == 130


def test_ctrl_c_while_a_command_prints_what_it_has_done_does_not_say_that_nothing_was_changed(cli: Cli, tmp_path: Path) -> None:
    """Into a pager, which reads a page: the command waits in its output, and its work is done."""
    columns = ", ".join(f"c{number} bigint" for number in range(6_000))
    command = [sys.executable, "-m", "iceberg_ops.cli.main", "create", "lake.ns.t", columns, "--json", "--create-namespace"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.read(1) == "{"
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
        process.stdout.close()
    assert said == ("warning: create is done (exit code 0), but standard output could not be written: it was stopped by Ctrl-C\n")
    assert process.returncode == 0
    assert (tmp_path / "warehouse/ns/t/metadata/v1.metadata.json").exists()


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_ctrl_c_in_a_creation_says_what_may_have_happened(cli: Cli, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    write = LocalFileIO.write

    def interrupted(io: LocalFileIO, location: str, data: bytes, *, overwrite: bool = False) -> None:
        if after:
            write(io, location, data, overwrite=overwrite)
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalFileIO, "write", interrupted)
    done = cli("create", "lake.ns.u", "id bigint")
    assert done.code == 1
    assert done.err.startswith("error: COMMIT_STATE_UNKNOWN: creating table ns.u got no answer: it was interrupted by Keyboard")
    assert "it succeeded if the table is at" in done.err
    monkeypatch.undo()
