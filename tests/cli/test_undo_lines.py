"""Printed undo lines can be run unchanged, whatever the names; a refused statement leaves its report."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from iceberg_ops.cli import catalogs
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from tests.builders import IDENTIFIER, append_file, data_file, live_paths, make_table
from tests.cli.conftest import Cli, lake

ID = "lake.ns.a table"


@pytest.fixture
def heads(cli: Cli) -> list[int]:
    """Ids of two snapshots of a table with a space in its name."""
    assert cli("create", ID, "id bigint").code == 0
    found: list[int] = []
    for n in range(2):
        made = commit(lake(), lake().load_table(("ns", "a table")), AppendFiles(added=(data_file(f"/t/{n}.parquet"),)))
        assert made.snapshot is not None
        found.append(made.snapshot.snapshot_id)
    return found


def undo(cli: Cli, out: str) -> None:
    program, *words = shlex.split(out.split("To undo: ", 1)[1])
    assert program == "iceberg-ops"
    assert cli(*words).code == 0


@pytest.mark.parametrize("name", ["-x", "--drop", "--", "a b", "it's", "$(touch a)", "東京"])
def test_a_branch_of_any_name_is_dropped_and_brought_back(cli: Cli, heads: list[int], name: str) -> None:
    undo(cli, cli("branch", ID, "--", name).out)
    assert set(lake().load_table(("ns", "a table")).metadata.refs) == {"main"}


@pytest.mark.parametrize("form", [(), ("--json",)], ids=["text", "JSON"])
def test_the_undo_of_a_drop_has_a_commit_that_came_right_before_it(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: tuple[str, ...]
) -> None:
    properties = f"{{uri: 'sqlite:///{tmp_path}/c.db', warehouse: '{tmp_path}/wh'}}"
    (tmp_path / "catalogs.yml").write_text(f"catalogs:\n  - name: lake\n    type: sql\n    properties: {properties}\n")
    lake().create_namespace(("ns",))
    make_table(lake())
    opened = catalogs.open_in_catalog

    def and_another_commits(target: str) -> tuple[Any, Any]:
        found = opened(target)
        append_file(lake(), "late")
        return found

    monkeypatch.setattr(catalogs, "open_in_catalog", and_another_commits)
    out = cli("drop", "lake.ns.t", *form).out
    assert not lake().table_exists(IDENTIFIER)
    if form:
        assert cli("register", "lake.ns.t", json.loads(out)["metadata-location"]).code == 0
    else:
        undo(cli, out)
    assert [Path(path).name for path in live_paths(lake().load_table(IDENTIFIER))] == ["late.parquet"]


@pytest.mark.parametrize("kind", ["tag", "branch"])
def test_a_move_that_set_another_retention_is_undone_whole_or_not_offered(cli: Cli, heads: list[int], kind: str) -> None:
    assert cli(kind, ID, "b", "--retain", "5d").code == 0
    before = lake().load_table(("ns", "a table")).metadata.refs
    moved = cli(kind, ID, "b", "--replace", "--snapshot-id", str(heads[0]), "--retain", "9d").out
    assert "retention changed" in moved
    undo(cli, moved)
    assert lake().load_table(("ns", "a table")).metadata.refs == before
    assert cli(kind, ID, "c").code == 0
    assert "To undo" not in cli(kind, ID, "c", "--replace", "--snapshot-id", str(heads[0]), "--retain", "9d").out


@pytest.mark.parametrize("lane", ["auto", "local", "spark"])
def test_a_refused_statement_replaces_an_earlier_report(cli: Cli, heads: list[int], tmp_path: Path, lane: str) -> None:
    report = tmp_path / "report.json"
    missing = str(tmp_path / "missing.parquet")
    assert cli("append", ID, "--from", missing, "--lane", lane, "--report", str(report)).code == 1
    found = json.loads(report.read_text())
    assert (found["status"], found["dry-run"], found["error"]["code"]) == ("failed", False, "BAD_DATA")
