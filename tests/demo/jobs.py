"""The demo's jobs without Airflow's servers: the statements of its DAGs and the steps of its policy, in one Spark session.

Operators of the real DAG files build the job specs; this module adds only the values of a running task (identity, results of
earlier tasks).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any

from airflow.dag_processing.dagbag import DagBag
from pyspark.sql import SparkSession

from demo.datasets import DATASETS, REFERENCE
from demo.landing import land_corrections, land_day, land_reference
from demo.places import POLICY
from demo.stack import Stack
from demo.table_states import catalog_config
from demo.tables import ensure_table
from iceberg_airflow.discovery import verdict
from iceberg_airflow.job_folder import JobFolder, TryIdentity
from iceberg_airflow.operators import IcebergOpsOperator
from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.policy_lint import load_policy
from iceberg_ops.config.report import ActionReport
from spark_jobs.jobs.dispatch import run

DAYS = [date(2013, 2, 7), date(2013, 2, 8)]


@dataclass
class Jobs:
    """Runs the demo's jobs in ``session`` on the tables of ``stack``."""

    session: SparkSession
    stack: Stack
    bag: DagBag

    def ingest(self) -> None:
        """Create and fill every table: each day, then each reference table."""
        config = catalog_config(self.stack)
        for name in DATASETS:
            ensure_table(config, name)
        for day in DAYS:
            self.append_day(day)
        for name in REFERENCE:
            source = land_reference(self.stack.places.landing, name)
            self.run_task(self.bag.dags["reference_tables"].get_task("append"), table=f"nyc.{name}", source=source, run_key=name)

    def append_day(self, day: date) -> ActionReport:
        """What a run of flights_ingest does."""
        source = land_day(self.stack.places.landing, day)
        task = self.bag.dags["flights_ingest"].get_task("append")
        return self.run_task(task, source=source, run_key=f"flights_ingest/{day}")

    def correct(self) -> dict[str, ActionReport]:
        """What a run of flights_corrections does; one report for each task."""
        dag = self.bag.dags["flights_corrections"]
        landed = land_corrections(self.stack.places.landing, "batch")
        return {
            "merge_flights": self.run_task(dag.get_task("merge_flights"), source=landed, run_key="merge"),
            "update_planes": self.run_task(dag.get_task("update_planes"), run_key="update"),
            "delete_weather": self.run_task(dag.get_task("delete_weather"), run_key="delete"),
        }

    def maintain(self) -> list[ActionReport]:
        """What table_maintenance does: every step of every table, in the policy's order."""
        policy = load_policy(POLICY.read_bytes(), POLICY.name)
        config = catalog_config(self.stack)
        reports = []
        for name in DATASETS:
            work = verdict(policy, f"{config.name}.nyc.{name}", None)
            for step in work.steps:
                job = JobSpec(job=step.action, table=work.table, catalog=config, options=step.options, lane=step.lane)  # type: ignore[arg-type]
                reports.append(run(self.session, job) if step.lane == "spark" else run_job(job))
        return reports

    def run_task(self, task: Any, *, run_key: str, **fields: Any) -> ActionReport:
        """Run the job of a DAG's task, with ``fields`` in place of what earlier tasks would have given."""
        given = task.partial_kwargs if task.is_mapped else vars(task)
        operator = IcebergOpsOperator(
            task_id=task.task_id,
            job=given.get("job", "append"),
            table=fields.get("table") or given["table"],
            options=given.get("options"),
            where=given.get("where"),
            change=given.get("change"),
            source=fields.get("source"),
            run_key=run_key,
        )
        folder = JobFolder(self.stack.places.jobs / run_key.replace("/", "_"))
        folder.folder.mkdir(parents=True, exist_ok=True)
        job = operator.job_spec(TryIdentity("a_dag", "a_run", task.task_id, -1, 1), folder)
        for key, value in given.get("spark_conf", {}).items():
            self.session.conf.set(key, value)
        return run(self.session, job)
