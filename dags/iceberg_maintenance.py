"""### One action on one table, from a form

Choose a table and an action; options are Iceberg's own, as JSON. `plan` shows in its log what would be done and why; with *dry
run* ticked that is all. Otherwise `run` does it, and `verify` checks the table. Nothing to do: the run ends after the plan, its
tasks skipped.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from iceberg_airflow import CheckTableOperator, IcebergOpsOperator, IcebergPlanOperator, task_defaults
from iceberg_ops.config.actions import MAINTENANCE_ACTIONS

WORK: dict[str, Any] = {
    "job": "{{ params.action }}",
    "table": "{{ params.table }}",
    "options": "{{ params.options }}",
    "where": "{{ params.where }}",
    "branch": "{{ params.branch }}",
}


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["iceberg", "maintenance", "on-call"],
    render_template_as_native_obj=True,
    default_args=task_defaults(retries=1, timeout=timedelta(hours=6)),
    params={
        "table": Param("web.events", type="string", pattern=r"^[^.\s]+(\.[^.\s]+)+$", title="Table", description="namespace.table"),
        "action": Param("rewrite_data_files", type="string", enum=list(MAINTENANCE_ACTIONS), title="Action"),
        "options": Param({}, type="object", title="Options", description='Iceberg\'s names, e.g. {"min-input-files": "2"}'),
        "where": Param(
            None, type=["null", "string"], title="Where", description="Spark SQL; only files that may match are touched"
        ),
        "branch": Param("main", type="string", title="Branch"),
        "lane": Param("auto", type="string", enum=["auto", "local", "spark"], title="Lane"),
        "dry_run": Param(True, type="boolean", title="Dry run", description="Plan only"),
    },
    doc_md=__doc__,
)
def iceberg_maintenance() -> None:
    @task.short_circuit(ignore_downstream_trigger_rules=True)
    def go_on(params: dict[str, Any] | None = None) -> bool:
        """Stop here on a dry run."""
        return not (params or {})["dry_run"]

    plan = IcebergPlanOperator(task_id="plan", **WORK)
    run = IcebergOpsOperator(task_id="run", lane="{{ params.lane }}", **WORK)
    verify = CheckTableOperator(task_id="verify", table="{{ params.table }}")
    plan >> go_on() >> run >> verify


iceberg_maintenance()
