"""``plan``, ``run``, ``health`` and ``policy`` as on-call scripts use them: output, exit code, one line of error."""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.catalog.catalog import Catalog
from iceberg_ops.catalog.filesystem import FileSystemCatalog
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.cli.main import run
from iceberg_ops.config.actions import MAINTENANCE_ACTIONS
from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.local import LocalFileIO
from tests.actions.lake import Lake, numbered
from tests.builders import make_table


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Table ``wh.ns.t`` of six small files, in a catalog file that the environment names."""
    catalog = FileSystemCatalog("wh", LocalFileIO(), warehouse=str(tmp_path / "wh"))
    catalog.create_namespace(("ns",))
    make_table(catalog)
    found = Lake(catalog)
    found.append(*(numbered(100 * i, 100) for i in range(6)))
    config = tmp_path / "catalogs.yml"
    config.write_text(f"catalogs: [{{name: wh, type: filesystem, properties: {{warehouse: {tmp_path / 'wh'}}}}}]")
    monkeypatch.setenv("ICEBERG_OPS_CATALOGS", str(config))
    return found


def as_json(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_plan_exits_with_2_when_there_is_work_and_0_when_there_is_none(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "rewrite_data_files", "wh.ns.t", "--json"]) == 2
    report = as_json(capsys)
    assert (report["status"], report["dry-run"], report["metrics"]["planned-input-files-count"]) == ("planned", True, 6)
    assert run(["plan", "rewrite_data_files", "wh.ns.t", "--option", "min-input-files=7"]) == 0
    assert "left alone: 6 files" in capsys.readouterr().out
    assert len(lake.tasks()) == 6


@pytest.mark.parametrize("action", ["rewrite_data_files", "rewrite_position_delete_files", "convert_equality_deletes"])
@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_where_is_looked_at_where_the_table_is_empty(
    lake: Lake, capsys: pytest.CaptureFixture[str], command: str, action: str
) -> None:
    """There is nothing to plan, and an unknown column was not seen until there was."""
    make_table(lake.catalog, identifier=("ns", "empty"))
    for table in ("empty", "t"):
        assert run([command, action, f"wh.ns.{table}", "--where", "nope = 1"]) == 1
        assert capsys.readouterr().err.startswith("error: BAD_WHERE: no column named 'nope'")
    assert run([command, action, "wh.ns.empty", "--where", "id = 1"]) == 0


def test_a_table_can_be_planned_by_its_path_and_not_changed(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    path = lake.table.location.removeprefix("file://")
    assert run(["plan", "rewrite_data_files", path, "--json"]) == 2
    assert as_json(capsys)["status"] == "planned"
    assert run(["run", "rewrite_data_files", path]) == 1
    assert "is only read" in capsys.readouterr().err


@pytest.mark.parametrize("action", [*MAINTENANCE_ACTIONS, "compute_table_stats", "compute_partition_stats"])
def test_every_action_is_planned_on_a_table_given_by_its_path(action: str, lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    path = lake.table.location.removeprefix("file://")
    assert run(["plan", action, path, "--json"]) in (0, 2), capsys.readouterr().err
    assert as_json(capsys)["action"] == action


def test_health_of_a_path_has_a_verdict_of_every_action(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["health", lake.table.location.removeprefix("file://"), "--json"]) == 2
    found = {row["action"]: row["verdict"] for row in as_json(capsys)}
    assert found.keys() == {*MAINTENANCE_ACTIONS}
    assert "unknown" not in found.values()


def test_run_does_the_work_and_writes_the_report(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    assert run(["run", "rewrite_data_files", "wh.ns.t", "--run-key", "k1", "--report", str(report), "--json"]) == 0
    assert as_json(capsys) == json.loads(report.read_text())
    assert len(lake.tasks()) == 1
    assert run(["run", "rewrite_data_files", "wh.ns.t", "--run-key", "k1"]) == 0
    assert "already-committed" in capsys.readouterr().out


def test_a_dry_run_is_a_plan_of_an_action_or_a_job_spec(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = CatalogConfig(name="wh", type="filesystem", properties={"warehouse": str(tmp_path / "wh")})
    spec = tmp_path / "job.json"
    spec.write_bytes(to_json(JobSpec(job="rewrite_data_files", table="wh.ns.t", catalog=config)))
    by_path = ["rewrite_data_files", lake.table.location.removeprefix("file://")]
    for given in (["rewrite-data-files", "wh.ns.t"], by_path, ["--job-spec", str(spec)]):
        assert run(["run", *given, "--dry-run", "--json"]) == 2
        report = as_json(capsys)
        assert (report["status"], report["dry-run"], report["metrics"]["planned-input-files-count"]) == ("planned", True, 6)
    assert run(["run", "delete", "wh.ns.t", "--where", "id >= 0", "--dry-run", "--json"]) == 2
    assert as_json(capsys)["status"] == "planned"
    assert run(["run", "rewrite_data_files", "wh.ns.t", "--option", "min-input-files=7", "--dry-run"]) == 0
    assert len(lake.tasks()) == 6


def test_run_takes_a_job_spec(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = CatalogConfig(name="wh", type="filesystem", properties={"warehouse": str(tmp_path / "wh")})
    spec = tmp_path / "job.json"
    spec.write_bytes(to_json(JobSpec(job="rewrite_data_files", table="wh.ns.t", catalog=config)))
    assert run(["run", "--job-spec", str(spec)]) == 0
    assert "rewrite_data_files wh.ns.t: committed" in capsys.readouterr().out
    assert len(lake.tasks()) == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["plan", "vacuum", "wh.ns.t"], ("BAD_OPTION", "'vacuum'", "expire_snapshots")),
        (["plan", "rewrite_data_files", "wh.ns.nope"], ("NO_SUCH_TABLE", "nope")),
        (["plan", "rewrite_data_files", "xx.ns.t"], ("BAD_OPTION", "'xx'")),
        (["plan", "rewrite_data_files", "wh.ns.t", "--option", "min-input-files"], ("BAD_OPTION", "KEY=VALUE")),
        (["plan", "rewrite_data_files", "wh.ns.t", "--option", "a=1", "--option", "a=2"], ("BAD_OPTION", "given twice")),
        (["plan", "rewrite_data_files", "wh.ns.t", "--option", "min-inputs=1"], ("BAD_OPTION", "min-inputs", "min-input-files")),
        (["plan", "rewrite_data_files", "wh.ns.t", "--where", "id >"], ("BAD_WHERE",)),
        (["plan", "rewrite_data_files", "wh.ns.t", "--where", "nope = 1"], ("BAD_WHERE", "nope")),
        (["run", "merge", "wh.ns.t"], ("BAD_OPTION", "iceberg-ops merge")),
        (["run", "rewrite_data_files"], ("BAD_OPTION", "TABLE")),
        (["run", "--job-spec", "/nowhere.json"], ("BAD_OPTION", "/nowhere.json")),
        (["run", "remove_orphan_files", "wh.ns.t", "--option", "older-than=1h"], ("BAD_OPTION", "24 hours")),
        (["policy", "lint", "/nowhere.yml"], ("BAD_OPTION", "/nowhere.yml", "no such file")),
    ],
)
def test_bad_input_is_one_line_and_exit_code_1(
    lake: Lake, arguments: list[str], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    for word in words:
        assert word in error


def test_an_old_or_missing_java_is_named(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert run(["run", "rewrite_data_files", "wh.ns.t", "--lane", "spark"]) == 1
    assert "RUNTIME_MISSING: Spark needs Java 17 or newer" in (error := capsys.readouterr().err)
    assert "version 11.0.2" in error
    java.chmod(0o644)
    assert run(["run", "rewrite_data_files", "wh.ns.t", "--lane", "spark"]) == 1
    assert "cannot be run: " in (error := capsys.readouterr().err)
    assert error.startswith("error: RUNTIME_MISSING: ")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    assert run(["run", "rewrite_data_files", "wh.ns.t", "--lane", "spark"]) == 1
    assert "there is no java" in capsys.readouterr().err


def test_health_says_what_is_due_and_why(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["health", "wh.ns.t", "--json"]) == 2
    verdicts = {row["action"]: row for row in as_json(capsys)}
    assert verdicts["rewrite_data_files"]["verdict"] == "due"
    assert "1 group, 6 of 6 files" in verdicts["rewrite_data_files"]["why"]
    assert verdicts["expire_snapshots"]["verdict"] == "not due"


POLICY = """
version: 1
defaults:
  maintenance:
    - action: rewrite_data_files
      options: {min-input-files: 9}
catalogs:
  wh: {type: filesystem, properties: {warehouse: /wh}}
"""


def test_policy_lint_and_explain(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "policy.yml"
    path.write_text(POLICY)
    assert run(["policy", "lint", str(path)]) == 0
    capsys.readouterr()
    assert run(["policy", "explain", str(path), "wh.ns.t", "--json"]) == 0
    (step,) = as_json(capsys)["maintenance"]
    assert step["options"] == {"min-input-files": {"value": "9", "source": "defaults"}}
    assert run(["health", "wh.ns.t", "--policy", str(path)]) == 0
    path.write_text(POLICY.replace("min-input-files", "min-inputs"))
    capsys.readouterr()
    assert run(["policy", "lint", str(path)]) == 1
    said = capsys.readouterr()
    assert re.match(rf"{path}:\d+: defaults\.maintenance\[0\]\.options", said.out)
    assert said.err == f"error: BAD_OPTION: policy {path} has 1 problem\n"


def test_health_fails_where_it_can_not_tell_and_takes_a_refusal_for_an_answer(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["health", "wh.ns.t", "wh.ns.nope", "--json"]) == 1
    seen = capsys.readouterr()
    verdicts = {(row["table"], row["verdict"]) for row in json.loads(seen.out)}
    assert ("wh.ns.t", "due") in verdicts
    assert ("wh.ns.nope", "unknown") in verdicts
    assert seen.err.startswith("error: NO_SUCH_TABLE: ")
    assert run(["evolve", "wh.ns.t", "SET TBLPROPERTIES ('gc.enabled' = 'false')"]) == 0
    capsys.readouterr()
    assert run(["health", "wh.ns.t", "--json"]) == 2
    verdicts = {row["action"]: row["verdict"] for row in as_json(capsys)}
    assert (verdicts["expire_snapshots"], verdicts["rewrite_data_files"]) == ("refused", "due")


@pytest.mark.parametrize("command", [["plan", "rewrite_manifests"], ["health"], ["health", "/a/path"]])
def test_locations_are_mapped_for_tables_given_by_a_path_only(
    lake: Lake, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    """``health`` ignored it, and answered for the table where its catalog says."""
    assert run([*command, "wh.ns.t", "--map-location", "/a=/b"]) == 1
    assert capsys.readouterr().err.startswith("error: BAD_OPTION: --map-location: only for a table given by its path")


def test_health_shows_no_secret(lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_given: object, **_named: object) -> None:
        raise CorruptTableError("no https://me:geheim1@h/t?sig=geheim2")

    monkeypatch.setattr("iceberg_ops.actions.dispatch.run_job", fails)
    assert run(["health", "wh.ns.t", "--json"]) == 1
    seen = capsys.readouterr()
    assert "geheim" not in seen.out + seen.err
    assert "no https://me:***@h/t?sig=***" in seen.out


def test_health_asks_with_a_steps_where(lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yml"
    step = "{action: rewrite_data_files, where: id < 0, options: {min-input-files: 2}}"
    policy.write_text(f"version: 1\ncatalogs: {{wh: {{type: filesystem}}}}\ndefaults: {{maintenance: [{step}]}}\n")
    assert run(["health", "wh.ns.t", "--policy", str(policy), "--json"]) == 0
    (row,) = as_json(capsys)
    assert "no row can match WHERE" in row["why"]


def test_a_report_that_goes_to_a_device_leaves_the_device(lake: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "rewrite_data_files", "wh.ns.t", "--report", os.devnull]) == 2
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)


def test_health_of_a_path_under_a_policy_says_why_that_has_no_meaning(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yml").write_text("version: 1\ncatalogs: {wh: {type: filesystem}}\n")
    capsys.readouterr()
    assert run(["health", str(tmp_path), "--policy", str(tmp_path / "policy.yml")]) == 1
    assert capsys.readouterr().err == (
        f"error: BAD_OPTION: {tmp_path}: a path has no place in a policy; name the table as catalog.namespace.name, or leave out "
        "--policy\n"
    )


@pytest.mark.parametrize("command", [["health", "wh.ns.t", "--policy"], ["policy", "explain"]])
def test_a_policy_without_the_tables_catalog_says_so(
    command: list[str], lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "policy.yml").write_text(
        "version: 1\ndefaults: {maintenance: [{action: remove_orphan_files}]}\ncatalogs: {other: {type: sql}}\n"
    )
    capsys.readouterr()
    arguments = [*command, str(tmp_path / "policy.yml")] + (["wh.ns.t"] if command[0] == "policy" else [])
    assert run(arguments) == 1
    assert "the policy has no catalog 'wh', so nothing in it applies there: its catalogs are other" in capsys.readouterr().err


@pytest.mark.parametrize("uri", ["postgresql://me:geheim@db:54x2/ice", "mysql+pymysql://me:geheim@db/ice", "geheim"])
def test_no_command_shows_the_catalogs_password(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    catalogs, report = tmp_path / "catalogs.yml", tmp_path / "report.json"
    catalogs.write_text(f"catalogs:\n  - {{name: lake, type: sql, properties: {{uri: '{uri}'}}}}\n")
    monkeypatch.setenv("ICEBERG_OPS_CATALOGS", str(catalogs))
    monkeypatch.setitem(sys.modules, "pymysql", None)
    for more in ([], ["--debug"]):
        assert run([*more, "run", "rewrite_manifests", "lake.a.b", "--report", str(report)]) == 1
        assert run([*more, "inspect", "lake.a.b", "snapshots"]) == 1
    said = capsys.readouterr()
    assert "geheim" not in said.err + said.out + report.read_text()


@pytest.fixture
def fake_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A spark-submit that says how its job spec is protected, and leaves a report where the job asks for one."""
    script = tmp_path / "spark" / "bin" / "spark-submit"
    script.parent.mkdir(parents=True)
    script.write_text(
        f"""#!{sys.executable}
import json, os, sys
spec = json.load(open(sys.argv[-1]))
print(oct(os.stat(sys.argv[-1]).st_mode & 0o777), file=sys.stderr)
report = {{"action": spec["job"], "table": spec["table"], "status": "committed", "started-at": "x", "duration-ms": 1}}
json.dump(report, open(spec["report"], "w"))
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    return script


@pytest.mark.usefixtures("fake_spark")
def test_a_report_from_spark_goes_to_a_device_too(lake: Lake, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "rewrite_manifests", "wh.ns.t", "--lane", "spark", "--report", os.devnull, "--json"]) == 0
    assert stat.S_ISCHR(os.stat(os.devnull).st_mode)
    assert json.loads(capfd.readouterr().out)["status"] == "committed"


@pytest.mark.usefixtures("fake_spark")
def test_only_the_owner_reads_the_job_spec_that_spark_gets(lake: Lake, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["run", "rewrite_manifests", "wh.ns.t", "--lane", "spark", "--report", str(tmp_path / "r.json")]) == 0
    assert "0o600" in capfd.readouterr().err
    assert json.loads((tmp_path / "r.json").read_text())["status"] == "committed"


def test_health_opens_a_catalog_once_to_list_it_and_once_for_all_tables(
    lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was opened again for every action on every table."""
    assert run(["create", "wh.ns.u", "id int"]) == 0
    opened: list[str] = []

    def noted(config: CatalogConfig) -> Catalog:
        opened.append(config.name)
        return load_catalog(config)

    monkeypatch.setattr("iceberg_ops.catalog.load.load_catalog", noted)
    monkeypatch.setattr("iceberg_ops.actions.dispatch.load_catalog", noted)
    assert run(["health", "wh.ns"]) == 2
    assert opened == ["wh", "wh"]


def test_health_asks_all_tables_of_a_namespace_a_glob_or_a_policy(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["create", "wh.ns.deep.u", "id int", "--create-namespace"]) == 0
    assert run(["create", "wh.other.t", "id int", "--create-namespace"]) == 0
    (tmp_path / "policy.yml").write_text(POLICY)
    capsys.readouterr()

    def asked(*arguments: str) -> list[str]:
        assert run(["health", *arguments, "--json"]) in (0, 2)
        return list(dict.fromkeys(row["table"] for row in as_json(capsys)))

    assert asked("wh.ns") == ["wh.ns.deep.u", "wh.ns.t"]
    assert asked("wh.*.t") == ["wh.ns.t", "wh.other.t"]
    assert asked("wh.*.t", "wh.ns", "wh.ns.t") == ["wh.ns.t", "wh.other.t", "wh.ns.deep.u"]
    assert asked("wh") == asked("--policy", str(tmp_path / "policy.yml")) == ["wh.ns.deep.u", "wh.ns.t", "wh.other.t"]
    for name in ("wh.a[b]", "wh.ab", "wh.a[", "wh.a{b}"):
        assert run(["create", f"{name}.t", "id int", "--create-namespace"]) == 0
    capsys.readouterr()
    assert asked("wh.a[b]") == asked("wh.a[b].t") == ["wh.a[b].t"]
    assert (asked("wh.a["), asked("wh.a[.t"), asked("wh.a{b}.t")) == (["wh.a[.t"], ["wh.a[.t"], ["wh.a{b}.t"])
    assert asked("wh.a[bc].t") == ["wh.ab.t"]
    for wrong, said in (
        ("wh.nope", "NO_SUCH_TABLE: no table in wh.nope"),
        ("wh.x*", "no table matches"),
        ("wh.[a", "never closed"),
    ):
        assert run(["health", wrong]) == 1
        assert said in capsys.readouterr().err
    assert run(["health"]) == 1
    assert "name a table, a namespace or a glob" in capsys.readouterr().err
