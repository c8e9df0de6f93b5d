"""### Flights of one day into `nyc.flights`

Each run takes one UTC day of real flights, lays them as one file per airport and appends them in one Spark job. The run key is the
day: **a day run twice leaves one copy of its rows**, so a backfill may be repeated, cleared or retried without thought.

Fill a range from the command line or the UI's backfill button:
`airflow backfill create --dag-id flights_ingest --from-date 2013-02-06 --to-date 2013-02-10 --max-active-runs 2`

A day without flights fails with one line that says so, and writes nothing. A manual run takes its day from the form.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import Param, dag, task

from iceberg_airflow.operators import IcebergAppendOperator
from iceberg_airflow.retry_policy import task_defaults


@dag(
    schedule="@daily",
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    end_date=datetime(2014, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=2,
    tags=["iceberg", "ingest", "nyc"],
    default_args=task_defaults(timeout=timedelta(minutes=15)),
    params={
        "day": Param(None, type=["null", "string"], format="date", title="Day", description="For a manual run: the UTC day to load")
    },
    doc_md=__doc__,
)
def flights_ingest() -> None:
    @task
    def create_table() -> str:
        """Create nyc.flights if it is not there."""
        from demo.tables import ensure_table
        from iceberg_airflow.hook import IcebergCatalogHook

        return ensure_table(IcebergCatalogHook().get_conn(), "flights")

    @task(multiple_outputs=True)
    def land(params: dict[str, Any] | None = None, ds: str | None = None) -> dict[str, Any]:
        """Lay the day's flights where the Spark job can read them."""
        from demo.runs import land_flights

        return land_flights((params or {}).get("day") or ds)

    landed: Any = land()
    append = IcebergAppendOperator(
        task_id="append",
        table="nyc.flights",
        source=landed["source"],
        run_key=landed["run_key"],
        options={"distribution-mode": "none"},
        # One task, and so one data file, for each landed file: small files are what maintenance is shown on.
        spark_conf={"spark.sql.files.maxPartitionBytes": "2097152", "spark.sql.files.openCostInBytes": "2097152"},
    )
    create_table() >> append


flights_ingest()
