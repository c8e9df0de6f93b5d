"""A statement on a table whose data file is missing: one typed line that names the file, whichever reader finds it; nothing is
committed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange, Source
from iceberg_ops.errors import CommitFailedError, CorruptTableError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.jobs import source_rows, sql_tables
from spark_jobs.jobs.table_rows import table_rows
from spark_jobs.runners import reading
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "city", STRING))
STATEMENTS: dict[str, dict[str, Any]] = {
    "update": {"where": "pmod(id, 2) = 0", "change": RowChange(mode="merge-on-read", set={"city": "'x'"})},
    "delete": {"where": "pmod(id, 2) = 0", "change": RowChange(mode="copy-on-write")},
}


@pytest.mark.parametrize("job", STATEMENTS)
@pytest.mark.parametrize("reader", ["spark", "arrow"])
def test_the_file_is_named(place: Place, monkeypatch: pytest.MonkeyPatch, reader: str, job: str) -> None:
    if reader == "arrow":
        monkeypatch.setattr(reading, "native_paths", lambda *_: {})
    place.create("t", SCHEMA, format__version="3")
    place.fill("t", pa.table({"id": [1, 2, 3], "city": ["a", "b", "c"]}))
    (task,) = plan(place.table("t"), Scan()).tasks
    file = Path(task.file_path.removeprefix("file://"))
    file.unlink()
    with pytest.raises(CorruptTableError) as raised:
        place.run(job, "t", **STATEMENTS[job])
    assert file.name in str(raised.value)
    assert "Traceback" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(place.table("t").metadata.snapshots) == 1
    assert [p for p in file.parent.rglob("*") if p.is_file()] == []


@pytest.mark.parametrize("form", ["table", "sql", "merge"])
def test_a_source_table_that_is_compacted_and_expired_while_it_is_read_is_no_damage(
    place: Place, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    for name in ("t", "other"):
        place.create(name, SCHEMA)
    for _ in range(2):
        place.fill("other", pa.table({"id": [1, 2], "city": ["a", "b"]}))
    module = sql_tables if form == "sql" else source_rows

    def late(*args: Any) -> DataFrame:
        rows = table_rows(*args)
        maintain(place, "rewrite_data_files", {"rewrite-all": "true"})
        maintain(place, "expire_snapshots", {"older-than": "2100-01-01T00:00:00Z", "retain-last": "1"})
        return rows

    monkeypatch.setattr(module, "table_rows", late)
    job = "merge" if form == "merge" else "append"
    source = Source(format="table", table="test.db.other")
    if form == "sql":
        source = Source(format="sql", query="SELECT * FROM test.db.other")
    clauses = [MergeClause(when="not-matched", action="insert")]
    change: dict[str, Any] = (
        {"change": RowChange(mode="merge-on-read", on="target.id = source.id", clauses=clauses)} if job == "merge" else {}
    )
    with pytest.raises(CommitFailedError, match=f"table test.db.other: another job expired snapshots that {job} was reading"):
        place.run(job, "t", source=source, **change)
    assert place.rows("t") == []


def maintain(place: Place, job: str, options: dict[str, str]) -> None:
    """As another process does it."""
    run_job(JobSpec(job=job, table="test.db.other", catalog=place.config, options=options))
