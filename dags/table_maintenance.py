"""Maintenance of every table, as `policies/maintenance.yml` wants it; see `iceberg_airflow.dag_builder`."""

from __future__ import annotations

from pathlib import Path

from iceberg_airflow.dag_builder import build_maintenance_dags

globals().update(build_maintenance_dags(Path(__file__).parent / "policies" / "maintenance.yml"))
