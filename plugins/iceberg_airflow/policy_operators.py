"""Operators of DAGs that a policy builds: find the tables, do one step on one table, check a table afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from iceberg_airflow.hook import DEFAULT_CONNECTION, IcebergCatalogHook
from iceberg_airflow.job_folder import JobFolder
from iceberg_airflow.lanes import python_environment
from iceberg_airflow.operators import IcebergOpsOperator, identity_of
from iceberg_airflow.outcome import error_of_line
from iceberg_airflow.processes import last_line, run_python
from iceberg_airflow.retry_policy import iceberg_retry_policy
from iceberg_airflow.work import Answer, Request, StepWork, TableWork
from iceberg_ops.config.document import from_json, to_json
from iceberg_ops.errors import CorruptTableError


class DiscoverTablesOperator(BaseOperator):
    """Give the work of every table that has some, as a list to map over; the verdict of every table is logged.

    :param policy: path of the policy file
    :param schedule: take the steps on this schedule; None: those without one
    """

    ui_color = "#eef3f7"

    def __init__(
        self, *, policy: str, schedule: str | None = None, catalog_conn_id: str = DEFAULT_CONNECTION, **kwargs: Any
    ) -> None:
        kwargs.setdefault("retry_policy", iceberg_retry_policy())
        super().__init__(**kwargs)
        self.policy = policy
        self.steps_on = schedule
        self.catalog_conn_id = catalog_conn_id

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Raises the typed error that the discovery ended with."""
        folder = JobFolder.of(identity_of(context))
        catalog = IcebergCatalogHook(self.catalog_conn_id).get_conn()
        request = folder.write_private(
            "request.json", to_json(Request(catalog=catalog, policy=self.policy, schedule=self.steps_on))
        )
        answer = folder.folder / "answer.json"
        run_python(["-m", "iceberg_airflow.discovery", str(request), str(answer)])
        found = from_json(answer.read_bytes(), Answer, str(answer)).tables
        for table in found:
            labels = ", ".join(step.label for step in table.steps)
            self.log.info("%s: %s%s", table.table, table.reason, f": {labels}" if labels else "")
        return [msgspec.to_builtins(table) for table in found if table.steps]


class PolicyStepOperator(IcebergOpsOperator):
    """One step of one table's work. Skipped where the table's policy does not have the step, and, as a plan, where nothing is due.

    :param work: the table's work, an item of what DiscoverTablesOperator gives (templated)
    :param step: the step's label
    """

    template_fields: Sequence[str] = ("work",)
    template_fields_renderers = {"work": "json"}  # noqa: RUF012

    def __init__(self, *, work: Any, step: str, plan: bool = False, **kwargs: Any) -> None:
        kwargs.setdefault("map_index_template", "{{ task.work['table'] }}")
        super().__init__(job="", table="", plan_only=plan, skip_if_nothing=plan, **kwargs)
        self.work = work
        self.step = step
        self.plan = plan

    def execute(self, context: Any) -> dict[str, Any]:
        work = msgspec.convert(self.work, TableWork)
        step = next((step for step in work.steps if step.label == self.step), None)
        if step is None:
            raise AirflowSkipException(f"the policy of {work.table} has no step {self.step}")
        self._take(work.table, step)
        return super().execute(context)

    def _take(self, table: str, step: StepWork) -> None:
        self.job, self.table = step.action, table
        self.options, self.where, self.branch = step.options, step.where, step.branch
        self.lane = "local" if self.plan else step.lane


class CheckTableOperator(BaseOperator):
    """``iceberg-ops check``: everything the table refers to exists, parses and adds up.

    :param work: a table's work (templated), or
    :param table: its name (templated)
    """

    template_fields: Sequence[str] = ("work", "table")
    ui_color = "#dff0d8"

    def __init__(
        self, *, work: Any = None, table: str | None = None, catalog_conn_id: str = DEFAULT_CONNECTION, **kwargs: Any
    ) -> None:
        kwargs.setdefault("retry_policy", iceberg_retry_policy())
        super().__init__(**kwargs)
        self.work = work
        self.table = table
        self.catalog_conn_id = catalog_conn_id

    def execute(self, context: Any) -> str:
        """Raises CorruptTableError with the first finding; all of them are in the log."""
        catalog = IcebergCatalogHook(self.catalog_conn_id).get_conn()
        table = str(self.work["table"] if isinstance(self.work, Mapping) else self.table)
        table = table if table.startswith(f"{catalog.name}.") else f"{catalog.name}.{table}"
        folder = JobFolder.of(identity_of(context))
        # JSON is YAML: the catalogs file holds secrets, so it lies beside the job specs.
        document = json.dumps({"catalogs": [msgspec.to_builtins(catalog)]}).encode()
        catalogs = folder.write_private("catalogs.yml", document)
        done = subprocess.run(
            [sys.executable, "-m", "iceberg_ops.cli.main", "check", table],
            env={**os.environ, **python_environment(), "ICEBERG_OPS_CATALOGS": str(catalogs)},
            capture_output=True,
            text=True,
            check=False,
        )
        lines = [line for line in (done.stdout + "\n" + done.stderr).splitlines() if line.strip()]
        for line in lines:
            self.log.info("%s", line)
        if done.returncode:
            raise error_of_line(last_line(done.stderr)) or CorruptTableError(
                f"{table}: {lines[0] if lines else 'check failed without a word'}"
            )
        return table
