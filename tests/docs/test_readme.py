"""README's commands work as described, on the demo's flights."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from demo.landing import land_day
from demo.tables import ensure_table
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.catalog.configuration import find_catalog
from iceberg_ops.config.job_spec import JobSpec, Source
from tests.docs.markdown import ROOT, blocks

DAYS = (date(2013, 2, 7), date(2013, 2, 8), date(2013, 2, 9))


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the demo has left its catalog with three days of flights."""
    left = tmp_path / "build" / "demo"
    left.mkdir(parents=True)
    properties = f"{{uri: 'sqlite:///{left}/catalog.db', warehouse: '{left}/warehouse'}}"
    (left / "catalogs.yml").write_text(f"catalogs:\n  - name: demo\n    type: sql\n    properties: {properties}\n")
    monkeypatch.setenv("ICEBERG_OPS_CATALOGS", str(left / "catalogs.yml"))
    config = find_catalog("demo")
    table = ensure_table(config, "flights")
    for day in DAYS:
        source = Source(**land_day(left / "landing", day))
        run_job(JobSpec(job="append", table=table, catalog=config, lane="local", source=source))
    return tmp_path


def test_every_command_without_airflow_shows_something(checkout: Path) -> None:
    (block,) = (b for b in blocks(ROOT / "README.md") if "ICEBERG_OPS_CATALOGS" in b)
    environment = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(checkout)}
    environment["ICEBERG_OPS_CATALOGS"] = "build/demo/catalogs.yml"
    assert "ICEBERG_OPS_CATALOGS=build/demo/catalogs.yml " in block
    shown = {}
    for command in re.findall(r"^iceberg-ops .*$", block, re.MULTILINE):
        done = subprocess.run(
            ["bash", "-c", command], cwd=checkout, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        may = {2} if " plan " in command else {0, 2} if " health " in command else {0}
        assert done.returncode in may, command + done.stdout + done.stderr
        shown[" ".join(command.split()[1:3])] = done.stdout
    assert all(shown.values())
    assert shown["scan demo.nyc.flights"].count('"origin": "JFK"') == len(shown["scan demo.nyc.flights"].splitlines()) == 5
    assert shown["plan rewrite_data_files"].startswith("rewrite_data_files demo.nyc.flights: planned\n")
    assert shown["run rewrite_data_files"].startswith("rewrite_data_files demo.nyc.flights: committed\n")
    assert "kept: " in shown["run expire_snapshots"]
    assert shown["check demo.nyc.flights"].endswith("all well\n")
