"""From a policy file to DAGs: one per schedule, steps in an order every list agrees with."""

from __future__ import annotations

from pathlib import Path

import pytest

from iceberg_airflow.dag_builder import build_maintenance_dags, gathered, schedules
from iceberg_ops.config.policy import Policy
from iceberg_ops.config.policy_lint import load_policy, step_order
from iceberg_ops.errors import OptionError

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


def test_a_policy_without_schedule_runs_on_demand() -> None:
    assert schedules(policy("version: 1\ndefaults: {maintenance: [{action: rewrite_manifests}]}\ncatalogs: {lake: {type: sql}}")) == [None]


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
