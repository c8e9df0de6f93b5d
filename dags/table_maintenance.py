"""Maintenance of every table that the policy has work for; see `iceberg_airflow.dag_builder`.

`ICEBERG_OPS_POLICY` names the policy's file; the default is `policies/maintenance.yml` beside this one.
"""

from __future__ import annotations

from pathlib import Path

from iceberg_airflow import build_maintenance_dags
from iceberg_ops.config.variables import variable

SAMPLE = Path(__file__).parent / "policies" / "maintenance.yml"

globals().update(build_maintenance_dags(Path(variable("ICEBERG_OPS_POLICY") or SAMPLE)))
