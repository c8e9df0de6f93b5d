"""Maintenance DAGs from a policy file: one DAG per schedule the policy names, one mapped task group, one instance per table.

Parsing reads one small YAML file and builds operators; it opens no catalog, reads no table and imports no engine. The tables are
found when the DAG runs. In a group every step is a pair of tasks, ``plan_STEP`` (a dry run; skipped if nothing is
due) and ``run_STEP``. Steps follow each other within a table and do not wait for other tables; a failed step stops only its table.
``report`` runs in any case; ``outcome``, the last task, fails the run if anything in it failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TriggerRule, task, task_group

from iceberg_airflow.hook import DEFAULT_CONNECTION
from iceberg_airflow.operators import SPARK_CONNECTION
from iceberg_airflow.policy_operators import CheckTableOperator, DiscoverTablesOperator, PolicyStepOperator
from iceberg_airflow.retry_policy import task_defaults
from iceberg_airflow.work import read_policy
from iceberg_ops.config.policy import Policy, all_layers
from iceberg_ops.config.policy_lint import step_order
from iceberg_ops.errors import OptionError

_IN_DAG_ID = {" ": "_", "*": "x", ",": ".", "/": ".per.", "#": ".nth.", "?": ".any."}
"""Characters of a cron expression that are not allowed in a DAG id, and their replacements."""
_MOST_CHARACTERS = 250
_DAG_ID = re.compile(r"[\w.-]{1,220}")


@dataclass(frozen=True, slots=True)
class Connections:
    """The connections of the tasks."""

    catalog: str = DEFAULT_CONNECTION
    spark: str = SPARK_CONNECTION


def build_maintenance_dags(
    policy_file: Path,
    *,
    dag_id: str = "table_maintenance",
    connections: Connections = Connections(),
    tables_at_once: int = 2,
) -> dict[str, DAG]:
    """DAG id -> DAG, for a DAG file's globals; a step works on ``tables_at_once`` tables.

    Raises OptionError for a wrong policy or number; Airflow then shows that line as the file's import error, and starts
    no run of its DAGs until it is corrected."""
    if not _DAG_ID.fullmatch(dag_id):
        raise OptionError(
            f"dag_id {dag_id!r} must be 1 to 220 letters, digits, underscores, dots and dashes: DAGs of schedules add to it"
        )
    if not isinstance(tables_at_once, int) or isinstance(tables_at_once, bool) or tables_at_once < 1:
        raise OptionError(f"tables_at_once {tables_at_once!r} must be a whole number, 1 or more, or Airflow starts no step")
    policy = read_policy(policy_file)
    steps = {schedule: steps_on(policy, schedule) for schedule in schedules(policy)}
    built = {}
    for schedule, labels in steps.items():
        if labels or not any(steps.values()):
            name = maintenance_dag_id(dag_id, schedule)
            with _dag(name, schedule, policy, policy_file, labels) as dag:
                _fill(policy_file, schedule, labels, connections, tables_at_once)
            built[name] = dag
    return built


def maintenance_dag_id(base: str, schedule: str | None) -> str:
    """``base``, and the schedule in characters that are allowed in a DAG id: ``*/5 * * * *`` is ``x.per.5_x_x_x_x``. Different
    schedules have different ids, because no cron expression contains a word like ``per``. An id that is longer than Airflow allows
    is cut, and ends with ``--`` and a digest of the schedule."""
    if schedule is None:
        return base
    whole = f"{base}__" + "".join(_IN_DAG_ID.get(c, c) for c in schedule.removeprefix("@"))
    if len(whole) <= _MOST_CHARACTERS:
        return whole
    digest = sha256(schedule.encode()).hexdigest()[:16]
    return f"{whole[: _MOST_CHARACTERS - len(digest) - 2]}--{digest}"


def schedules(policy: Policy) -> list[str | None]:
    """Every schedule that a step may run on, None for on demand."""
    schedules_set: set[str | None] = set()
    for _, layer in all_layers(policy):
        steps = layer.maintenance or []
        schedules_set.update(step.schedule for step in steps if step.schedule)
        if layer.schedule:
            schedules_set.add(layer.schedule)
    everywhere = policy.defaults.schedule is not None
    return sorted(schedules_set | (set() if everywhere else {None}), key=lambda s: s or "")


def steps_on(policy: Policy, schedule: str | None) -> list[str]:
    """Labels of the steps that may run on a schedule, in their order: steps with that schedule, and steps without one if a layer
    sets it as its schedule (None: if the defaults set none)."""
    layers = [layer for _, layer in all_layers(policy)]
    of_layers = {layer.schedule for layer in layers} if schedule is not None else {policy.defaults.schedule}
    labels = {
        step.label
        for layer in layers
        for step in layer.maintenance or []
        if step.schedule == schedule or (step.schedule is None and schedule in of_layers)
    }
    return [label for label in step_order(policy) if label in labels]


def gathered(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Entries of all steps and tables. Airflow returns a step's single result directly, several as a sequence, none as None."""
    entries: list[dict[str, Any]] = []
    for given in results.values():
        if isinstance(given, Mapping):
            entries.append(dict(given))
        elif given is not None:
            entries.extend(dict(entry) for entry in given if entry)
    return entries


def _fill(policy_file: Path, schedule: str | None, labels: list[str], connections: Connections, tables_at_once: int) -> None:
    """The tasks of one DAG."""
    tables = DiscoverTablesOperator(
        task_id="discover", policy=str(policy_file), schedule=schedule, catalog_conn_id=connections.catalog
    )
    outputs: dict[str, Any] = {}

    @task_group(group_id="maintain")
    def maintain(table_work: Any) -> None:
        shared = {"table_work": table_work, "catalog_conn_id": connections.catalog}
        previous: Any = None
        for label in labels:
            step = {**shared, "step": label, "spark_conn_id": connections.spark}
            plan = PolicyStepOperator(task_id=f"plan_{label}", plan=True, trigger_rule=TriggerRule.NONE_FAILED, retries=1, **step)
            run = PolicyStepOperator(task_id=f"run_{label}", max_active_tis_per_dag=tables_at_once, **step)
            if previous is not None:
                previous >> plan
            plan >> run
            outputs[label] = run.output
            previous = run
        check = CheckTableOperator(
            task_id="verify",
            trigger_rule=TriggerRule.NONE_FAILED,
            map_index_template="{{ task.table_work['table'] }}",
            **shared,
        )
        if previous is not None:
            previous >> check

    @task(trigger_rule=TriggerRule.ALL_DONE)
    def report(results: dict[str, Any]) -> list[dict[str, Any]]:
        """The changes of each table, one entry for each step that ran."""
        done = gathered(results)
        for entry in done:
            size = f"{entry['data-files']} data files, {entry['records']:,} records"
            print(f"{entry['table']}: {entry['action']}: {entry['status']}, {size}")
        return done

    group = maintain.expand(table_work=tables.output)
    reported = report(outputs)
    # Airflow derives a run's state from its last tasks, and report runs in any case. A failure reaches verify, because no task
    # of a table runs after a failed one.
    outcome = EmptyOperator(task_id="outcome", trigger_rule=TriggerRule.NONE_FAILED)
    group >> reported
    [tables, group, reported] >> outcome


def _dag(name: str, schedule: str | None, policy: Policy, policy_file: Path, labels: list[str]) -> DAG:
    return DAG(
        dag_id=name,
        schedule=schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["iceberg", "maintenance"],
        default_args=task_defaults(timeout=timedelta(hours=6), owner=policy.defaults.owner or "data-platform"),
        doc_md=_documentation(schedule, policy_file, labels),
    )


def _documentation(schedule: str | None, policy_file: Path, labels: list[str]) -> str:
    steps = "\n".join(f"{i}. `{label}`: plan, then run if something is due" for i, label in enumerate(labels, start=1))
    return (
        f"### Table maintenance ({schedule or 'on demand'})\n\nBuilt from `{policy_file.name}`. For every table of the catalog "
        f"that the policy gives work, in this order:\n\n{steps}\n\nthen `verify` checks the table. A table that fails stops alone; "
        "`outcome` then fails the run. `discover` logs the verdict for every table, also why there is nothing to do."
    )
