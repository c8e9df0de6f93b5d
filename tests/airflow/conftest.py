"""Airflow for tests: its own home, no examples, connections from the environment. Set before anything imports Airflow."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import pytest

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
