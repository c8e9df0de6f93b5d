"""A catalog's password is only in the connection: no error, log, report, file, process title or XCom contains it, in any form."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote, quote_plus

import psutil
import pytest
from airflow.sdk import DAG
from airflow.sdk._shared.secrets_masker import redact

from iceberg_airflow.hook import IcebergCatalogHook
from iceberg_airflow.job_folder import jobs_root
from iceberg_airflow.lanes import LocalLane
from iceberg_airflow.operators import IcebergAppendOperator, IcebergOpsOperator
from iceberg_airflow.outcome import ProcessEnd
from iceberg_airflow.policy_operators import CheckTableOperator, DiscoverTablesOperator
from iceberg_airflow.processes import Processes
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.config.report import ErrorReport
from iceberg_ops.errors import IcebergOpsError, JobDiedError, OptionError, RuntimeMissingError
from tests.airflow.fakes import FakeLane, a_context, a_report, with_lane

pytestmark = pytest.mark.airflow

PASSWORD = "gehe!m/p@ss:w%rd"
FORMS = {
    PASSWORD,
    quote(PASSWORD),
    quote(PASSWORD, safe=""),
    quote_plus(PASSWORD),
    json.dumps(PASSWORD)[1:-1],
    "gehe!m",
    "gehe%21m",
}
WRONG = {
    "bad port": ("postgresql+psycopg2://db:54x2/ice", OptionError),
    "no port but text": ("postgresql+psycopg2://db:/x:y/ice?z=[", OptionError),
    "no dialect": ("nonsense://db/ice", OptionError),
    "no driver": ("mysql+pymysql://db/ice", RuntimeMissingError),
}


def test_a_secret_in_a_rendered_field_is_masked_before_airflow_shows_the_field(monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow shows rendered fields to everyone who may see the task, before the operator runs."""
    catalog = {"name": "other", "type": "sql", "properties": {"uri": "postgresql+psycopg2://me:{{ params.pw }}@db/x"}}
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        operator = IcebergAppendOperator(
            task_id="t", table="a.b", source={"format": "table", "table": "other.x.y", "catalog": catalog}
        )
    operator.render_template_fields(a_context(params={"pw": "S3cretPw1"}))
    assert "S3cretPw1" in operator.source["catalog"]["properties"]["uri"]  # type: ignore[index]
    assert "S3cretPw1" not in str(redact(operator.source, "source"))


@pytest.mark.parametrize(
    "source",
    [
        {"format": "sql", "query": "SELECT * FROM csv.`s3a://key:{{ params.pw }}@b/x`"},
        {"format": "csv", "paths": ["https://h/my file.csv?sig={{ params.pw }}"]},
    ],
)
def test_a_secret_of_a_uri_inside_a_rendered_text_is_masked_too(source: dict[str, object]) -> None:
    with DAG("d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC)):
        operator = IcebergAppendOperator(task_id="t", table="a.b", source=source)
    operator.render_template_fields(a_context(params={"pw": "S3cretPw2"}))
    assert "S3cretPw2" in str(operator.source)
    assert "S3cretPw2" not in str(redact(operator.source, "source"))


def connect(monkeypatch: pytest.MonkeyPatch, uri: str, **fields: object) -> None:
    extra = {"name": "lake", "type": "sql", "uri": uri, "s3.secret-access-key": PASSWORD}
    document = {"conn_type": "iceberg_ops", "login": "me", "password": PASSWORD, "extra": extra, **fields}
    monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", json.dumps(document))


def assert_no_secret(text: str) -> None:
    for form in FORMS:
        assert form not in text


def everything_written() -> str:
    return "\n".join(path.read_text() for path in jobs_root().rglob("*") if path.is_file())


def operators(policy: Path) -> list[object]:
    return [
        IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="a.b", lane="local"),
        DiscoverTablesOperator(task_id="t", policy=str(policy)),
        CheckTableOperator(task_id="t", table="a.b"),
    ]


@pytest.mark.parametrize(("uri", "kind"), WRONG.values(), ids=WRONG)
def test_a_uri_that_is_wrong_shows_no_password_anywhere(
    uri: str,
    kind: type[Exception],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    connect(monkeypatch, uri)
    policy = tmp_path / "policy.yml"
    policy.write_text("version: 1\ncatalogs: {lake: {type: sql}}")
    with caplog.at_level(logging.DEBUG):
        for operator in operators(policy):
            with pytest.raises(kind) as caught:
                operator.execute(a_context())  # type: ignore[attr-defined]
            assert_no_secret("".join(traceback.format_exception(caught.value)))
            assert_no_secret(repr(caught.value))
    # What the task's log masks as Airflow does it is masked here too: nothing relies on that alone but lines of foreign programs.
    assert_no_secret(redact(caplog.text))
    assert_no_secret("".join(capfd.readouterr()))
    assert_no_secret(everything_written())
    assert list(jobs_root().rglob("private-*")) == []


@pytest.mark.parametrize("uri", [f"postgresql://me:{PASSWORD}@db:54x2/ice", f"postgresql://me:{PASSWORD}@db:5432/ice"])
def test_a_password_in_the_uri_that_was_not_encoded_is_not_shown_either(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, uri, login=None, password=None)
    with pytest.raises(IcebergOpsError) as caught:
        IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="a.b").execute(a_context())
    assert_no_secret("".join(traceback.format_exception(caught.value)))
    assert_no_secret(everything_written())


def test_every_form_of_a_secret_is_masked_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "postgresql://db/ice")
    IcebergCatalogHook().get_conn()
    for form in FORMS - {"gehe!m", "gehe%21m"}:
        assert redact(f"it is {form}.") == "it is ***."


def test_what_a_dying_job_said_last_is_shown_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "postgresql://db/ice")
    operator = IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="a.b")
    lane = FakeLane(lambda _: None, ProcessEnd(1, f"psycopg2: cannot connect postgresql://me:{quote(PASSWORD, safe='')}@db/ice"))
    with pytest.raises(JobDiedError) as caught:
        with_lane(operator, lane).execute(a_context())
    assert_no_secret(str(caught.value))


def test_no_process_title_has_a_secret(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen: list[str] = []

    class Log:
        def info(self, _form: str, line: str) -> None:
            pid = int(line)
            family = [psutil.Process(pid), psutil.Process(pid).parent()]
            seen.extend(" ".join(process.cmdline()) for process in family if process is not None)

    program = (sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(0.5)")
    document = json.dumps({"password": PASSWORD}).encode()
    LocalLane(log=Log(), processes=Processes(), program=program).run(tmp_path / "private-job.json", document)
    assert len(seen) == 2
    assert_no_secret("\n".join(seen))


def test_the_job_that_the_engine_gets_is_whole_and_the_kept_one_has_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, "postgresql://db/ice")
    lane = FakeLane(a_report)
    result = with_lane(IcebergOpsOperator(task_id="t", job="rewrite_manifests", table="a.b"), lane).execute(a_context())
    assert quote(PASSWORD, safe="") in lane.seen[0].catalog.properties["uri"]
    assert_no_secret(everything_written())
    assert_no_secret(json.dumps(result))
    assert_no_secret(repr(lane.seen[0]))


def test_an_error_of_a_driver_is_reported_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine hides what a library puts into its message; see also tests/actions/test_report_file.py."""
    connect(monkeypatch, "postgresql://db/ice")

    def failed(job: JobSpec) -> object:
        from iceberg_ops.actions.run.report_file import without_secrets

        message = f"could not reach {job.catalog.properties['uri']}"
        return without_secrets(job, a_report(job, "failed", error=ErrorReport(code="CATALOG_UNAVAILABLE", message=message)))

    with pytest.raises(IcebergOpsError) as caught:
        with_lane(IcebergOpsOperator(task_id="t", job="append", table="a.b"), FakeLane(failed)).execute(a_context())  # type: ignore[arg-type]
    assert_no_secret(str(caught.value))
