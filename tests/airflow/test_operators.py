"""One task, one job spec, one report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from iceberg_airflow.operators import (
    IcebergAppendOperator,
    IcebergDeleteOperator,
    IcebergMergeOperator,
    IcebergOpsOperator,
    IcebergPlanOperator,
    IcebergUpdateOperator,
)
from iceberg_airflow.outcome import ProcessEnd
from iceberg_ops import errors
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ErrorReport, TableState
from iceberg_ops.errors import JobDiedError
from tests.airflow.fakes import FakeLane, a_context, a_report, with_lane

pytestmark = pytest.mark.airflow


def job_of(operator: IcebergOpsOperator, context: dict[str, Any] | None = None) -> JobSpec:
    lane = FakeLane(a_report)
    with_lane(operator, lane).execute(context or a_context())
    return lane.seen[0]


def test_the_job_spec_names_table_catalog_and_report() -> None:
    job = job_of(IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="nyc.flights"))
    assert job.table == "lake.nyc.flights"
    assert job.catalog.name == "lake"
    assert job.catalog.properties == {"uri": "sqlite:////data/catalog.db", "warehouse": "/data/warehouse"}
    assert job.report is not None
    assert Path(job.report).name == "report.json"


def test_a_table_named_with_its_catalog_is_left_as_it_is() -> None:
    assert job_of(IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="lake.nyc.flights")).table == "lake.nyc.flights"


def test_options_become_text() -> None:
    options = {"min-input-files": 2, "remove-dangling-deletes": True}
    job = job_of(IcebergOpsOperator(task_id="t", job="rewrite_data_files", table="nyc.flights", options=options))
    assert job.options == {"min-input-files": "2", "remove-dangling-deletes": "true"}


def test_every_try_has_a_folder_and_one_run_key() -> None:
    jobs = [
        job_of(IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="nyc.flights"), a_context(try_number=n))
        for n in (1, 2)
    ]
    assert jobs[0].run_key == jobs[1].run_key == f"a_dag/manual__2026-01-01T00:00:00+00:00/a_task/{jobs[0].work}"
    assert jobs[0].report != jobs[1].report
    assert jobs[0].job_id != jobs[1].job_id


def test_a_run_key_of_the_author_wins() -> None:
    operator = IcebergAppendOperator(
        task_id="t", table="nyc.flights", source={"format": "parquet", "paths": ["/x"]}, run_key="ingest/2013-02-06"
    )
    assert job_of(operator).run_key == "ingest/2013-02-06"


@pytest.mark.parametrize(
    ("job", "lane", "chosen"),
    [
        ("rewrite_data_files", "auto", "local"),
        ("rewrite_data_files", "spark", "spark"),
        ("append", "auto", "spark"),
        ("append", "local", "local"),
    ],
)
def test_the_lane_is_chosen_by_kind_of_job(job: str, lane: str, chosen: str) -> None:
    assert IcebergOpsOperator(task_id="t", job=job, table="nyc.flights", lane=lane).chosen_lane() == chosen


def test_an_unknown_lane_is_refused() -> None:
    with pytest.raises(errors.OptionError, match="lane 'gpu' must be auto, local or spark"):
        job_of(IcebergOpsOperator(task_id="t", job="append", table="nyc.flights", lane="gpu"))


def test_xcom_carries_the_reports_place_and_five_numbers() -> None:
    state = TableState(data_files=3, delete_files=1, bytes=100, records=42, snapshots=7)
    operator = IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="nyc.flights")
    result = with_lane(operator, FakeLane(lambda job: a_report(job, after=state))).execute(a_context())
    numbers = {k: v for k, v in result.items() if isinstance(v, int)}
    assert numbers == {"data-files": 3, "delete-files": 1, "bytes": 100, "records": 42, "snapshots": 7}
    assert result["status"] == "committed"
    assert result["report"].startswith("file:///")


@pytest.mark.parametrize(
    ("code", "kind", "said"),
    [
        ("CONFLICT", errors.ValidationError, ""),
        ("COMMIT_FAILED", errors.CommitFailedError, ""),
        ("COMMIT_STATE_UNKNOWN", errors.CommitStateUnknownError, ""),
        ("NO_SUCH_TABLE", errors.NoSuchTableError, ""),
        ("BAD_WHERE", errors.WhereError, ""),
        ("FROM_THE_FUTURE", errors.TerminalError, "FROM_THE_FUTURE: "),
    ],
)
def test_a_failed_report_raises_the_error_its_code_names(code: str, kind: type[Exception], said: str) -> None:
    operator = IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="nyc.flights")
    report = ErrorReport(code=code, message="one line", next_step="try this")
    lane = FakeLane(lambda job: a_report(job, "failed", error=report), ProcessEnd(1, "noise"))
    with pytest.raises(kind) as caught:
        with_lane(operator, lane).execute(a_context())
    assert type(caught.value) is kind
    assert str(caught.value) == f"{said}one line (next: try this)"


def test_a_job_without_a_report_has_an_unknown_outcome() -> None:
    operator = IcebergOpsOperator(task_id="t", job="append", table="nyc.flights")
    with pytest.raises(JobDiedError, match="exit code 137 and wrote no report: Killed"):
        with_lane(operator, FakeLane(lambda _: None, ProcessEnd(137, "Killed"))).execute(a_context())
    assert issubclass(JobDiedError, errors.CommitStateUnknownError)


def test_a_job_that_could_not_start_says_so_in_its_last_line() -> None:
    operator = IcebergOpsOperator(task_id="t", job="append", table="nyc.flights")
    ended = ProcessEnd(1, "error: BAD_OPTION: unknown option 'x'")
    with pytest.raises(errors.OptionError, match=r"^unknown option 'x'$"):
        with_lane(operator, FakeLane(lambda _: None, ended)).execute(a_context())


def test_a_report_of_an_earlier_run_of_the_same_try_is_not_taken_for_this_one() -> None:
    operator = IcebergOpsOperator(task_id="t", job="append", table="nyc.flights")
    with_lane(operator, FakeLane(a_report)).execute(a_context())
    with pytest.raises(JobDiedError):
        with_lane(operator, FakeLane(lambda _: None, ProcessEnd(1))).execute(a_context())


def test_a_plan_is_a_dry_run_and_skips_when_nothing_is_due() -> None:
    operator = IcebergPlanOperator(task_id="t", job="rewrite_data_files", table="nyc.flights")
    lane = FakeLane(lambda job: a_report(job, "nothing-to-do", dry_run=True))
    with pytest.raises(AirflowSkipException, match=r"rewrite_data_files of lake\.nyc\.flights: nothing to do"):
        with_lane(operator, lane).execute(a_context())
    assert lane.seen[0].dry_run
    assert lane.seen[0].lane == "local"


@pytest.mark.parametrize(("text", "meant"), [("True", True), ("False", False), ("false", False), (True, True)])
def test_a_dry_run_flag_may_come_from_a_template(text: str | bool, meant: bool) -> None:
    operator = IcebergOpsOperator(task_id="t", job="rewrite_data_files", table="nyc.flights", plan_only=text)
    assert job_of(operator).dry_run is meant


def test_a_merge_carries_its_clauses() -> None:
    operator = IcebergMergeOperator(
        task_id="t",
        table="nyc.flights",
        mode="merge-on-read",
        source={"format": "parquet", "paths": ["/x"]},
        on="target.id = source.id",
        clauses=[
            {"when": "matched", "action": "delete"},
            {"when": "not-matched", "action": "insert", "assignments": {"id": "source.id"}},
        ],
    )
    change = job_of(operator).change
    assert change is not None
    assert (change.mode, change.on) == ("merge-on-read", "target.id = source.id")
    assert [(c.when, c.action) for c in change.clauses] == [("matched", "delete"), ("not-matched", "insert")]


def test_an_update_carries_set_and_where() -> None:
    job = job_of(IcebergUpdateOperator(task_id="t", table="nyc.planes", set={"seats": "seats + 1"}, where="seats > 0"))
    assert job.change is not None
    assert (job.job, job.where, job.change.set) == ("update", "seats > 0", {"seats": "seats + 1"})


def test_a_delete_carries_where() -> None:
    job = job_of(IcebergDeleteOperator(task_id="t", table="nyc.planes", where="seats > 0", mode="copy-on-write"))
    assert job.change is not None
    assert (job.job, job.where, job.change.mode) == ("delete", "seats > 0", "copy-on-write")


def test_a_field_that_does_not_fit_is_named() -> None:
    operator = IcebergAppendOperator(task_id="t", table="nyc.flights", source={"format": "excel", "paths": []})
    with pytest.raises(errors.OptionError, match=r"Source: .*excel.*\$.format"):
        job_of(operator)
