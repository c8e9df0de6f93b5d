"""The blocks of docs/catalogs.md do what they say, on the servers that they are about."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.docs.test_tutorial import pattern, typed
from tests.servers.rest.reference import ReferenceServer

PAGE = ROOT / "docs" / "catalogs.md"


@pytest.mark.oracle
def test_the_first_steps_with_a_rest_catalog_are_as_shown(tmp_path: Path, rest_server: ReferenceServer) -> None:
    config = next(body for body in blocks(PAGE, "yaml") if "type: rest" in body)
    steps = next(body for body in blocks(PAGE, "") if "lake.shop.orders" in body)
    assert "uri: http://127.0.0.1:8181" in config
    (tmp_path / "catalogs.yml").write_text(config.replace("http://127.0.0.1:8181", rest_server.uri(rest_server.new_name())))
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ICEBERG_OPS_")}
    environment |= {"PATH": f"{Path(sys.executable).parent}:{environment['PATH']}", "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
    for command, answer in typed(steps):
        done = subprocess.run(
            ["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        said = done.stdout + done.stderr
        assert re.fullmatch(pattern(answer), said), f"{command}\nanswers\n{said}"
