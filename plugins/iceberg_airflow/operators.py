"""Operators: one task, one job spec, one report.

``IcebergOpsOperator`` runs any job of ``iceberg_ops.config.job_spec``; the others are named after one job. Each try writes its
job spec, starts the lane's engine, reads the report, logs it, pushes report URI and five numbers to XCom, and raises
the typed error of the report, so that the log ends with that one line. Exactly-once effect comes from the run key
(``iceberg_airflow.run_keys``). A stopped task ends its engine with all processes that the engine started.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from airflow.sdk.exceptions import AirflowSkipException

from iceberg_airflow.error_line import leave_frames_out
from iceberg_airflow.hook import DEFAULT_CONNECTION, IcebergCatalogHook
from iceberg_airflow.job_folder import JobFolder, TryIdentity
from iceberg_airflow.job_sweep import sweep
from iceberg_airflow.lanes import Lane, LocalLane, SparkLane, spark_master
from iceberg_airflow.literals import LANES, check_literals
from iceberg_airflow.masking import mask
from iceberg_airflow.outcome import narrate, read_report, summary
from iceberg_airflow.processes import Processes, run_module
from iceberg_airflow.rendering import ExactRendering, check_given, flag, optional_text, text
from iceberg_airflow.retry_policy import iceberg_retry_policy
from iceberg_airflow.run_keys import default_run_key, work_digest
from iceberg_ops.config.actions import ACTIONS, TABLE_ACTIONS
from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import JobSpec, RowChange, Source
from iceberg_ops.config.lanes import is_this_machine
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import OptionError

SPARK_CONNECTION = "spark_default"
_NEEDS_WHERE = ("delete", "update")


class GuardedOperator(ExactRendering):
    """Base of operators whose work is done by other processes: the processes end with the task."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if self.retry_policy is None:  # neither the DAG author nor default_args set one
            self.retry_policy = iceberg_retry_policy()
        self._processes = Processes()

    def pre_execute(self, context: Any) -> None:
        leave_frames_out()
        super().pre_execute(context)

    def on_kill(self) -> None:
        self._processes.kill()

    def job_folder(self, identity: TryIdentity) -> JobFolder:
        """The folder of this try; folders of earlier tries are cleaned up."""
        folder = JobFolder.of(identity)
        sweep(folder, log=self.log)
        return folder


class IcebergOpsOperator(GuardedOperator):
    """Run one job on one table.

    :param job: an action or row operation, as in a job spec (templated)
    :param table: ``namespace.table``, or ``catalog.namespace.table`` with the connection's catalog (templated)
    :param options: the job's options under Iceberg's names (templated)
    :param where: Spark SQL condition (templated). ``delete`` and ``update`` need one; ``true`` means every row
    :param source: rows to read, as the job spec's ``source`` (templated). The ``catalog`` of a table may be the id of its
        connection
    :param change: write mode, SET, ON and clauses, as the job spec's ``change`` (templated)
    :param run_key: names the work; a commit with this key is made once, however often the task runs. Default: DAG, run, task and
        a digest of the work, so a retry or a cleared task of the same run repeats nothing (templated)
    :param work: names the work, if the digest of its fields depends on too much, such as a source's path that differs in each run
        (templated). A run key that was used for other work is an error
    :param lane: ``spark``, ``local``, or ``auto``: row operations on Spark, maintenance local, except rewrites and statistics of
        as many bytes as the catalog's ``spark-from-bytes`` if the Spark connection's master is a cluster (templated)
    :param plan_only: a dry run: plan, write nothing (templated). BaseOperator's own ``dry_run`` is something else
    :param skip_if_nothing: mark the task as skipped if there was nothing to do
    """

    template_fields: Sequence[str] = (
        *("job", "table", "options", "where", "branch", "source", "change"),
        *("run_key", "work", "plan_id", "lane", "plan_only"),
    )
    template_fields_renderers = {"options": "json", "source": "json", "change": "json", "where": "sql"}  # noqa: RUF012 - Airflow reads it from the class
    ui_color = "#d5e8f6"
    work_is_given = True
    """Whether the DAG file defines the work; otherwise another task does."""
    own_job: str | None = None
    """The job of an operator for one job."""

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
        work: str | None = None,
        plan_id: str | None = None,
        plan_only: bool | str = False,
        skip_if_nothing: bool = False,
        spark_conf: Mapping[str, str] | None = None,
        driver_memory: str | None = None,
        **kwargs: Any,
    ) -> None:
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
        self.work = work
        self.plan_id = plan_id
        self.plan_only = plan_only
        self.skip_if_nothing = skip_if_nothing
        self.spark_conf = spark_conf or {}
        self.driver_memory = driver_memory
        if self.work_is_given and not getattr(self, "_BaseOperator__from_mapped", False):
            check_literals(self.task_id, job=job, lane=lane, options=options)

    @classmethod
    def partial(cls, **kwargs: Any) -> Any:
        """For a mapped operator, the arguments that are the same in every task. Raises OptionError for a wrong one."""
        job = kwargs.get("job", cls.own_job)
        check_literals(kwargs.get("task_id"), job=job, lane=kwargs.get("lane"), options=kwargs.get("options"))
        return super().partial(**kwargs)

    def execute(self, context: Any) -> dict[str, Any]:
        """Run the job. Raises the typed error of the report, and AirflowSkipException if requested."""
        identity = try_identity(context)
        folder = self.job_folder(identity)
        job = self._in_lane(self.job_spec(identity, folder), folder)
        path = folder.write(job)
        self.log.info("%s on %s, job spec %s", job.job, job.table, path)
        ended = self._choose_lane(job).run(folder.private(path.name), to_json(job))
        report = read_report(folder.report, job, ended)
        for line in narrate(report):
            self.log.info("%s", line)
        if self.skip_if_nothing and report.status == "nothing-to-do":
            raise AirflowSkipException(f"{report.action} of {report.table}: nothing to do")
        return self.result(report, folder.report.as_uri())

    def job_spec(self, identity: TryIdentity, folder: JobFolder) -> JobSpec:
        """The document for one try. Raises OptionError for an invalid field."""
        hook = IcebergCatalogHook(self.catalog_conn_id)
        catalog = hook.get_conn()
        job = text("job", self.job)
        fields: dict[str, Any] = {
            "job": job,
            "table": full_name(text("table", self.table), catalog.name),
            "catalog": msgspec.to_builtins(catalog),
            "options": {str(k): _option_text(k, v) for k, v in _mapping("options", self.options).items()},
            "where": _condition(job, self.where),
            "branch": text("branch", self.branch),
            "dry-run": flag("plan_only", self.plan_only),
            "lane": self.chosen_lane(),
            "plan-id": optional_text("plan_id", self.plan_id),
            "source": _part("source", _with_catalog(self.source), Source),
            "change": _part("change", self.change, RowChange),
            "job-id": str(uuid.uuid4()),
            "report": str(folder.report),
        }
        spec = cast(JobSpec, _document(fields, JobSpec))
        mask(spec.secrets())
        work = optional_text("work", self.work) or work_digest(spec, _source_conn_id(self.source))
        key = optional_text("run_key", self.run_key) or default_run_key(identity, work, hook.deployment())
        return msgspec.structs.replace(spec, run_key=key, work=work)

    def chosen_lane(self) -> str:
        """``local`` or ``spark``; row operations need SQL, so ``auto`` is Spark for them. Raises OptionError for any other text."""
        if self.lane not in LANES:
            raise OptionError(f"lane {self.lane!r} must be auto, local or spark")
        if self.lane != "auto":
            return self.lane
        return "local" if self.job in TABLE_ACTIONS or flag("plan_only", self.plan_only) else "spark"

    def _in_lane(self, job: JobSpec, folder: JobFolder) -> JobSpec:
        """With lane ``auto`` a large rewrite runs on Spark, if the connection's master has other machines."""
        if self.lane != "auto" or job.lane == "spark" or job.dry_run or not ACTIONS[job.job].shared_by_tasks:
            return job
        master = spark_master(self.spark_conn_id)
        if master is None or is_this_machine(master):
            return job
        answer, path = folder.folder / "lane.json", folder.private("question.json")
        asked = {path: to_json(msgspec.structs.replace(job, lane="auto"))}
        run_module(self._processes, "iceberg_airflow.lane_choice", [str(path), master, str(answer)], asked)
        chosen = json.loads(answer.read_bytes())
        self.log.info("lane %s: %s", chosen["lane"], chosen["reason"])
        return msgspec.structs.replace(job, lane=chosen["lane"], lane_reason=chosen["reason"])

    def result(self, report: ActionReport, uri: str) -> dict[str, Any]:
        """The XCom value."""
        return summary(report, uri)

    def _choose_lane(self, job: JobSpec) -> Lane:
        if job.lane != "spark":
            return LocalLane(log=self.log, processes=self._processes)
        return SparkLane(
            log=self.log,
            processes=self._processes,
            name=f"{job.job} {job.table}",
            conn_id=self.spark_conn_id,
            conf=self.spark_conf,
            driver_memory=self.driver_memory,
        )


class IcebergPlanOperator(IcebergOpsOperator):
    """The same planner, on a table that cannot be written: shows the work of an action. Skipped if there is none."""

    ui_color = "#eef3f7"

    def __init__(self, *, job: str, table: str, **kwargs: Any) -> None:
        kwargs.setdefault("skip_if_nothing", True)
        kwargs.setdefault("lane", "local")
        super().__init__(job=job, table=table, plan_only=True, **kwargs)


class IcebergAppendOperator(IcebergOpsOperator):
    """Append a source's rows, on Spark."""

    own_job = "append"
    ui_color = "#dff0d8"

    def __init__(self, *, table: str, source: Mapping[str, Any], **kwargs: Any) -> None:
        kwargs.setdefault("job", self.own_job)
        super().__init__(table=table, source=source, **kwargs)


class IcebergMergeOperator(IcebergOpsOperator):
    """MERGE INTO ``table`` USING ``source`` ON ``on`` with ``clauses``.

    The arguments are not copied: Airflow uses object identity to know that a value came from XCom and is not a template.

    :param mode: ``merge-on-read`` or ``copy-on-write``; default: the table's property
    """

    own_job = "merge"
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
        kwargs.setdefault("job", self.own_job)
        change = {**_mode(mode), "on": on, "clauses": clauses}
        super().__init__(table=table, source=source, change=change, **kwargs)


class IcebergUpdateOperator(IcebergOpsOperator):
    """UPDATE ``table`` SET ``set`` WHERE ``where``; the values of ``set`` are Spark SQL expressions. ``set`` is not copied, as in
    IcebergMergeOperator."""

    own_job = "update"
    ui_color = "#fcf3d0"

    def __init__(self, *, table: str, set: Mapping[str, str], where: str, mode: str | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("job", self.own_job)
        super().__init__(table=table, where=where, change={**_mode(mode), "set": set}, **kwargs)


class IcebergDeleteOperator(IcebergOpsOperator):
    """DELETE FROM ``table`` WHERE ``where``."""

    own_job = "delete"
    ui_color = "#f6dcdc"

    def __init__(self, *, table: str, where: str, mode: str | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("job", self.own_job)
        super().__init__(table=table, where=where, change=_mode(mode), **kwargs)


def _mode(mode: str | None) -> dict[str, str]:
    """The ``change`` field for the write mode; empty if the table's property decides."""
    return {} if mode is None else {"mode": mode}


def try_identity(context: Any) -> TryIdentity:
    """The task and try of the context."""
    ti = context["ti"]
    return TryIdentity(ti.dag_id, ti.run_id, ti.task_id, -1 if ti.map_index is None else ti.map_index, ti.try_number)


def full_name(table: str, catalog: str) -> str:
    """``catalog.namespace.table`` for a name with or without the catalog. A name of two parts is always without it, so a namespace
    may have the name of its catalog; a nested namespace with such a beginning needs the full name."""
    parts = table.split(".")
    return table if len(parts) > 2 and parts[0] == catalog else f"{catalog}.{table}"


def _condition(job: str, where: Any) -> str | None:
    """Raises OptionError for a missing, empty or false condition: it must not change every row."""
    condition = None if where is None else text("where", where)
    if job in _NEEDS_WHERE and (condition is None or not condition.strip()):
        raise OptionError(f"{job} needs a where, and it is empty; where='true' is every row")
    return condition


def _part(name: str, value: Any, kind: type[Any]) -> Any:
    """A nested document, checked. Raises OptionError, also for a part of it whose template has no value."""
    if value is None:
        return None
    fields = _mapping(name, value)
    check_given(name, fields)
    return msgspec.to_builtins(_document(fields, kind))


def _with_catalog(source: Any) -> Any:
    """The source with the settings of its catalog, if it names the catalog's connection. Raises OptionError."""
    conn_id = _source_conn_id(source)
    return source if conn_id is None else {**source, "catalog": msgspec.to_builtins(IcebergCatalogHook(conn_id).get_conn())}


def _source_conn_id(source: Any) -> str | None:
    """The connection that the source names as its catalog; None for settings of a catalog, and for none."""
    conn_id = source.get("catalog") if isinstance(source, Mapping) else None
    return conn_id if isinstance(conn_id, str) and conn_id != "None" else None


def _mapping(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise OptionError(f"{name} must be a mapping; the template gave a {type(value).__name__}")
    return value


def _document(fields: Mapping[str, Any], kind: type[Any]) -> Any:
    """Fields as a document, strictly. Raises OptionError."""
    try:
        return msgspec.convert(dict(fields), type=kind)
    except msgspec.ValidationError as e:
        raise OptionError(f"{kind.__name__}: {e}") from None


def _option_text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, float) else text(f"option {name}", value)
