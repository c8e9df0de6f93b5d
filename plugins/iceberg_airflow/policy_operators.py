"""Operators of DAGs built from a policy: find the tables, do one step on one table, check a table afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from airflow.sdk import conf
from airflow.sdk.exceptions import AirflowSkipException

from iceberg_airflow.hook import DEFAULT_CONNECTION, IcebergCatalogHook
from iceberg_airflow.operators import GuardedOperator, IcebergOpsOperator, full_name, try_identity
from iceberg_airflow.processes import run_module
from iceberg_airflow.rendering import text
from iceberg_airflow.work import CheckAnswer, CheckRequest, DiscoveryAnswer, Request, StepWork, parse_table, parse_work
from iceberg_ops.config.document import Document, from_json, to_json
from iceberg_ops.errors import CorruptTableError, OptionError, UnsupportedError

ANSWER = "answer.json"


class CatalogOperator(GuardedOperator):
    """Base of operators that start a separate process to read a catalog."""

    def __init__(self, *, catalog_conn_id: str = DEFAULT_CONNECTION, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.catalog_conn_id = catalog_conn_id

    def ask(self, context: Any, module: str, request: Document) -> bytes:
        """The answer's document. Raises the typed error with which the process ended."""
        folder = self.job_folder(try_identity(context))
        asked, answer = folder.private("request.json"), folder.folder / ANSWER
        answer.unlink(missing_ok=True)
        run_module(self._processes, module, [str(asked), str(answer)], {asked: to_json(request)})
        return answer.read_bytes()


class DiscoverTablesOperator(CatalogOperator):
    """Give the work of every table that has some, as a list to map over; the verdict of every table is logged.

    :param policy: path of the policy file
    :param schedule: take the steps on this schedule; None: those without one
    """

    ui_color = "#eef3f7"

    def __init__(self, *, policy: str, schedule: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.policy = policy
        self.steps_on = schedule

    def execute(self, context: Any) -> list[dict[str, Any]]:
        """Raises the typed error with which the discovery ended, OptionError for more tables than Airflow can map over."""
        catalog = IcebergCatalogHook(self.catalog_conn_id).get_conn()
        request = Request(catalog=catalog, policy=self.policy, schedule=self.steps_on)
        tables = from_json(self.ask(context, "iceberg_airflow.discovery", request), DiscoveryAnswer, ANSWER).tables
        for table in tables:
            labels = ", ".join(step.label for step in table.steps)
            self.log.info("%s: %s%s", table.table, table.reason, f": {labels}" if labels else "")
        work = [table for table in tables if table.steps]
        _check_count(len(work), conf.getint("core", "max_map_length", fallback=1024))
        return [msgspec.to_builtins(table) for table in work]


class PolicyStepOperator(IcebergOpsOperator):
    """One step of one table's work. Skipped if the table's policy does not have the step, and, as a plan, if nothing is due.

    :param table_work: the table's work, an item of DiscoverTablesOperator's result (templated)
    :param step: the step's label
    """

    template_fields: Sequence[str] = ("table_work",)
    template_fields_renderers = {"table_work": "json"}  # noqa: RUF012 - Airflow reads it from the class
    work_is_given = False

    def __init__(self, *, table_work: Any, step: str, plan: bool = False, **kwargs: Any) -> None:
        kwargs.setdefault("map_index_template", "{{ task.table_work['table'] }}")
        super().__init__(job="", table="", plan_only=plan, skip_if_nothing=plan, **kwargs)
        self.table_work = table_work
        self.step = step
        self.plan = plan

    def execute(self, context: Any) -> dict[str, Any]:
        """Raises OptionError for work that is missing or from another release, and every error of the job."""
        work = parse_work(self.table_work)
        step = next((step for step in work.steps if step.label == self.step), None)
        if step is None:
            raise AirflowSkipException(f"the policy of {work.table} has no step {self.step}")
        if work.refused is not None:
            raise UnsupportedError(work.refused)
        self._take(work.table, step)
        return super().execute(context)

    def _take(self, table: str, step: StepWork) -> None:
        self.job, self.table = step.action, table
        self.options, self.where, self.branch = step.options, step.where, step.branch
        self.lane = "local" if self.plan else step.lane


class CheckTableOperator(CatalogOperator):
    """``iceberg-ops check``: everything the table refers to exists, parses and adds up.

    :param table_work: a table's work (templated), or
    :param table: its name (templated)
    """

    template_fields: Sequence[str] = ("table_work", "table")
    ui_color = "#dff0d8"

    def __init__(self, *, table_work: Any = None, table: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.table_work = table_work
        self.table = table

    def execute(self, context: Any) -> str:
        """Raises CorruptTableError with the first finding; all of them are in the log. OptionError if no table is named."""
        catalog = IcebergCatalogHook(self.catalog_conn_id).get_conn()
        named = parse_table(self.table_work) if self.table_work is not None or self.table is None else self.table
        table = full_name(text("table", named), catalog.name)
        answer = self.ask(context, "iceberg_airflow.table_check", CheckRequest(catalog=catalog, table=table))
        result = from_json(answer, CheckAnswer, ANSWER)
        self.log.info("%s: %d errors, %d warnings in %s", table, len(result.errors), len(result.warnings), result.looked)
        for line in (*result.errors, *result.warnings):
            self.log.info("%s", line)
        if result.errors:
            more = f" (and {len(result.errors) - 1} more, see the log)" if len(result.errors) > 1 else ""
            raise CorruptTableError(f"{table}: {result.errors[0]}{more}")
        return table


def _check_count(tables: int, most: int) -> None:
    if tables > most:
        raise OptionError(
            f"the policy has work for {tables:,} tables, but Airflow maps a task over at most {most:,}: set [core] max_map_length "
            f"(AIRFLOW__CORE__MAX_MAP_LENGTH) of scheduler, api-server and workers to {tables:,} or more, or give groups of tables "
            "schedules of their own"
        )
