"""Verdicts: which work a policy wants on which table, or why there is none."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from iceberg_airflow import discovery
from iceberg_airflow.dag_builder import build_maintenance_dags
from iceberg_airflow.outcome import error_of_line
from iceberg_airflow.policy_operators import CheckTableOperator, DiscoverTablesOperator, PolicyStepOperator
from iceberg_airflow.retry_policy import iceberg_retry_policy
from iceberg_airflow.work import DiscoveryAnswer, Request
from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.config.document import from_json, to_json
from iceberg_ops.config.job_spec import CatalogConfig
from iceberg_ops.config.policy_lint import load_policy
from iceberg_ops.errors import CorruptTableError, JobDiedError, NoSuchTableError, OptionError, UnsupportedError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.airflow.fakes import FakeLane, a_context, a_report, with_lane
from tests.builders import data_file

pytestmark = pytest.mark.airflow

POLICY = """
version: 1
defaults:
  maintenance:
    - {action: rewrite_data_files, options: {min-input-files: 2}}
    - {action: expire_snapshots, schedule: "@daily"}
catalogs: {lake: {type: sql}}
tables:
  - {match: lake.nyc.airports, enabled: false}
  - {match: lake.nyc.planes, maintenance: []}
  - match: lake.nyc.weather
    maintenance: [{action: rewrite_manifests, enabled: false}]
"""


@pytest.fixture
def catalog(tmp_path: Path) -> CatalogConfig:
    config = CatalogConfig(
        name="lake", type="sql", properties={"uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": str(tmp_path / "warehouse")}
    )
    made = load_catalog(config)
    made.create_namespace(("nyc",))
    for name in ("flights", "airports", "planes", "weather"):
        made.create_table(("nyc", name), Schema.of(NestedField(1, "id", LONG)))
    return config


@pytest.fixture
def connected(catalog: CatalogConfig, monkeypatch: pytest.MonkeyPatch) -> CatalogConfig:
    document = {"conn_type": "iceberg_ops", "extra": {"name": catalog.name, "type": catalog.type, **catalog.properties}}
    monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", to_json(document).decode())
    return catalog


@pytest.mark.parametrize(
    ("table", "schedule", "steps", "reason"),
    [
        ("lake.nyc.flights", None, ["rewrite_data_files"], "1 steps from defaults"),
        ("lake.nyc.flights", "@daily", ["expire_snapshots"], "1 steps from defaults"),
        ("lake.nyc.flights", "@hourly", [], "its steps run @daily, on demand, not @hourly"),
        ("lake.nyc.airports", None, [], "disabled by tables[0] (lake.nyc.airports)"),
        ("lake.nyc.planes", None, [], "no layer of the policy gives this table any maintenance"),
        ("lake.nyc.weather", None, [], "every step of tables[2] (lake.nyc.weather) is disabled"),
    ],
)
def test_every_table_gets_a_verdict(table: str, schedule: str | None, steps: list[str], reason: str) -> None:
    work = discovery.verdict(load_policy(POLICY, "policy.yml"), table, schedule)
    assert [s.label for s in work.steps] == steps
    assert work.reason == reason


def test_options_travel_as_text() -> None:
    work = discovery.verdict(load_policy(POLICY, "policy.yml"), "lake.nyc.flights", None)
    assert work.steps[0].options == {"min-input-files": "2"}


def test_the_command_answers_for_every_table_of_the_catalog(catalog: CatalogConfig, tmp_path: Path) -> None:
    (tmp_path / "policy.yml").write_text(POLICY)
    request = Request(catalog=catalog, policy=str(tmp_path / "policy.yml"))
    (tmp_path / "request.json").write_bytes(to_json(request))
    assert discovery.main([str(tmp_path / "request.json"), str(tmp_path / "answer.json")]) == 0
    answer = from_json((tmp_path / "answer.json").read_bytes(), DiscoveryAnswer, "answer")
    assert [t.table for t in answer.tables] == ["lake.nyc.airports", "lake.nyc.flights", "lake.nyc.planes", "lake.nyc.weather"]


def test_a_wrong_policy_is_one_line(catalog: CatalogConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "policy.yml").write_text("version: 1\nwrong: 1")
    (tmp_path / "request.json").write_bytes(to_json(Request(catalog=catalog, policy=str(tmp_path / "policy.yml"))))
    assert discovery.main([str(tmp_path / "request.json"), str(tmp_path / "answer.json")]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("error: BAD_OPTION: policy.yml:2: ")


def test_a_policy_without_the_connections_catalog_is_not_applied_to_its_tables(
    catalog: CatalogConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its defaults may remove orphans; they are meant for the catalogs it names."""
    (tmp_path / "policy.yml").write_text(POLICY.replace("lake", "other"))
    (tmp_path / "request.json").write_bytes(to_json(Request(catalog=catalog, policy=str(tmp_path / "policy.yml"))))
    assert discovery.main([str(tmp_path / "request.json"), str(tmp_path / "answer.json")]) == 1
    said = "policy.yml: no catalog 'lake', which is the connection's: the policy's catalogs are other"
    assert capsys.readouterr().err.startswith(f"error: BAD_OPTION: {said}")
    assert not (tmp_path / "answer.json").exists()


def test_a_policy_file_that_is_gone_is_one_line(catalog: CatalogConfig, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "request.json").write_bytes(to_json(Request(catalog=catalog, policy="/nowhere/policy.yml")))
    assert discovery.main([str(tmp_path / "request.json"), str(tmp_path / "answer.json")]) == 1
    assert capsys.readouterr().err == "error: BAD_OPTION: policy /nowhere/policy.yml: No such file or directory\n"


@pytest.mark.usefixtures("connected")
def test_a_table_that_no_job_can_name_fails_alone_and_says_why(catalog: CatalogConfig, tmp_path: Path) -> None:
    load_catalog(catalog).create_table(("nyc", "ev.2024"), Schema.of(NestedField(1, "id", LONG)))
    (tmp_path / "policy.yml").write_text(POLICY)
    found = DiscoverTablesOperator(task_id="t", policy=str(tmp_path / "policy.yml")).execute(a_context())
    assert [t["table"] for t in found] == ["lake.nyc.ev.2024", "lake.nyc.flights"]
    lane = FakeLane(a_report)
    with pytest.raises(
        UnsupportedError, match=r"maintaining nyc / ev\.2024, because .* a name here has a dot: rename it, or disable"
    ):
        with_lane(PolicyStepOperator(task_id="t", table_work=found[0], step="rewrite_data_files", plan=True), lane).execute(
            a_context()
        )
    with_lane(PolicyStepOperator(task_id="t", table_work=found[1], step="rewrite_data_files", plan=True), lane).execute(a_context())
    assert [job.table for job in lane.seen] == ["lake.nyc.flights"]


@pytest.mark.usefixtures("connected")
def test_more_tables_than_airflow_maps_over_are_refused_before_they_are_pushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "policy.yml").write_text(POLICY.replace("enabled: false", "enabled: true"))
    monkeypatch.setenv("AIRFLOW__CORE__MAX_MAP_LENGTH", "1")
    with pytest.raises(
        OptionError, match=r"has work for 3 tables, but Airflow maps a task over at most 1: set \[core\] max_map_length"
    ):
        DiscoverTablesOperator(task_id="t", policy=str(tmp_path / "policy.yml")).execute(a_context())


def test_the_operator_gives_the_tables_that_have_work(connected: CatalogConfig, tmp_path: Path) -> None:
    (tmp_path / "policy.yml").write_text(POLICY)
    found = DiscoverTablesOperator(task_id="t", policy=str(tmp_path / "policy.yml")).execute(a_context())
    assert [t["table"] for t in found] == ["lake.nyc.flights"]


def test_the_operator_raises_what_the_discovery_ended_with(connected: CatalogConfig, tmp_path: Path) -> None:
    (tmp_path / "policy.yml").write_text("version: 1\nwrong: 1")
    with pytest.raises(OptionError, match=r"policy\.yml:2: wrong"):
        DiscoverTablesOperator(task_id="t", policy=str(tmp_path / "policy.yml")).execute(a_context())


def test_a_step_runs_with_the_options_of_the_tables_policy() -> None:
    work = {
        "table": "lake.nyc.flights",
        "steps": [{"action": "rewrite_data_files", "label": "hourly", "options": {"min-input-files": "2"}}],
    }
    lane = FakeLane(a_report)
    with_lane(PolicyStepOperator(task_id="t", table_work=work, step="hourly"), lane).execute(a_context())
    assert (lane.seen[0].job, lane.seen[0].table) == ("rewrite_data_files", "lake.nyc.flights")
    assert lane.seen[0].options == {"min-input-files": "2"}
    assert not lane.seen[0].dry_run


def test_a_plan_of_a_spark_step_needs_no_spark() -> None:
    work = {"table": "lake.nyc.flights", "steps": [{"action": "rewrite_data_files", "label": "x", "lane": "spark"}]}
    lane = FakeLane(a_report)
    with_lane(PolicyStepOperator(task_id="t", table_work=work, step="x", plan=True), lane).execute(a_context())
    assert (lane.seen[0].lane, lane.seen[0].dry_run) == ("local", True)


def test_a_table_without_the_step_is_skipped() -> None:
    operator = with_lane(PolicyStepOperator(task_id="t", table_work={"table": "lake.nyc.flights"}, step="x"), FakeLane(a_report))
    with pytest.raises(AirflowSkipException, match=r"the policy of lake\.nyc\.flights has no step x"):
        operator.execute(a_context())


def test_a_sound_table_passes_the_check(connected: CatalogConfig) -> None:
    assert CheckTableOperator(task_id="t", table="nyc.flights").execute(a_context()) == "lake.nyc.flights"


def test_a_damaged_table_fails_the_check_with_the_first_finding(connected: CatalogConfig, caplog: pytest.LogCaptureFixture) -> None:
    table = load_catalog(connected).load_table(("nyc", "flights"))
    table = commit(
        load_catalog(connected),
        table,
        AppendFiles(added=(data_file("/gone.parquet", partition=()), data_file("/gone2.parquet", partition=()))),
    ).table
    with pytest.raises(CorruptTableError, match=r"lake\.nyc\.flights: .*/gone.*\(and \d+ more, see the log\)"):
        CheckTableOperator(task_id="t", table="nyc.flights").execute(a_context())


@pytest.mark.usefixtures("connected")
@pytest.mark.parametrize("death", ["os.kill(os.getpid(), 9)", "sys.exit(137)", "os._exit(1)"])
def test_a_check_that_was_killed_is_no_damaged_table(death: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text(f"import os, sys\nif 'iceberg_airflow.table_check' in sys.orig_argv: {death}")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with pytest.raises(JobDiedError):
        CheckTableOperator(task_id="t", table="nyc.flights").execute(a_context())


def test_a_missing_table_is_named_by_the_check(connected: CatalogConfig) -> None:
    with pytest.raises(NoSuchTableError, match=r"nyc\.trains"):
        CheckTableOperator(task_id="t", table_work={"table": "lake.nyc.trains"}).execute(a_context())


class Dropping:
    """A catalog in which someone drops a namespace right after it was listed."""

    def __init__(self, catalog: Any, namespace: tuple[str, ...]) -> None:
        self._catalog, self._namespace = catalog, namespace

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def list_namespaces(self, parent: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        found = self._catalog.list_namespaces(parent)
        if self._namespace in found:
            self._catalog.drop_namespace(self._namespace)
        return found  # type: ignore[no-any-return]


def test_a_namespace_that_is_dropped_meanwhile_has_no_tables(catalog: CatalogConfig) -> None:
    """It failed the whole run, and no table got any maintenance."""
    opened = load_catalog(catalog)
    opened.create_namespace(("passing",))
    found = discovery.discover(Request(catalog=catalog, policy="p"), Dropping(opened, ("passing",)), load_policy(POLICY, "p"))
    assert [table.table for table in found.tables if table.steps] == ["lake.nyc.flights"]


def ended(tmp_path: Path, catalog: CatalogConfig, policy: str | None, capsys: pytest.CaptureFixture[str]) -> str:
    """The last lines of a discovery that failed."""
    if policy is not None:
        (tmp_path / "p.yml").write_text(policy)
    (tmp_path / "r.json").write_bytes(to_json(Request(catalog=catalog, policy=str(tmp_path / "p.yml"))))
    assert discovery.main([str(tmp_path / "r.json"), str(tmp_path / "answer.json")]) == 1
    return capsys.readouterr().err


def test_a_store_that_fails_while_it_is_listed_is_no_wrong_policy(
    tmp_path: Path, catalog: CatalogConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It was BAD_OPTION of the policy file, which is never tried again."""

    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error", "/wh/nyc")

    monkeypatch.setattr("iceberg_ops.catalog.sql.SqlCatalog.each_table", failing)
    said = ended(tmp_path, catalog, POLICY, capsys)
    assert said == "error: CATALOG_UNAVAILABLE: /wh/nyc: Input/output error\n"
    error = error_of_line(said)
    assert error is not None
    assert iceberg_retry_policy().evaluate(error, 1, 3).action.name == "RETRY"


def test_a_policy_that_can_not_be_read_is_named(tmp_path: Path, catalog: CatalogConfig, capsys: pytest.CaptureFixture[str]) -> None:
    assert ended(tmp_path, catalog, None, capsys) == f"error: BAD_OPTION: policy {tmp_path}/p.yml: No such file or directory\n"
    with pytest.raises(OptionError, match="No such file"):
        build_maintenance_dags(tmp_path / "p.yml")


def test_any_other_error_is_one_line_too(
    tmp_path: Path, catalog: CatalogConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def failing(*_: object) -> None:
        raise KeyError("two\nlines")

    monkeypatch.setattr("iceberg_airflow.discovery.load_catalog", failing)
    said = ended(tmp_path, catalog, POLICY, capsys)
    assert said.count("\n") == 1
    assert said.startswith("error: INTERNAL: KeyError: ")


@pytest.mark.parametrize(
    "work", [None, {}, [], {"table": 1}, {"table": "lake.a.b", "steps": [{"action": "x", "label": "s", "newer": 1}]}]
)
def test_a_missing_work_and_one_of_another_release_are_refused_with_the_task_to_clear(work: Any) -> None:
    step = with_lane(PolicyStepOperator(task_id="t", table_work=work, step="s"), FakeLane(a_report))
    with pytest.raises(OptionError, match=r"table_work is not the work of a table: .*: clear that task"):
        step.execute(a_context())


@pytest.mark.parametrize("work", [None, {}, [], {"table": 1}])
def test_a_check_without_a_table_is_refused(work: Any, connected: CatalogConfig) -> None:
    with pytest.raises(OptionError, match="table_work is not the work of a table: it names no table"):
        CheckTableOperator(task_id="t", table_work=work).execute(a_context())
