"""Job specs: a blank or duplicate value, or one of another catalog, is an error."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, Source
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import OptionError

SOURCE = {"format": "parquet", "paths": ["/x"]}


def parsed(**fields: Any) -> JobSpec:
    document = {"job": "delete", "table": "lake.a.b", "catalog": {"name": "lake", "type": "sql"}, **fields}
    return from_json(json.dumps(document), JobSpec, "job.json")


@pytest.mark.parametrize("job", ["delete", "update", "overwrite", "rewrite_data_files"])
@pytest.mark.parametrize("where", ["", "  ", "\n"])
def test_an_empty_where_is_refused_for_every_job(job: str, where: str) -> None:
    """On Spark an empty WHERE of an update once meant every row."""
    with pytest.raises(OptionError, match="where is empty: leave it out, or write the condition true for every row"):
        parsed(job=job, where=where)


def test_an_empty_condition_of_a_clause_is_refused() -> None:
    clause = {"when": "matched", "action": "delete", "condition": " "}
    with pytest.raises(OptionError, match="condition is empty"):
        parsed(job="merge", change={"on": "true", "clauses": [clause]})


BLANKS: list[tuple[dict[str, Any], str]] = [
    ({"branch": ""}, "branch"),
    ({"run-key": " "}, "run-key"),
    ({"plan-id": ""}, "plan-id"),
    ({"work": "\t"}, "work"),
    ({"job-id": ""}, "job-id"),
    ({"report": ""}, "report"),
    ({"lane-reason": " "}, "lane-reason"),
    ({"options": {"wap-id": ""}}, "options.wap-id"),
    ({"options": {"": "x"}}, "a name in options"),
    ({"table": "lake. .b"}, "table 'lake. .b' must be catalog.namespace.name"),
    ({"catalog": {"name": "lake", "type": ""}}, "type"),
    ({"catalog": {"name": "lake", "type": "sql", "properties": {"warehouse": ""}}}, "properties.warehouse"),
    ({"source": {**SOURCE, "paths": ["/x", " "]}}, "an entry of paths"),
    ({"source": {**SOURCE, "options": {" ": "x"}}}, "a name in options"),
    ({"source": {"format": "sql", "query": ""}}, "query"),
    ({"source": {"format": "sql", "query": "SELECT 1", "views": {"v": ""}}}, "views.v"),
    ({"source": {"format": "table", "table": "lake.a.c", "ref": ""}}, "ref"),
    ({"change": {"set": {"x": " "}}}, "set.x"),
    ({"change": {"on": ""}}, "on is empty"),
    ({"change": {"clauses": [{"when": "matched", "action": "update", "assignments": {"x": ""}}]}}, "assignments.x"),
]


@pytest.mark.parametrize(("fields", "named"), BLANKS, ids=[named for _, named in BLANKS])
def test_a_field_that_is_given_and_blank_is_refused(fields: dict[str, Any], named: str) -> None:
    """A blank branch was made, and committed to, beside main; a blank run key was shared by every run that had none."""
    with pytest.raises(OptionError) as caught:
        parsed(**fields)
    assert named in str(caught.value)
    assert str(caught.value).startswith("job.json: ")


def test_a_reader_option_of_spark_may_be_blank() -> None:
    found = parsed(job="append", source={"format": "csv", "paths": ["/x"], "options": {"nullValue": ""}}).source
    assert found is not None
    assert found.options == {"nullValue": ""}


def test_text_that_is_no_unicode_is_refused_before_anything_is_tried() -> None:
    catalog = CatalogConfig(name="lake", type="sql")
    with pytest.raises(OptionError, match="run-key is not UTF-8 text"):
        JobSpec(job="append", table="lake.a.b", catalog=catalog, run_key="k\udcff")


@pytest.mark.parametrize(
    "fields",
    [
        {"report": "/a\0b"},
        {"job": "append", "source": {"format": "parquet", "paths": ["/a\0b"]}},
        {"job": "append", "source": {"format": "sql", "query": "SELECT 1", "views": {"v": "/a\0b"}}},
        {"catalog": {"name": "lake", "type": "filesystem", "properties": {"warehouse": "/a\0b"}}},
    ],
    ids=["report", "path", "view", "warehouse"],
)
def test_a_path_with_a_nul_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(OptionError, match=r"^job.json: .* has a NUL character, which no path can have$"):
        parsed(**fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"report": "~/r.json"},
        {"job": "append", "source": {"format": "parquet", "paths": ["~/landing"]}},
        {"catalog": {"name": "lake", "type": "filesystem", "properties": {"warehouse": "~"}}},
    ],
    ids=["report", "path", "warehouse"],
)
def test_a_path_that_only_a_shell_understands_is_refused(fields: dict[str, Any]) -> None:
    """It was a folder called ~ in the working folder."""
    with pytest.raises(OptionError, match=r"^job.json: .* begins with ~, which only a shell replaces: write the whole path$"):
        parsed(**fields)


def test_a_key_given_twice_is_refused() -> None:
    """The last one counted: a delete whose WHERE was said twice took other rows than the first one said."""
    text = '{"job": "delete", "table": "lake.a.b", "catalog": {"name": "lake", "type": "sql"}, "where": "id = 1", "where": "true"}'
    with pytest.raises(OptionError, match=r"job\.json: key 'where' is given twice"):
        from_json(text, JobSpec, "job.json")
    nested = '{"job": "append", "table": "lake.a.b", "catalog": {"name": "lake", "type": "sql"}, "options": {"a": "1", "a": "2"}}'
    with pytest.raises(OptionError, match="key 'a' is given twice"):
        from_json(nested, JobSpec, "job.json")


def test_a_table_of_another_catalog_than_the_configured_one_is_refused() -> None:
    """The job was done on the configured catalog's table of that name, and reported as done on the other."""
    with pytest.raises(
        OptionError, match=r"table 'staging\.a\.b' is in catalog 'staging', but the catalog configured with it is 'lake'"
    ):
        parsed(table="staging.a.b")
    with pytest.raises(
        OptionError, match=r"source table 'lake\.a\.b' is in catalog 'lake', but the catalog configured with it is 'other'"
    ):
        Source(format="table", table="lake.a.b", catalog=CatalogConfig(name="other", type="sql"))


@pytest.mark.parametrize("data", [b'{"action": "x\xff"}', b'{"x": ' + b"[" * 100_000])
def test_a_damaged_document_is_an_error_of_one_line(data: bytes) -> None:
    with pytest.raises(OptionError, match=r"^report\.json: "):
        from_json(data, ActionReport, "report.json")


def test_a_job_says_what_work_its_run_key_stands_for_and_which_attempt_it_is() -> None:
    job = parsed(**{"run-key": "k", "work": "digest", "job-id": "1", "where": "true"})
    assert (job.run_key, job.work, job.job_id) == ("k", "digest", "1")


NOTHING_NAMED: dict[str, dict[str, Any]] = {
    "no paths given": {"format": "parquet"},
    "a list without paths": {"format": "csv", "paths": []},
    "json without paths": {"format": "json", "options": {"multiLine": "true"}},
    "no query": {"format": "sql"},
    "no table": {"format": "table"},
}


@pytest.mark.parametrize("source", NOTHING_NAMED.values(), ids=NOTHING_NAMED.keys())
@pytest.mark.parametrize("job", ["append", "overwrite", "merge", "upsert"])
def test_a_source_that_names_nothing_is_not_a_source_without_rows(job: str, source: dict[str, Any]) -> None:
    spec = {"job": job, "table": "lake.ns.t", "catalog": {"name": "lake", "type": "sql"}, "source": source}
    with pytest.raises(OptionError, match=r"names no (paths|query|table)"):
        from_json(json.dumps(spec).encode(), JobSpec, "j.json")


IGNORED: dict[str, dict[str, Any]] = {
    "query": {"format": "parquet", "paths": ["/p"], "query": "SELECT 1"},
    "views": {"format": "csv", "paths": ["/p"], "views": {"v": "/v"}},
    "snapshot-id": {"format": "json", "paths": ["/p"], "snapshot-id": 0},
    "ref": {"format": "sql", "query": "SELECT 1", "ref": "main"},
    "table": {"format": "parquet", "paths": ["/p"], "table": "lake.ns.u"},
    "paths": {"format": "table", "table": "lake.ns.u", "paths": ["/p"]},
    "options": {"format": "sql", "query": "SELECT 1", "options": {"header": "true"}},
}


@pytest.mark.parametrize(("field", "source"), IGNORED.items(), ids=IGNORED.keys())
def test_a_field_that_the_format_of_a_source_does_not_read_is_refused(field: str, source: dict[str, Any]) -> None:
    spec = {"job": "append", "table": "lake.ns.t", "catalog": {"name": "lake", "type": "sql"}, "source": source}
    with pytest.raises(OptionError, match=f"reads no {field}"):
        from_json(json.dumps(spec).encode(), JobSpec, "j.json")
