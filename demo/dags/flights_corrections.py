"""### Late corrections

Three row-level changes, each one Spark job and one commit:

- `nyc.flights`, **merge-on-read** MERGE: diverted flights get their arrival delay, flights that never had a plane are withdrawn,
and
  the flights of carriers that report late are added. Old rows are marked in position delete files; no data file is rewritten.
- `nyc.planes`, **copy-on-write** UPDATE: one manufacturer under one name.
- `nyc.weather`, **copy-on-write** DELETE: readings that cannot be (a wind of 1,048 mph at Newark on 12 February 2013).

Run again, it changes no row: every condition is false on corrected rows.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk import dag, task

from iceberg_airflow.operators import IcebergDeleteOperator, IcebergMergeOperator, IcebergUpdateOperator
from iceberg_airflow.retry_policy import task_defaults

COLUMNS = (
    *("time_hour", "carrier", "flight", "origin", "dest", "tailnum", "year", "month", "day", "hour", "minute"),
    *("dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay", "air_time", "distance"),
)
KEYS = COLUMNS[:4]
# A few thousand rows: Spark's usual 200 shuffle partitions would be 200 empty tasks.
SMALL = {"spark.sql.shuffle.partitions": "4"}


@dag(
    schedule=None,
    start_date=datetime(2013, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["iceberg", "corrections", "nyc"],
    default_args=task_defaults(timeout=timedelta(minutes=15)),
    doc_md=__doc__,
)
def flights_corrections() -> None:
    @task
    def land(run_id: str | None = None) -> dict[str, Any]:
        """Derive the corrections of every landed day, and lay them where the Spark job can read them."""
        from demo.runs import land_late_corrections

        return land_late_corrections(str(run_id))

    landed: Any = land()
    IcebergMergeOperator(
        task_id="merge_flights",
        table="nyc.flights",
        mode="merge-on-read",
        spark_conf=SMALL,
        source=landed,
        on=" AND ".join(f"target.{k} = source.{k}" for k in KEYS),
        clauses=[
            {"when": "matched", "condition": "source.correction = 'withdrawn'", "action": "delete"},
            {
                "when": "matched",
                "condition": "source.correction = 'diverted' AND target.arr_delay IS NULL",
                "action": "update",
                "assignments": {"arr_delay": "source.arr_delay"},
            },
            {
                "when": "not-matched",
                "condition": "source.correction = 'late'",
                "action": "insert",
                "assignments": {c: f"source.{c}" for c in COLUMNS},
            },
        ],
    )
    IcebergUpdateOperator(
        task_id="update_planes",
        table="nyc.planes",
        mode="copy-on-write",
        spark_conf=SMALL,
        set={"manufacturer": "CASE WHEN manufacturer LIKE 'AIRBUS%' THEN 'AIRBUS' ELSE 'MCDONNELL DOUGLAS' END"},
        where="manufacturer IN ('AIRBUS INDUSTRIE', 'MCDONNELL DOUGLAS AIRCRAFT CO', 'MCDONNELL DOUGLAS CORPORATION')",
    )
    IcebergDeleteOperator(
        task_id="delete_weather", table="nyc.weather", mode="copy-on-write", where="wind_speed > 250", spark_conf=SMALL
    )


flights_corrections()
