"""The main commands print the screens in ``golden``, so a change of a screen is visible in review.

``ICEBERG_OPS_GOLDEN=write`` writes the files instead. Values that differ from run to run are normalized before a table is laid out.
"""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from iceberg_ops.cli import output, report_view
from iceberg_ops.commit.manifests import snapshot_draft
from tests.cli.conftest import Cli

GOLDEN = Path(__file__).parent / "golden"
POLICY = """\
version: 1
defaults:
  schedule: "@daly"
  maintenance:
    - action: rewrite_data_file
    - action: expire_snapshots
      options: {older_than: 5d}
catalogs:
  lake: {type: filesystem}
tables:
  - match: lake.web.events
    mantenance: []
"""
SCREENS = {
    "ls": "ls lake.web",
    "health": "health lake.web.events",
    "inspect-snapshots": "inspect lake.web.events snapshots",
    "inspect-files": "inspect lake.web.events files",
    "scan": "scan lake.web.events --where \"kind = 'view'\"",
    "plan-rewrite": "plan rewrite_data_files lake.web.events --option min-input-files=2",
    "run-rewrite": "run rewrite_data_files lake.web.events --option min-input-files=2 --lane local",
    "plan-expire": "plan expire_snapshots lake.web.events --option older-than=2100-01-01 --option retain-last=2",
    "check": "check lake.web.events",
    "policy-lint": "policy lint policy.yml",
    "error-table": "scan lake.web.event",
    "error-option": "run rewrite_data_files lake.web.events --option min-input-file=2",
}
"""In this order, on one table."""


def same(text: str, root: Path) -> str:
    """The text without what is of this run."""
    text = text.replace(str(root / "warehouse"), "/lake")
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(-[0-9a-f]{12})?", _zeros, text)
    return re.sub(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", "2026-01-01 00:00:00", text)


def _zeros(found: re.Match[str]) -> str:
    return re.sub("[0-9a-f]", "0", found[0])


@pytest.fixture
def made_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Gives every run the same ids, times and paths, and a width."""
    ids = itertools.count(1_000_000_000_000_000_001)
    cell, heading = output._cell, report_view._heading

    def timeless(report: Any) -> str:
        steps = [msgspec.structs.replace(step, duration_ms=7) for step in report.steps]
        return heading(msgspec.structs.replace(report, steps=steps))

    def at(width: int) -> None:
        monkeypatch.setattr(output, "PIPE_WIDTH", width)

    monkeypatch.setattr(snapshot_draft, "_new_snapshot_id", lambda table: next(ids))
    monkeypatch.setattr(output, "_cell", lambda value: same(cell(value), tmp_path))
    monkeypatch.setattr(report_view, "_heading", timeless)
    monkeypatch.chdir(tmp_path)
    return at


def seed(cli: Cli, folder: Path) -> None:
    """Three days of rows, each day loaded twice, one row deleted."""
    columns = "id long, at timestamp, kind string, price decimal(9, 2)"
    assert cli("create", "lake.web.events", columns, "--partitioned-by", "days(at)", "--create-namespace").code == 0
    assert cli("create", "lake.web.sessions", "id long").code == 0
    for day in (1, 2, 3, 1, 2, 3):
        rows = f"id,at,kind,price\n{day}1,2026-07-0{day} 08:00:00,click,1.50\n{day}2,2026-07-0{day} 09:30:00,view,20.25\n"
        (folder / "day.csv").write_text(rows)
        assert cli("append", "lake.web.events", "--from", str(folder / "day.csv")).code == 0
    assert cli("delete", "lake.web.events", "--where", "id = 12").code == 0
    (folder / "policy.yml").write_text(POLICY)


@pytest.mark.parametrize("width", [80, 120])
def test_the_screens_are_those_of_the_files(width: int, cli: Cli, made_same: Callable[[int], None], tmp_path: Path) -> None:
    seed(cli, tmp_path)
    made_same(width)
    differing = []
    for name, line in SCREENS.items():
        ran = cli(*shlex.split(line))
        shown = same(f"$ iceberg-ops {line}\n{ran.out}{ran.err}[exit code {ran.code}]\n", tmp_path)
        file = GOLDEN / str(width) / f"{name}.txt"
        if os.environ.get("ICEBERG_OPS_GOLDEN") == "write":
            file.parent.mkdir(exist_ok=True)
            file.write_text(shown)
        elif not file.exists() or file.read_text() != shown:
            differing.append(f"{file.relative_to(GOLDEN)} is now\n{shown}")
    assert not differing, "\n".join(differing)


def test_every_file_is_a_screen() -> None:
    expected = {f"{width}/{name}.txt" for width in (80, 120) for name in SCREENS}
    assert {str(path.relative_to(GOLDEN)) for path in GOLDEN.rglob("*.txt")} == expected


@pytest.mark.parametrize("file", sorted(GOLDEN.rglob("*.txt")), ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_no_table_is_wider_than_its_screen(file: Path) -> None:
    lines = [line for line in file.read_text().splitlines() if line[:1] in "┏┃┡│└"]
    assert max(map(len, lines), default=0) <= int(file.parent.name)
