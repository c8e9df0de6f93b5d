"""Completions that a shell offers after the Tab key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli


@pytest.fixture
def place(cli: Cli, tmp_path: Path) -> Path:
    for name in ("lake.web.events", "lake.web.users", "lake.shop.orders"):
        assert cli("create", name, "id int", "--create-namespace").code == 0
    return tmp_path


def offered(*words: str) -> list[str]:
    """As bash asks for it: the last word is the one that is typed."""
    line = " ".join(("iceberg-ops", *words))
    environment = {**os.environ, "_ICEBERG_OPS_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words))}
    program = "from iceberg_ops.cli.main import main; main()"
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return [answer.partition(",")[2] for answer in done.stdout.splitlines() if answer]


@pytest.mark.usefixtures("place")
def test_tables_are_offered_by_the_names_that_begin_so() -> None:
    assert sorted(offered("scan", "la")) == ["lake.shop.orders", "lake.web.events", "lake.web.users"]
    assert sorted(offered("scan", "lake.web")) == ["lake.web.events", "lake.web.users"]
    assert offered("append", "lake.web.us") == ["lake.web.users"]
    assert offered("scan", "nope.") == offered("scan", "lake.web.x") == []


@pytest.mark.usefixtures("place")
def test_actions_topics_commands_and_tables_are_offered_in_either_order() -> None:
    assert offered("run", "rewrite-d") == offered("plan", "rewrite_d") == ["rewrite_data_files"]
    assert offered("run", "rewrite_data_files", "lake.sh") == ["lake.shop.orders"]
    assert offered("run", "lake.shop.orders", "expire") == ["expire_snapshots"]
    assert offered("inspect", "lake.shop.orders", "ref") == ["refs"]
    assert "rollback" in offered("ro")


def test_what_cannot_be_listed_is_not_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bad.yml").write_text("catalogs: 5\n")
    monkeypatch.setenv("ICEBERG_OPS_CATALOGS", str(tmp_path / "bad.yml"))
    assert offered("scan", "la") == []
