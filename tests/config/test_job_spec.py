"""Job specs: what is empty does not mean everything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from iceberg_ops.config.document import from_json
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.errors import OptionError


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


def test_a_job_says_what_work_its_run_key_stands_for_and_which_attempt_it_is() -> None:
    job = parsed(**{"run-key": "k", "work": "digest", "job-id": "1", "where": "true"})
    assert (job.run_key, job.work, job.job_id) == ("k", "digest", "1")
