"""The default run key identifies the work: the same work has the same key, other work another."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_airflow.job_folder import TryIdentity
from iceberg_airflow.operators import IcebergAppendOperator, IcebergDeleteOperator, IcebergOpsOperator, IcebergUpdateOperator
from iceberg_airflow.run_keys import HOW_OPTIONS, default_run_key, work_digest
from iceberg_ops.config.actions import ACTIONS, ROW_OPERATIONS
from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.errors import OptionError
from tests.airflow.fakes import a_context
from tests.airflow.test_operators import job_of

pytestmark = pytest.mark.airflow

JOB: dict[str, Any] = {
    "job": "merge",
    "table": "lake.a.b",
    "catalog": {"name": "lake", "type": "sql", "properties": {"uri": "postgresql://me:one@db/x"}},
    "options": {"wap-id": "w1", "target-file-size-bytes": "1"},
    "source": {"format": "parquet", "paths": ["/x", "/y"]},
    "change": {"mode": "merge-on-read", "on": "target.id = source.id", "clauses": [{"when": "matched", "action": "delete"}]},
}
OTHER_WORK: dict[str, dict[str, Any]] = {
    "job": {"job": "upsert", "change": None},
    "table": {"table": "lake.a.c"},
    "branch": {"branch": "audit"},
    "where": {"where": "id > 1"},
    "an option of the result": {"options": {"wap-id": "w2", "target-file-size-bytes": "1"}},
    "a path": {"source": {"format": "parquet", "paths": ["/x", "/z"]}},
    "a path less": {"source": {"format": "parquet", "paths": ["/x"]}},
    "a path twice": {"source": {"format": "parquet", "paths": ["/x", "/x", "/y"]}},
    "format": {"source": {"format": "json", "paths": ["/x", "/y"]}},
    "reader option": {"source": {"format": "parquet", "paths": ["/x", "/y"], "options": {"mergeSchema": "true"}}},
    "ON": {"change": {**JOB["change"], "on": "target.k = source.k"}},
    "clause": {"change": {**JOB["change"], "clauses": [{"when": "matched", "action": "delete", "condition": "source.x"}]}},
}
SAME_WORK: dict[str, dict[str, Any]] = {
    "password": {"catalog": {"name": "lake", "type": "sql", "properties": {"uri": "postgresql://me:two@db/x"}}},
    "write mode": {"change": {**JOB["change"], "mode": "copy-on-write"}},
    "an option of the files": {"options": {"wap-id": "w1", "target-file-size-bytes": "2"}},
    "order of paths": {"source": {"format": "parquet", "paths": ["/y", "/x"]}},
    "lane": {"lane": "local", "lane-reason": "because"},
    "try": {"job-id": "another", "report": "/elsewhere", "plan-id": "p"},
}


def digest(**changed: Any) -> str:
    fields = {k: v for k, v in {**JOB, **changed}.items() if v is not None}
    return work_digest(from_json(msgspec.json.encode(fields), JobSpec, "job"))


@pytest.mark.parametrize("changed", OTHER_WORK.values(), ids=OTHER_WORK)
def test_what_decides_about_the_rows_makes_other_work(changed: dict[str, Any]) -> None:
    assert digest(**changed) != digest()


SECRETS: dict[str, dict[str, Any]] = {
    "a path's password": {"source": {"format": "parquet", "paths": ["s3a://KEY:{}@bucket/x"]}},
    "a path's signature": {"source": {"format": "parquet", "paths": ["https://a/x.parquet?day=1&sig={}"]}},
    "a reader option": {"source": {"format": "csv", "paths": ["/x"], "options": {"fs.s3a.secret.key": "{}"}}},
    "a query": {"source": {"format": "sql", "query": "SELECT * FROM parquet.`s3a://KEY:{}@bucket/x`"}},
    "a view": {"source": {"format": "sql", "query": "SELECT * FROM v", "views": {"v": "s3a://KEY:{}@bucket/x"}}},
    "an option": {"options": {"quarantine-path": "abfss://c@a.dfs/q?sig={}"}},
}


@pytest.mark.parametrize("given", SECRETS.values(), ids=SECRETS)
def test_a_password_that_was_changed_meanwhile_makes_no_other_work(given: dict[str, Any]) -> None:
    """A task that is cleared after its credentials were rotated must not append its rows again."""
    first, second = (msgspec.json.decode(msgspec.json.encode(given).replace(b"{}", p)) for p in (b"Geheim-2025", b"other/2026"))
    assert digest(**first) == digest(**second)
    elsewhere = msgspec.json.decode(msgspec.json.encode(given).replace(b"{}", b"Geheim-2025").replace(b"x", b"y"))
    assert "options" in given or digest(**elsewhere) != digest(**first)


@pytest.mark.parametrize("name", ["pathGlobFilter", "nullValue", "sep", "modifiedAfter", "dateFormat"])
@given(
    values=st.lists(
        st.sampled_from(["pwd=1*", "pwd=2*", "a;b", "token", "x@y:z", "50", "true"]), min_size=2, max_size=2, unique=True
    )
)
def test_reader_options_that_hold_no_secret_tell_works_apart(name: str, values: list[str]) -> None:
    first, second = ({"format": "csv", "paths": ["/x"], "options": {name: value}} for value in values)
    assert digest(source=first) != digest(source=second)


@pytest.mark.parametrize("changed", SAME_WORK.values(), ids=SAME_WORK)
def test_how_rows_are_written_or_reached_does_not(changed: dict[str, Any]) -> None:
    assert digest(**changed) == digest()


def test_the_digest_stays_the_same_over_releases() -> None:
    """A task that is cleared next year must find the key of its first run: this value may never change."""
    assert digest() == "b97da5489d7c6f29"


def test_every_option_that_is_left_out_exists() -> None:
    known = {name for operation in ROW_OPERATIONS for name in ACTIONS[operation].option_names}
    assert known >= HOW_OPTIONS


def append(path: str, **fields: Any) -> IcebergOpsOperator:
    return IcebergAppendOperator(task_id="t", table="a.b", source={"format": "parquet", "paths": [path]}, **fields)


def test_a_mapped_task_that_is_cleared_after_its_list_changed_does_every_item_once() -> None:
    """The list was a, b and is c, a, b: a and b have moved to other indexes, and only c is new."""
    before = [job_of(append(path), a_context(map_index=i)).run_key for i, path in enumerate("ab")]
    after = [job_of(append(path), a_context(map_index=i)).run_key for i, path in enumerate("cab")]
    assert after[1:] == before
    assert after[0] not in before


def test_catalogs_of_one_name_behind_two_connections_are_other_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mapped tasks read lake.shop.orders of two regions: the second one found the key of the first, and appended nothing."""

    def job(conn_id: str, **fields: Any) -> JobSpec:
        source = {"format": "table", "table": "lake.shop.orders", "catalog": conn_id}
        return job_of(IcebergOpsOperator(task_id="t", job="append", table="a.b", source=source, **fields))

    for region, host in (("eu", "one"), ("us", "two"), ("eu", "moved")):
        extra = f'{{"name": "lake", "uri": "postgresql://{host}/x"}}'
        monkeypatch.setenv(f"AIRFLOW_CONN_LAKE_{region.upper()}", f'{{"conn_type": "iceberg_sql", "extra": {extra}}}')
        key = job(f"lake_{region}").run_key
        if host == "one":
            first = key
    assert job("lake_eu").run_key == first
    assert job("lake_us").run_key != first
    assert job("lake_us", run_key="day").work != job("lake_eu", run_key="day").work


def test_another_run_has_another_key() -> None:
    assert job_of(append("/x"), a_context(run_id="a")).run_key != job_of(append("/x"), a_context(run_id="b")).run_key


@given(st.lists(st.tuples(*[st.text(alphabet="a/%2F", min_size=1, max_size=6)] * 3), min_size=2, max_size=2))
def test_keys_of_different_tasks_differ(ids: list[tuple[str, str, str]]) -> None:
    keys = [default_run_key(TryIdentity(*parts, map_index=-1, try_number=1), "w", None) for parts in ids]
    assert (keys[0] == keys[1]) == (ids[0] == ids[1])


def test_two_airflows_on_one_catalog_have_keys_of_their_own_where_their_connections_name_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = []
    for name in ("staging", "production"):
        extra = f'{{"name": "lake", "type": "sql", "uri": "sqlite:////x.db", "deployment": "{name}"}}'
        monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", f'{{"conn_type": "iceberg_ops", "extra": {extra}}}')
        job = job_of(append("/x"))
        keys.append(job.run_key)
        assert "deployment" not in job.catalog.properties
    assert keys[0] == f"staging/{(keys[1] or '').removeprefix('production/')}"


def test_a_deployment_that_is_no_name_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ('"a/b"', '" "', "3"):
        extra = f'{{"name": "lake", "type": "sql", "deployment": {wrong}}}'
        monkeypatch.setenv("AIRFLOW_CONN_ICEBERG_DEFAULT", f'{{"conn_type": "iceberg_ops", "extra": {extra}}}')
        with pytest.raises(
            OptionError, match=r"connection iceberg_default: extra 'deployment' (must be a name without a slash|is blank)"
        ):
            job_of(append("/x"))


def test_a_key_of_the_author_is_sent_with_the_work_it_stands_for() -> None:
    one, other = job_of(append("/x", run_key="day")), job_of(append("/y", run_key="day"))
    assert one.run_key == other.run_key == "day"
    assert one.work is not None
    assert one.work != other.work


def test_the_author_may_say_what_the_work_is() -> None:
    """Rows of one day that each run lays at another path are the same work."""
    one, other = (job_of(append(path, run_key="day", work="orders of the day")) for path in ("/run1/x", "/run2/x"))
    assert one.work == other.work == "orders of the day"
    keys = {job_of(append(path, work="orders of the day")).run_key for path in ("/run1/x", "/run2/x")}
    assert len(keys) == 1


def test_a_delete_is_the_same_work_by_either_operator() -> None:
    one = job_of(IcebergDeleteOperator(task_id="t", table="a.b", where="x > 1", mode="copy-on-write"))
    other = job_of(IcebergOpsOperator(task_id="t", job="delete", table="lake.a.b", where="x > 1"))
    assert one.run_key == other.run_key


def test_an_update_with_another_set_is_other_work() -> None:
    def key(value: str) -> str | None:
        return job_of(IcebergUpdateOperator(task_id="t", table="a.b", set={"x": value}, where="true")).run_key

    assert key("x + 1") != key("x + 2")
    assert key("x + 1") == key("x + 1")
