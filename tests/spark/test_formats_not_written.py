"""A row operation on a table whose files would have to be ORC is refused by name before Spark reads or writes a row."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.committer import commit
from iceberg_ops.commit.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.jobs import append, delete, merge, overwrite, update, upsert
from spark_jobs.jobs.job_run import JobRun
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "city", STRING))
MERGE = [MergeClause(when="not-matched", action="insert")]
COPY, ON_READ = "copy-on-write", "merge-on-read"
JOBS: dict[str, Callable[[JobRun], ActionReport]] = {
    module.__name__.rpartition(".")[2]: module.run for module in (append, overwrite, delete, update, merge, upsert)
}


def parts_of(place: Place, job: str, mode: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    if job in ("append", "overwrite", "upsert", "merge"):
        parts["source"] = place.parquet(pa.table({"id": [1, 100], "city": ["Paris", "Bonn"]}))
    if job in ("delete", "update"):
        parts["where"] = "id = 1"
    if job == "upsert":
        parts["options"] = {"upsert-keys": "id"}
    if job == "merge":
        parts["change"] = RowChange(mode=mode, on="target.id = source.id", clauses=MERGE)
    elif mode:
        parts["change"] = RowChange(mode=mode, set={"city": "'x'"} if job == "update" else {})
    return parts


@pytest.mark.parametrize(
    ("job", "mode", "key"),
    [
        ("append", None, "write.format.default"),
        ("overwrite", None, "write.format.default"),
        ("upsert", None, "write.format.default"),
        ("upsert", None, "write.delete.format.default"),
        ("delete", COPY, "write.format.default"),
        ("delete", ON_READ, "write.delete.format.default"),
        ("update", COPY, "write.format.default"),
        ("update", ON_READ, "write.delete.format.default"),
        ("merge", ON_READ, "write.format.default"),
        ("merge", ON_READ, "write.delete.format.default"),
    ],
)
def test_orc_is_refused_before_any_work(place: Place, job: str, mode: str | None, key: str) -> None:
    place.create("t", SCHEMA, format__version="2")
    place.append("t", pa.table({"id": list(range(6)), "city": ["Oslo"] * 6}))
    commit(place.catalog, place.table("t"), UpdateProperties(updates={key: "orc"}))
    before = place.files_on_disk("t")
    spec = JobSpec(job=job, table="test.db.t", catalog=place.config, **parts_of(place, job, mode))
    with place.job_run(spec) as run, pytest.raises(UnsupportedError, match=r"not supported: .*ORC"):
        JOBS[job](run)
    assert {step.name for step in run.steps} <= {"plan"}
    assert place.files_on_disk("t") == before


def test_whole_files_are_deleted_of_an_orc_table_because_nothing_is_written(place: Place) -> None:
    place.create("t", SCHEMA, format__version="2")
    place.append("t", pa.table({"id": list(range(6)), "city": ["Oslo"] * 6}))
    commit(place.catalog, place.table("t"), UpdateProperties(updates={"write.format.default": "orc"}))
    report = place.run("delete", "t", where="id < 100", change=RowChange(mode=COPY))  # type: ignore[arg-type]
    assert (report.status, place.rows("t")) == ("committed", [])
