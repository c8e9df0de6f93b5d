"""DAGs of the policies that are right as documents; one that is not has a file of its own, whose import error is looked for."""

from __future__ import annotations

from pathlib import Path

from iceberg_airflow.dag_builder import build_maintenance_dags

HERE = Path(__file__).parent / "policies"
for name in ("odd_crons", "foreign", "many", "some"):
    globals().update(build_maintenance_dags(HERE / f"{name}.yml", dag_id=name, tables_at_once=4))
