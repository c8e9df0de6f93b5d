"""From a policy file to DAGs: one per schedule, with the steps in an order that is consistent with every table's list."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pendulum
import pytest
from airflow.sdk.definitions._internal.node import validate_key
from airflow.serialization.serialized_objects import DagSerialization
from airflow.timetables.base import TimeRestriction
from hypothesis import given
from hypothesis import strategies as st

from iceberg_airflow.dag_builder import build_maintenance_dags, gathered, maintenance_dag_id, schedules
from iceberg_airflow.discovery import verdict
from iceberg_ops.config.policy import Policy
from iceberg_ops.config.policy_lint import load_policy, step_order
from iceberg_ops.config.schedules import PRESETS, schedule_problem
from iceberg_ops.errors import OptionError
from tests.config.test_schedules import RIGHT

pytestmark = pytest.mark.airflow

TWO_SCHEDULES = """
version: 1
defaults:
  schedule: "@daily"
  owner: lake-team
  maintenance:
    - {action: rewrite_data_files}
    - {action: rewrite_data_files, name: hourly_partitions, schedule: "@hourly", where: "day >= DATE '2026-01-01'"}
    - {action: expire_snapshots}
catalogs:
  lake: {type: sql}
tables:
  - {match: lake.web.*, schedule: "15 3 * * 6"}
"""


def policy(text: str) -> Policy:
    return load_policy(text, "policy.yml")


def a_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "policy.yml"
    path.write_text(text)
    return path


def test_there_is_a_dag_for_each_schedule(tmp_path: Path) -> None:
    built = build_maintenance_dags(a_file(tmp_path, TWO_SCHEDULES), dag_id="care")
    assert sorted(built) == ["care__15_3_x_x_6", "care__daily", "care__hourly"]
    assert {dag.owner for dag in built.values()} == {"lake-team"}


CRON_FIELD = st.sampled_from(["*", "5", "*/5", "0,30", "9-17", "1-5/2", "3,9-12", "0-30/10", "10"])
CRON = st.one_of(
    st.tuples(CRON_FIELD, CRON_FIELD, st.sampled_from(["*", "1", "L", "?", "*/3", "1,15"]), st.sampled_from(["*", "3", "*/3",
    "jan"]),
              st.sampled_from(["*", "1", "MON-FRI", "mon", "1#2", "sun,sat", "L5"])).map(" ".join),
    st.sampled_from([f"@{name}" for name in PRESETS]),
)  # fmt: skip


@given(st.lists(CRON, min_size=2, max_size=40, unique=True))
def test_dags_of_different_schedules_have_different_ids_that_airflow_takes(drawn: list[str]) -> None:
    right = [schedule for schedule in drawn if schedule_problem(schedule) is None]
    ids = [maintenance_dag_id("care", schedule) for schedule in [None, *right]]
    assert len(set(ids)) == len(ids)
    for dag_id in ids:
        validate_key(dag_id)


@pytest.mark.parametrize(
    ("schedule", "dag_id"),
    [
        (None, "care"),
        ("@daily", "care__daily"),
        ("*/5 * * * *", "care__x.per.5_x_x_x_x"),
        ("5 * * * *", "care__5_x_x_x_x"),
        ("0,30 9-17 * * MON-FRI", "care__0.30_9-17_x_x_MON-FRI"),
    ],
)
def test_a_dag_id_tells_its_schedule(schedule: str | None, dag_id: str) -> None:
    assert maintenance_dag_id("care", schedule) == dag_id


@pytest.mark.parametrize("schedule", RIGHT)
def test_airflow_takes_every_schedule_that_lint_passes(schedule: str, tmp_path: Path) -> None:
    steps = "maintenance: [{action: expire_snapshots}]"
    text = f"version: 1\ncatalogs: {{lake: {{type: sql}}}}\ndefaults: {{schedule: '{schedule}', {steps}}}"
    for dag in build_maintenance_dags(a_file(tmp_path, text)).values():
        timetable = DagSerialization.from_dict(DagSerialization.to_dict(dag)).timetable
        timetable.validate()
        since = TimeRestriction(pendulum.datetime(2026, 1, 1), None, True)
        assert timetable.next_dagrun_info(last_automated_data_interval=None, restriction=since)


@pytest.mark.parametrize("name", ["a", "a.b-c_D9", "x" * 200])
def test_airflow_takes_every_step_name_that_lint_passes(name: str, tmp_path: Path) -> None:
    text = f"version: 1\ncatalogs: {{lake: {{type: sql}}}}\ndefaults: {{maintenance: [{{action: expire_snapshots, name: {name}}}]}}"
    (dag,) = build_maintenance_dags(a_file(tmp_path, text)).values()
    assert dag.get_task(f"maintain.run_{name}")


def test_a_dag_has_the_steps_of_its_schedule_and_no_others(tmp_path: Path) -> None:
    """Steps of other schedules were tasks that were always skipped."""
    built = build_maintenance_dags(a_file(tmp_path, TWO_SCHEDULES), dag_id="care")
    steps = {name: [t.removeprefix("maintain.run_") for t in dag.task_ids if ".run_" in t] for name, dag in built.items()}
    assert steps == {
        "care__15_3_x_x_6": ["rewrite_data_files", "expire_snapshots"],
        "care__daily": ["rewrite_data_files", "expire_snapshots"],
        "care__hourly": ["hourly_partitions"],
    }
    assert "`hourly_partitions`" not in (built["care__daily"].doc_md or "")


def test_there_is_no_dag_on_demand_where_every_step_has_a_schedule(tmp_path: Path) -> None:
    text = "version: 1\ncatalogs: {lake: {type: sql}}\ndefaults: {maintenance: [{action: rewrite_manifests, schedule: '@daily'}]}"
    assert list(build_maintenance_dags(a_file(tmp_path, text))) == ["table_maintenance__daily"]


def test_every_step_that_a_table_has_is_in_the_dag_of_its_schedule(tmp_path: Path) -> None:
    """A layer may give a schedule to the steps of another one."""
    text = """
version: 1
catalogs: {lake: {type: sql, schedule: "@weekly"}}
defaults: {maintenance: [{action: rewrite_data_files}, {action: expire_snapshots, schedule: "@daily"}]}
tables: [{match: lake.a.b, schedule: "@hourly"}, {match: lake.a.c, maintenance: [{action: rewrite_manifests}]}]
"""
    given = policy(text)
    built = build_maintenance_dags(a_file(tmp_path, text))
    for schedule in schedules(given):
        tasks = built[name].task_ids if (name := maintenance_dag_id("table_maintenance", schedule)) in built else []
        for table in ("lake.a.a", "lake.a.b", "lake.a.c"):
            due = {step.label for step in verdict(given, table, schedule).steps}
            assert due <= {task.removeprefix("maintain.run_") for task in tasks}


def test_a_failure_of_any_task_reaches_the_last_one(tmp_path: Path) -> None:
    """Airflow takes a run's state from its last tasks; one that runs whatever happened must not be the only one."""
    dag = build_maintenance_dags(a_file(tmp_path, TWO_SCHEDULES), dag_id="care")["care__daily"]
    last = [task for task in dag.tasks if not task.downstream_task_ids]
    assert [task.task_id for task in last] == ["outcome"]
    assert last[0].trigger_rule == "none_failed"
    assert last[0].upstream_task_ids == {"discover", "maintain.verify", "report"}


def test_a_policy_without_schedule_runs_on_demand() -> None:
    assert schedules(
        policy("version: 1\ndefaults: {maintenance: [{action: rewrite_manifests}]}\ncatalogs: {lake: {type: sql}}")
    ) == [None]


def test_a_default_schedule_leaves_nothing_on_demand() -> None:
    assert schedules(policy(TWO_SCHEDULES)) == ["15 3 * * 6", "@daily", "@hourly"]


def test_steps_keep_the_order_of_their_lists() -> None:
    assert step_order(policy(TWO_SCHEDULES)) == ["rewrite_data_files", "hourly_partitions", "expire_snapshots"]


def test_steps_of_several_lists_are_merged() -> None:
    text = """
version: 1
defaults: {maintenance: [{action: rewrite_data_files}, {action: expire_snapshots}]}
catalogs: {lake: {type: sql}}
tables:
  - match: lake.a.b
    maintenance: [{action: rewrite_data_files}, {action: rewrite_manifests}, {action: expire_snapshots}]
"""
    assert step_order(policy(text)) == ["rewrite_data_files", "rewrite_manifests", "expire_snapshots"]


def test_lists_that_disagree_on_the_order_are_refused() -> None:
    text = """
version: 1
defaults: {maintenance: [{action: rewrite_data_files}, {action: expire_snapshots}]}
catalogs: {lake: {type: sql}}
tables:
  - match: lake.a.b
    maintenance: [{action: expire_snapshots}, {action: rewrite_data_files}]
"""
    with pytest.raises(OptionError, match="maintenance lists disagree on the order of"):
        step_order(policy(text))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("version: 1\ndefaults: {mantenance: []}", "mantenance"),
        ("version: 1\ndefaults: {maintenance: [{action: vacuum}]}", "unknown action 'vacuum'"),
        ("version: 1\ndefaults: {maintenance: [{action: expire_snapshots, options: {retain: 3}}]}", "unknown option retain"),
        ("version: 1\ndefaults: {maintenance: [{action: expire_snapshots, options: {retain-last: 0}}]}", "retain-last = '0'"),
    ],
)
def test_a_wrong_policy_is_one_line_that_names_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        build_maintenance_dags(a_file(tmp_path, text))
    assert "policy.yml" in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("results", "tables"),
    [
        ({}, []),
        ({"a": None, "b": []}, []),
        ({"a": {"table": "x"}}, ["x"]),
        ({"a": [{"table": "x"}, None, {"table": "y"}], "b": {"table": "x"}}, ["x", "y", "x"]),
    ],
)
def test_results_are_gathered_from_none_one_or_many_tables(results: dict[str, object], tables: list[str]) -> None:
    assert [entry["table"] for entry in gathered(results)] == tables


def test_a_policy_without_steps_still_makes_a_dag(tmp_path: Path) -> None:
    dag = build_maintenance_dags(a_file(tmp_path, "version: 1"))["table_maintenance"]
    assert {"discover", "maintain.verify", "report"} <= set(dag.task_ids)


def test_a_schedule_may_be_longer_than_a_dag_id(tmp_path: Path) -> None:
    """Airflow refused the id, and every DAG of the file was gone."""
    minutes, hours = ",".join(map(str, range(60))), ",".join(map(str, range(24)))
    crons = [f"{minutes} {hours} {day} * *" for day in ("1,2,3", "1,2,4")]
    steps = "".join(f"    - {{action: rewrite_manifests, name: s{i}, schedule: '{cron}'}}\n" for i, cron in enumerate(crons))
    (tmp_path / "p.yml").write_text(f"version: 1\ncatalogs: {{lake: {{type: sql}}}}\ndefaults:\n  maintenance:\n{steps}")
    built = build_maintenance_dags(tmp_path / "p.yml")
    assert {dag.schedule for dag in built.values()} == {*crons}
    assert max(map(len, built)) == 250


def test_a_dag_id_that_airflow_does_not_take_is_named(tmp_path: Path) -> None:
    for wrong in ("", "a b", "x" * 230):
        with pytest.raises(OptionError, match=r"dag_id '.*' must be 1 to 220 letters"):
            build_maintenance_dags(tmp_path / "p.yml", dag_id=wrong)


@pytest.mark.parametrize("number", [0, -1, "2", 1.5, True])
def test_a_step_works_on_one_table_at_least(number: Any, tmp_path: Path) -> None:
    """Airflow never started a step, and the run stayed for ever."""
    path = a_file(tmp_path, "version: 1\ncatalogs: {lake: {type: sql}}\ndefaults: {maintenance: [{action: rewrite_manifests}]}\n")
    with pytest.raises(OptionError, match=r"tables_at_once .* must be a whole number, 1 or more"):
        build_maintenance_dags(path, tables_at_once=number)
