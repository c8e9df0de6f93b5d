"""A policy with a duplicate key."""

from __future__ import annotations

from pathlib import Path

from iceberg_airflow.dag_builder import build_maintenance_dags

globals().update(build_maintenance_dags(Path(__file__).parent / "policies" / "twice.yml", dag_id="twice"))
