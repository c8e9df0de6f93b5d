"""The standard error of a command shows no secret of a location: not in its error, its log lines, its tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest

from iceberg_ops.cli import known_secrets
from iceberg_ops.errors import CatalogUnavailableError
from tests.cli.conftest import Cli


@pytest.mark.parametrize(
    ("kind", "warehouse", "command"),
    [
        ("filesystem", "abfss://c@a.dfs/x?sig=Passw0rd9", "scan lake.ns.t"),
        ("memory", "https://u:Passw0rd9@h/x", "create lake.ns.t 'id int' --create-namespace"),
        ("filesystem", "https://u:Passw0rd9@h/x", "--debug scan lake.ns.t"),
    ],
)
def test_standard_error_has_no_secret(tmp_path: Path, kind: str, warehouse: str, command: str) -> None:
    catalog = {"name": "lake", "type": kind, "properties": {"warehouse": warehouse}}
    (tmp_path / "catalogs.yml").write_text(json.dumps({"catalogs": [catalog]}))
    environment = {**os.environ, "ICEBERG_OPS_CATALOGS": str(tmp_path / "catalogs.yml")}
    shell = f"{sys.executable} -m iceberg_ops.cli.main {command}"
    ended = subprocess.run(shell, shell=True, capture_output=True, text=True, env=environment, check=False)
    assert (ended.returncode, "***" in ended.stderr, "Passw0rd9" in ended.stderr) == (1, True, False), ended.stderr


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_list_of_catalogs_shows_no_secret(cli: Cli, tmp_path: Path, form: tuple[str, ...]) -> None:
    places = ["s3://AKIA:Passw0rd9@bucket/wh", "abfss://c@a.dfs/x?sig=Passw0rd9", "/data/Passw0rd9"]
    catalogs = [
        {"name": f"c{i}", "type": "filesystem", "properties": {"warehouse": place, "token": "Passw0rd9"}}
        for i, place in enumerate(places)
    ]
    (tmp_path / "catalogs.yml").write_text(json.dumps({"catalogs": catalogs}))
    listed = cli("ls", *form)
    assert (listed.code, listed.out.count("***"), "Passw0rd9" in listed.out) == (0, 3, False), listed
    assert "s3://AKIA:***@bucket/wh" in listed.out


SECRET = "pa'ss w:rd/9"


@pytest.mark.parametrize("form", [SECRET, quote(SECRET), quote(SECRET, safe=""), json.dumps(SECRET)[1:-1]])
@pytest.mark.parametrize("debug", [(), ("--debug",)])
def test_a_drivers_message_shows_no_secret_of_a_catalog(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, debug: tuple[str, ...]
) -> None:
    """A driver puts it where no pattern finds it."""
    catalog = {"name": "lake", "type": "sql", "properties": {"uri": f"postgresql://me:{quote(SECRET, safe='')}@h/db"}}
    other = {"name": "other", "type": "sql", "properties": {"token": "geheim-77"}}
    (tmp_path / "catalogs.yml").write_text(json.dumps({"catalogs": [catalog]}))
    job = {"job": "expire_snapshots", "table": "other.a.b", "catalog": other}
    (tmp_path / "job.json").write_text(json.dumps(job))

    def fails(config: object) -> None:
        raise CatalogUnavailableError(f"FATAL: no pg_hba entry for (me, {form}, geheim-77)")

    # The dispatch first: imported after the other was replaced, it would keep the replacement.
    monkeypatch.setattr("iceberg_ops.actions.dispatch.load_catalog", fails)
    monkeypatch.setattr("iceberg_ops.catalog.load.load_catalog", fails)
    ran = cli(*debug, "scan", "lake.ns.t")
    assert (ran.code, form in ran.err, SECRET in ran.err) == (1, False, False), ran.err
    assert "no pg_hba entry for (me, ***, " in ran.err
    ran = cli("run", "--job-spec", str(tmp_path / "job.json"))
    assert (ran.code, form in ran.err + ran.out, "geheim-77" in ran.err + ran.out) == (1, False, False), ran


@pytest.mark.parametrize("kind", ["fifo", "stdin"])
def test_a_job_spec_from_a_pipe_is_read_once_and_its_secrets_are_hidden(tmp_path: Path, kind: str) -> None:
    """It was read again to find its secrets: a named pipe made the command hang, another had nothing more to give."""
    properties = {"warehouse": str(tmp_path / "wh"), "password": "hunter22"}
    catalog = {"name": "lake", "type": "filesystem", "properties": properties}
    job = json.dumps({"job": "expire_snapshots", "table": "lake.db.hunter22", "lane": "local", "catalog": catalog})
    (tmp_path / "spec").write_text(job)
    os.mkfifo(tmp_path / "fifo")
    run = f"{sys.executable} -m iceberg_ops.cli.main run --job-spec"
    shells = {"fifo": f"cat spec > fifo & {run} fifo", "stdin": f"cat spec | {run} /dev/stdin"}
    ended = subprocess.run(shells[kind], shell=True, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 1
    assert "db.***" in ended.stderr
    assert "hunter22" not in ended.stderr


@pytest.mark.parametrize("command", ["health lake.ns.t", "health lake.ns.t --json"])
def test_health_shows_no_secret_of_a_catalog(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """It answers on standard output, and hid patterns only."""
    properties = {"uri": f"sqlite:///{tmp_path}/catalog.db", "s3.secret-access-key": "geheim-77"}
    catalog = {"name": "lake", "type": "sql", "properties": properties}
    (tmp_path / "catalogs.yml").write_text(json.dumps({"catalogs": [catalog]}))
    monkeypatch.setattr("iceberg_ops.actions.dispatch.run_job", refused)
    ran = cli(*command.split())
    assert (ran.code, "key *** is not known" in ran.out, "geheim-77" in ran.out + ran.err) == (1, True, False), ran


@pytest.mark.parametrize(
    "command",
    [
        "append lake.ns.t --lane local --from x.csv --source-option fs.s3a.secret.key=geheim-77",
        "run append lake.ns.t --lane local --from s3a://AKIA:geheim-77@b/x",
        "run add_files lake.ns.t --lane local --option source-path=s3a://AKIA:geheim-77@b/x",
    ],
)
def test_secrets_of_a_source_on_the_command_line_are_known(cli: Cli, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    """Those of a job spec were, and these were not."""
    monkeypatch.setattr("iceberg_ops.actions.dispatch.run_job", refused)
    ran = cli(*command.split())
    assert (ran.code, "key *** is not known" in ran.err, "geheim-77" in ran.out + ran.err) == (1, True, False), ran


def refused(job: object, **_more: object) -> None:
    raise CatalogUnavailableError("the store says: key geheim-77 is not known")


def test_a_secret_that_is_given_twice_is_not_shown(cli: Cli) -> None:
    twice = ("--source-option", "password=geheim-77", "--source-option", "password=geheim-78")
    ran = cli("append", "lake.ns.t", "--from", "x.csv", *twice)
    assert (ran.code, "password: is given twice" in ran.err, "geheim-7" in ran.err) == (1, True, False), ran


def test_log_lines_read_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each line read the catalogs and the job spec again."""
    reads: list[int] = []

    def read() -> list[object]:
        reads.append(1)
        return []

    monkeypatch.setattr("iceberg_ops.catalog.configuration.read_catalogs", read)
    known_secrets.begin()
    for _ in range(3):
        known_secrets.known_secrets()
    assert len(reads) == 1
    known_secrets.begin()
