"""Airflow for tests: its own home, no examples, connections from the environment. Set before anything imports Airflow."""

from __future__ import annotations

import json
import os
import tempfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_HOME = tempfile.TemporaryDirectory(prefix="iceberg-ops-airflow-")
os.environ.update(
    {
        "AIRFLOW_HOME": _HOME.name,
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{_HOME.name}/airflow.db",
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(Path(_HOME.name) / "plugins"),
    }
)


@pytest.fixture(autouse=True)
def connections(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The two connections that operators use by default, and a folder for job specs."""
    extra = {"name": "lake", "type": "sql", "uri": "sqlite:////data/catalog.db", "warehouse": "/data/warehouse"}
    monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps({"conn_type": "iceberg_ops", "extra": extra}))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    monkeypatch.setenv("ICEBERG_OPS_JOBS", str(tmp_path / "jobs"))


@pytest.fixture(scope="session")
def installed_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PYTHONPATH on which the package is as pip leaves it: with its metadata."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    path = tmp_path_factory.mktemp("installed")
    folder = path / "iceberg_ops-9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: iceberg-ops\nVersion: 9\n")
    lines = [f"{name} = {target}" for name, target in project["entry-points"]["apache_airflow_provider"].items()]
    (folder / "entry_points.txt").write_text("[apache_airflow_provider]\n" + "\n".join(lines) + "\n")
    return os.pathsep.join([str(path), str(ROOT), str(ROOT / "plugins")])
