"""A row operation on a table whose files would have to be ORC is refused by name before Spark reads or writes a row."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateProperties
from iceberg_ops.config.job_spec import MergeClause, RowChange
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "city", STRING))
MERGE = [MergeClause(when="not-matched", action="insert")]
COPY, ON_READ = "copy-on-write", "merge-on-read"


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
    place.fill("t", pa.table({"id": list(range(6)), "city": ["Oslo"] * 6}))
    commit(place.catalog, place.table("t"), UpdateProperties(updates={key: "orc"}))
    before = place.files_on_disk("t")
    path = place.folder / "report.json"
    with pytest.raises(UnsupportedError, match=r"not supported: .*ORC"):
        place.run(job, "t", report=str(path), **parts_of(place, job, mode))
    assert {step["name"] for step in json.loads(path.read_text()).get("steps", ())} <= {"plan"}
    assert place.files_on_disk("t") == before


def test_whole_files_are_deleted_of_an_orc_table_because_nothing_is_written(place: Place) -> None:
    place.create("t", SCHEMA, format__version="2")
    place.fill("t", pa.table({"id": list(range(6)), "city": ["Oslo"] * 6}))
    commit(place.catalog, place.table("t"), UpdateProperties(updates={"write.format.default": "orc"}))
    report = place.run("delete", "t", where="id < 100", change=RowChange(mode=COPY))  # type: ignore[arg-type]
    assert (report.status, place.rows("t")) == ("committed", [])
