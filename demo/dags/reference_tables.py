"""### Airlines, airports, planes and weather

Loads the reference tables of the flights, one mapped task per table. A table's rows are appended once: a second run finds the first
one's run key and changes nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import dag, task

from iceberg_airflow.operators import IcebergAppendOperator
from iceberg_airflow.retry_policy import task_defaults

TABLES = ["weather", "planes", "airports", "airlines"]


@dag(
    schedule=None,
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["iceberg", "ingest", "nyc"],
    default_args=task_defaults(timeout=timedelta(minutes=15)),
    doc_md=__doc__,
)
def reference_tables() -> None:
    @task(map_index_template="{{ task.op_kwargs['name'] }}")
    def land(name: str) -> dict[str, Any]:
        """Create the table if it is not there, and lay its rows where the Spark job can read them."""
        from demo.runs import land_table
        from demo.tables import ensure_table
        from iceberg_airflow.hook import IcebergCatalogHook

        ensure_table(IcebergCatalogHook().get_conn(), name)
        return land_table(name)

    IcebergAppendOperator.partial(
        task_id="append",
        map_index_template="{{ task.table }}",
        max_active_tis_per_dag=2,
        options={"distribution-mode": "none"},
        spark_conf={"spark.sql.files.maxPartitionBytes": "2097152", "spark.sql.files.openCostInBytes": "2097152"},
    ).expand_kwargs(land.expand(name=TABLES))


reference_tables()
