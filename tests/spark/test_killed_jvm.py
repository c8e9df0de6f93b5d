"""The system kills the JVM while a job works: the job is retryable, the table is unchanged, and no file is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.document import to_json
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange, Source
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark
SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
MERGE = RowChange(mode="copy-on-write", on="target.id = source.id", clauses=[MergeClause(when="matched", action="delete")])
QUERY = Source(format="sql", query="SELECT id, uuid() AS v FROM range(5)")
JOBS: dict[str, dict[str, Any]] = {
    "append": {"source": QUERY},
    "merge": {"source": QUERY, "change": MERGE},
    "delete": {"where": "length(v) > id"},
    "rewrite_data_files": {"options": {"rewrite-all": "true"}},
    "compute_table_stats": {},
}
KILLED = [
    ("append", "spark_jobs.jobs.spark_engine", "write_source"),
    ("append", "spark_jobs.runners.changes", "without_leftovers"),
    ("merge", "spark_jobs.jobs.merge", "merged_rows"),
    ("merge", "spark_jobs.jobs.spark_engine", "rewrite_without"),
    ("delete", "spark_jobs.runners.matched_places", "without_leftovers"),
    ("rewrite_data_files", "spark_jobs.runners.rewrite", "_batches"),
    ("rewrite_data_files", "spark_jobs.runners.rewrite", "_rewriting"),
    ("compute_table_stats", "spark_jobs.runners.rewrite", "_staging"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("job", "module", "name"), KILLED)
def test_a_job_whose_jvm_is_killed_is_retryable_and_changes_nothing(place: Place, job: str, module: str, name: str) -> None:
    place.create("t", SCHEMA, write_target__file__size__bytes="65536")
    for part in range(3):
        place.fill("t", pa.table({"id": list(range(part * 5, part * 5 + 5)), "v": [str(i) for i in range(5)]}))
    files, rows = place.files_on_disk("t"), place.rows("t")
    report, spec = place.folder / "report.json", place.folder / "job.json"
    spec.write_bytes(to_json(JobSpec(job=job, table="test.db.t", catalog=place.config, report=str(report), **JOBS[job])))
    ran = subprocess.run(
        [sys.executable, "-m", "tests.spark.killed_jvm_program", str(spec), module, name],
        env={**os.environ, "ICEBERG_OPS_SPARK_LOG_LEVEL": "OFF"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    said = ran.stdout + ran.stderr
    assert ran.returncode == 1, said
    assert ran.stderr.splitlines()[-1].startswith("error: RETRYABLE: "), said
    assert "Spark ended before the job did" in ran.stderr.splitlines()[-1]
    assert json.loads(report.read_text())["error"]["code"] == "RETRYABLE"
    assert place.rows("t") == rows
    assert place.files_on_disk("t") == files
