"""DAGs of the valid policy documents; an invalid one has its own file, whose import error is checked."""

from __future__ import annotations

from pathlib import Path

from iceberg_airflow.dag_builder import build_maintenance_dags

HERE = Path(__file__).parent / "policies"
for name in ("odd_crons", "foreign", "many", "some"):
    globals().update(build_maintenance_dags(HERE / f"{name}.yml", dag_id=name, tables_at_once=4))
