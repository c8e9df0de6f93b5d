"""Appends of a list of files, one mapped task for each, on this machine and on Spark; a check; updates."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, Param, dag, task

from iceberg_airflow.operators import IcebergAppendOperator, IcebergOpsOperator
from iceberg_airflow.policy_operators import CheckTableOperator
from iceberg_airflow.retry_policy import iceberg_retry_policy


def impatient() -> ExceptionRetryPolicy:
    """The package's policy, without its delays: a torture has no minute to spare."""
    rules = [replace(r, retry_delay=r.retry_delay and timedelta(seconds=1)) for r in iceberg_retry_policy().rules]
    return ExceptionRetryPolicy(rules=rules)


USUAL: dict[str, Any] = {
    "schedule": None,
    "start_date": datetime(2026, 1, 1, tzinfo=UTC),
    "catchup": False,
    "max_active_runs": 20,
    "default_args": {"retries": 30, "retry_delay": timedelta(seconds=1), "retry_policy": impatient()},
    "params": {"table": Param("a.b", type="string"), "list": Param("", type="string")},
}


@task
def listed(params: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """The sources of a run: the list is read when the task runs, so it may have changed since the run was first done."""
    paths = json.loads(Path((params or {})["list"]).read_text())
    return [{"format": "parquet", "paths": [path]} for path in paths]


@dag(dag_id="loads", **USUAL)
def loads() -> None:
    append = IcebergAppendOperator.partial(task_id="append", table="{{ params.table }}", lane="local").expand(source=listed())
    append >> CheckTableOperator(task_id="check", table="{{ params.table }}")


@dag(dag_id="spark_loads", **USUAL)
def spark_loads() -> None:
    IcebergAppendOperator.partial(task_id="append", table="{{ params.table }}", lane="spark", max_active_tis_per_dag=1).expand(
        source=listed()
    )


@dag(dag_id="once", **{**USUAL, "default_args": {"retries": 0}})
def once() -> None:
    IcebergAppendOperator(
        task_id="append", table="{{ params.table }}", lane="spark", source={"format": "parquet", "paths": ["{{ params.list }}"]}
    )


@dag(dag_id="native", **{**USUAL, "params": {**USUAL["params"], "where": Param(None, type=["null", "string"])}},
     render_template_as_native_obj=True)  # fmt: skip
def native() -> None:
    IcebergOpsOperator(
        task_id="update",
        job="update",
        table="{{ params.table }}",
        where="{{ params.where }}",
        lane="local",
        change={"set": {"id": "7"}},
    )


loads()
spark_loads()
once()
native()
