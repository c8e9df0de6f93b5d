"""Operators: one task, one job spec, one report.

``IcebergOpsOperator`` runs any job of ``iceberg_ops.config.job_spec``; the others name what a DAG author means. Each try writes
its job spec, starts the lane's engine, reads the report, tells it in the log, pushes report URI and five numbers to XCom, and
raises the typed error the report names, so that the log ends with that one line. Exactly-once effect comes from the run key,
which stays the same for every try and, where the author gives one, for every run that means the same work.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from iceberg_airflow.hook import DEFAULT_CONNECTION, IcebergCatalogHook
from iceberg_airflow.job_folder import JobFolder, TryIdentity
from iceberg_airflow.lanes import Lane, LocalLane, SparkLane, spark_master
from iceberg_airflow.outcome import narrate, read_report, summary
from iceberg_airflow.processes import run_python
from iceberg_airflow.retry_policy import iceberg_retry_policy
from iceberg_ops.config.job_spec import TABLE_ACTIONS, JobSpec, RowChange, Source
from iceberg_ops.config.lanes import SHARED_BY_TASKS, is_this_machine
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import OptionError

SPARK_CONNECTION = "spark_default"
_FALSE_WORDS = ("", "false", "no", "0", "none")


class IcebergOpsOperator(BaseOperator):
    """Run one job on one table.

    :param job: an action or row operation, as in a job spec (templated)
    :param table: ``namespace.table`` or ``catalog.namespace.table`` (templated)
    :param options: the job's options under Iceberg's names (templated)
    :param where: Spark SQL condition (templated)
    :param source: rows to read, as the job spec's ``source`` (templated)
    :param change: write mode, SET, ON and clauses, as the job spec's ``change`` (templated)
    :param run_key: names the work; a commit with this key is made once, however often the task runs. Default: DAG, run, task and
        map index, so a retry or a cleared task of the same run repeats nothing (templated)
    :param lane: ``spark``, ``local``, or ``auto``: row operations on Spark, maintenance local, but for rewrites and statistics of
        as many bytes as the catalog's ``spark-from-bytes`` where the Spark connection's master is a cluster (templated)
    :param plan_only: a dry run: plan, write nothing (templated). BaseOperator's own ``dry_run`` is something else
    :param skip_if_nothing: mark the task skipped when there was nothing to do
    """

    template_fields: Sequence[str] = (
        *("job", "table", "options", "where", "branch", "source", "change"),
        *("run_key", "plan_id", "lane", "plan_only"),
    )
    template_fields_renderers = {"options": "json", "source": "json", "change": "json", "where": "sql"}  # noqa: RUF012
    ui_color = "#d5e8f6"

    def __init__(
        self,
        *,
        job: str,
        table: str,
        catalog_conn_id: str = DEFAULT_CONNECTION,
        spark_conn_id: str = SPARK_CONNECTION,
        lane: str = "auto",
        options: Mapping[str, Any] | None = None,
        where: str | None = None,
        branch: str = "main",
        source: Mapping[str, Any] | None = None,
        change: Mapping[str, Any] | None = None,
        run_key: str | None = None,
        plan_id: str | None = None,
        plan_only: bool | str = False,
        skip_if_nothing: bool = False,
        spark_conf: Mapping[str, str] | None = None,
        driver_memory: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("retry_policy", iceberg_retry_policy())
        super().__init__(**kwargs)
        self.job = job
        self.table = table
        self.catalog_conn_id = catalog_conn_id
        self.spark_conn_id = spark_conn_id
        self.lane = lane
        self.options = options or {}
        self.where = where
        self.branch = branch
        self.source = source
        self.change = change
        self.run_key = run_key
        self.plan_id = plan_id
        self.plan_only = plan_only
        self.skip_if_nothing = skip_if_nothing
        self.spark_conf = spark_conf or {}
        self.driver_memory = driver_memory
        self._running: Lane | None = None

    def execute(self, context: Any) -> dict[str, Any]:
        """Run the job. Raises the typed error of the report, AirflowSkipException as asked."""
        identity = identity_of(context)
        folder = JobFolder.of(identity)
        job = self._in_lane(self.job_spec(identity, folder), folder)
        path = folder.write(job)
        self.log.info("%s on %s, job spec %s", job.job, job.table, path)
        ended = self._start(job).run(path)
        report = read_report(folder.report, exit_code=ended.exit_code, last_line=ended.last_line)
        for line in narrate(report):
            self.log.info("%s", line)
        if self.skip_if_nothing and report.status == "nothing-to-do":
            raise AirflowSkipException(f"{report.action} of {report.table}: nothing to do")
        return self.result(report, folder.report.as_uri())

    def job_spec(self, identity: TryIdentity, folder: JobFolder) -> JobSpec:
        """The document for one try. Raises OptionError when a field does not fit."""
        catalog = IcebergCatalogHook(self.catalog_conn_id).get_conn()
        table = self.table if self.table.startswith(f"{catalog.name}.") else f"{catalog.name}.{self.table}"
        fields: dict[str, Any] = {
            "job": self.job,
            "table": table,
            "catalog": msgspec.to_builtins(catalog),
            "options": {str(k): _option_text(v) for k, v in self.options.items()},
            "where": self.where or None,
            "branch": self.branch,
            "dry-run": _truth(self.plan_only),
            "lane": self.chosen_lane(),
            "run-key": self.run_key or identity.task_key,
            "plan-id": self.plan_id or None,
            "source": None if self.source is None else msgspec.to_builtins(_document(self.source, Source)),
            "change": None if self.change is None else msgspec.to_builtins(_document(self.change, RowChange)),
            "report": str(folder.report),
        }
        return cast(JobSpec, _document(fields, JobSpec))

    def chosen_lane(self) -> str:
        """``local`` or ``spark``; row operations need SQL, so ``auto`` is Spark for them. Raises OptionError for another word."""
        if self.lane not in ("auto", "local", "spark"):
            raise OptionError(f"lane {self.lane!r} must be auto, local or spark")
        if self.lane != "auto":
            return self.lane
        return "local" if self.job in TABLE_ACTIONS or _truth(self.plan_only) else "spark"

    def _in_lane(self, job: JobSpec, folder: JobFolder) -> JobSpec:
        """With lane ``auto`` a large rewrite goes to Spark, if the connection's master brings other machines."""
        if self.lane != "auto" or job.lane == "spark" or job.dry_run or job.job not in SHARED_BY_TASKS:
            return job
        master = spark_master(self.spark_conn_id)
        if master is None or is_this_machine(master):
            return job
        answer = folder.folder / "lane.json"
        path = folder.write(msgspec.structs.replace(job, lane="auto"))
        run_python(["-m", "iceberg_airflow.lane_choice", str(path), master, str(answer)])
        chosen = json.loads(answer.read_bytes())
        self.log.info("lane %s: %s", chosen["lane"], chosen["reason"])
        return msgspec.structs.replace(job, lane=chosen["lane"], lane_reason=chosen["reason"])

    def result(self, report: ActionReport, uri: str) -> dict[str, Any]:
        """What goes to XCom."""
        return summary(report, uri)

    def on_kill(self) -> None:
        if self._running is not None:
            self._running.kill()

    def _start(self, job: JobSpec) -> Lane:
        if job.lane == "spark":
            self._running = SparkLane(
                log=self.log,
                name=f"{job.job} {job.table}",
                conn_id=self.spark_conn_id,
                conf=self.spark_conf,
                driver_memory=self.driver_memory,
            )
        else:
            self._running = LocalLane(log=self.log)
        return self._running


class IcebergPlanOperator(IcebergOpsOperator):
    """The same planner, on a table that can not be written: what an action would do. Skipped when that is nothing."""

    ui_color = "#eef3f7"

    def __init__(self, *, job: str, table: str, **kwargs: Any) -> None:
        kwargs.setdefault("skip_if_nothing", True)
        kwargs.setdefault("lane", "local")
        super().__init__(job=job, table=table, plan_only=True, **kwargs)


class IcebergAppendOperator(IcebergOpsOperator):
    """Append a source's rows, on Spark."""

    ui_color = "#dff0d8"

    def __init__(self, *, table: str, source: Mapping[str, Any], **kwargs: Any) -> None:
        kwargs.setdefault("job", "append")
        super().__init__(table=table, source=source, **kwargs)


class IcebergMergeOperator(IcebergOpsOperator):
    """MERGE INTO ``table`` USING ``source`` ON ``on`` with ``clauses``.

    :param mode: ``merge-on-read`` or ``copy-on-write``; default: the table's property
    """

    ui_color = "#fcf3d0"

    def __init__(
        self,
        *,
        table: str,
        source: Mapping[str, Any],
        on: str,
        clauses: Sequence[Mapping[str, Any]],
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("job", "merge")
        change = {"mode": mode, "on": on, "clauses": [dict(c) for c in clauses]}
        super().__init__(table=table, source=source, change=change, **kwargs)


class IcebergUpdateOperator(IcebergOpsOperator):
    """UPDATE ``table`` SET ``set`` WHERE ``where``; the values of ``set`` are Spark SQL expressions."""

    ui_color = "#fcf3d0"

    def __init__(self, *, table: str, set: Mapping[str, str], where: str, mode: str | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("job", "update")
        super().__init__(table=table, where=where, change={"mode": mode, "set": dict(set)}, **kwargs)


class IcebergDeleteOperator(IcebergOpsOperator):
    """DELETE FROM ``table`` WHERE ``where``."""

    ui_color = "#f6dcdc"

    def __init__(self, *, table: str, where: str, mode: str | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("job", "delete")
        super().__init__(table=table, where=where, change={"mode": mode}, **kwargs)


def identity_of(context: Any) -> TryIdentity:
    """Which try of which task this is."""
    ti = context["ti"]
    return TryIdentity(ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index, ti.try_number)


def _document(fields: Mapping[str, Any], kind: type[Any]) -> Any:
    """Fields as a document, strictly. Raises OptionError."""
    try:
        return msgspec.convert(dict(fields), type=kind)
    except msgspec.ValidationError as e:
        raise OptionError(f"{kind.__name__}: {e}") from None


def _option_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _truth(value: bool | str) -> bool:
    """A flag that a template may have made text."""
    return value if isinstance(value, bool) else str(value).strip().lower() not in _FALSE_WORDS
