"""What a command writes to standard error has no secret of a location: not its error, its log lines, its tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


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
