"""A report is trusted only if it belongs to the job; otherwise the job died."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from iceberg_airflow.operators import IcebergOpsOperator
from iceberg_airflow.outcome import ProcessEnd
from iceberg_airflow.retry_policy import iceberg_retry_policy
from iceberg_ops import errors
from iceberg_ops.actions.run.report_file import error_report
from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import JobDiedError
from tests.airflow.fakes import FakeLane, a_context, a_report, with_lane

pytestmark = pytest.mark.airflow


def run_with(report: Callable[[JobSpec], ActionReport | bytes | None], ended: ProcessEnd | None = None) -> None:
    operator = IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="nyc.flights")
    with_lane(operator, FakeLane(report, ended or ProcessEnd(0))).execute(a_context())


FOREIGN = {
    "table": {"table": "lake.nyc.planes"},
    "action": {"action": "expire_snapshots"},
    "run key": {"run_key": "another"},
    "job id": {"job_id": "another"},
}


@pytest.mark.parametrize(("name", "fields"), FOREIGN.items(), ids=FOREIGN)
def test_a_report_of_another_job_is_not_believed(name: str, fields: dict[str, str]) -> None:
    with pytest.raises(JobDiedError, match=f"the report belongs to another job: its {name} is "):
        run_with(lambda job: a_report(job, **fields))


def test_a_report_of_a_try_before_this_one_is_not_believed() -> None:
    with pytest.raises(JobDiedError, match="its job id is None"):
        run_with(lambda job: a_report(job, job_id=None))


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_truncated_report_means_that_the_job_died(share: float) -> None:
    def cut(job: JobSpec) -> bytes:
        whole = to_json(a_report(job))
        return whole[: int(len(whole) * share)]

    with pytest.raises(JobDiedError, match="ended with exit code 137 and its report cannot be read"):
        run_with(cut, ProcessEnd(137))


def test_a_report_with_fields_that_are_not_known_means_that_the_job_died() -> None:
    with pytest.raises(JobDiedError, match="its report cannot be read"):
        run_with(lambda _: b'{"something": "else"}')


def test_a_job_that_died_is_tried_again() -> None:
    assert iceberg_retry_policy().evaluate(JobDiedError("x"), 1, 3).action.name == "RETRY"


def test_the_last_line_of_a_killed_job_is_no_error_of_its_own() -> None:
    with pytest.raises(JobDiedError, match="exit code 137 and wrote no report: error: BAD_OPTION: x"):
        run_with(lambda _: None, ProcessEnd(137, "error: BAD_OPTION: x"))
    with pytest.raises(errors.OptionError):
        run_with(lambda _: None, ProcessEnd(1, "error: BAD_OPTION: x"))


@pytest.mark.parametrize(
    "line", ["error: INTERRUPTED: stopped by the user", "error: IO: Broken pipe", "error: INTERNAL: KeyError: 'x'"]
)
def test_an_engine_that_was_interrupted_may_have_committed(line: str) -> None:
    """It counted as a job that cannot succeed: nothing changed, never tried again."""
    with pytest.raises(JobDiedError, match=r"exit code 1 and wrote no report: error: ") as caught:
        run_with(lambda _: None, ProcessEnd(1, line))
    assert iceberg_retry_policy().evaluate(caught.value, 1, 3).action.name == "RETRY"


def test_a_report_of_an_interrupt_means_that_the_job_died() -> None:
    with pytest.raises(JobDiedError, match="was interrupted by a signal: stopped by the user") as caught:
        run_with(lambda job: a_report(job, status="failed", error=error_report(KeyboardInterrupt())), ProcessEnd(130))
    assert iceberg_retry_policy().evaluate(caught.value, 1, 3).action.name == "RETRY"


def test_a_report_with_a_damaged_byte_means_that_the_job_died() -> None:
    with pytest.raises(JobDiedError, match="its report cannot be read"):
        run_with(lambda job: to_json(a_report(job)).replace(b'"committed"', b'"committed\xff"'))


def test_a_job_that_was_killed_after_its_report_is_believed() -> None:
    """What the report says has happened, whatever became of the process afterwards."""
    run_with(a_report, ProcessEnd(137))


def test_ids_that_shared_a_folder_once_read_their_own_reports() -> None:
    for run_id in ("y:1", "y+1", "y~1", "..", "y_1"):
        operator = IcebergOpsOperator(task_id="t", job="rewrite_manifests", table=f"nyc.flights_{len(run_id)}")
        with_lane(operator, FakeLane(a_report)).execute(a_context(run_id=run_id))
    silent = with_lane(IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="nyc.flights_3"), FakeLane(lambda _: None))
    with pytest.raises(JobDiedError, match="wrote no report"):
        silent.execute(a_context(run_id="y=1"))
