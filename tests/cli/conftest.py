"""A command line with its own catalog."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from iceberg_ops.cli.main import run
from iceberg_ops.config.job_spec import CatalogConfig


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


Cli = Callable[..., Ran]


@pytest.fixture
def cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]) -> Cli:
    """Runs a command line in this process; catalog ``lake`` (a folder) is configured and has namespace ``ns``."""
    warehouse = tmp_path / "warehouse"
    config = f"catalogs:\n  - name: lake\n    type: filesystem\n    properties: {{warehouse: '{warehouse}'}}\n"
    (tmp_path / "catalogs.yml").write_text(config)
    monkeypatch.setenv("ICEBERG_OPS_CATALOGS", str(tmp_path / "catalogs.yml"))
    lake().create_namespace(("ns",))

    def call(*arguments: str) -> Ran:
        capfdbinary.readouterr()
        code = run([str(a) for a in arguments])
        out, err = capfdbinary.readouterr()
        return Ran(code, out.decode(), err.decode())

    return call


def lake() -> Any:
    """The configured catalog."""
    from iceberg_ops.catalog.configuration import find_catalog
    from iceberg_ops.catalog.load import load_catalog

    found: CatalogConfig = find_catalog("lake")
    return load_catalog(found)
