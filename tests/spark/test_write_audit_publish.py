"""A row operation with ``wap-id`` changes nothing for readers until its snapshot is published, and then exactly once."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.cherry_pick import CherryPick
from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.errors import OptionError, ValidationError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "city", STRING))
WAP = {"wap-id": "audit-7"}


@pytest.fixture(params=["2", "3"])
def filled(place: Place, request: pytest.FixtureRequest) -> Place:
    place.create("t", SCHEMA, format__version=request.param)
    place.fill("t", pa.table({"id": [1, 2], "city": ["Oslo", "Rome"]}))
    return place


def ids(place: Place) -> dict[int, str]:
    return {row["id"]: row["city"] for row in place.rows("t")}


def job_of(place: Place, name: str, mode: Any) -> dict[str, Any]:
    source = place.parquet(pa.table({"id": [2, 3], "city": ["Bonn", "Bonn"]}), "new.parquet")
    clauses = [MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")]
    parts: dict[str, dict[str, Any]] = {
        "append": {"source": source},
        "overwrite": {"source": source, "where": "true"},
        "upsert": {"source": source, "options": {"upsert-keys": "id"}},
        "delete": {"where": "id = 2", "change": RowChange(mode=mode)},
        "update": {"where": "id = 2", "change": RowChange(mode=mode, set={"city": "'Bonn'"})},
        "merge": {"source": source, "change": RowChange(mode=mode, on="target.id = source.id", clauses=clauses)},
    }
    found = parts[name]
    return {**found, "options": {**found.get("options", {}), **WAP}}


AFTERWARDS = {
    "overwrite": {2: "Bonn", 3: "Bonn"},
    "upsert": {1: "Oslo", 2: "Bonn", 3: "Bonn"},
    "delete": {1: "Oslo"},
    "update": {1: "Oslo", 2: "Bonn"},
    "merge": {1: "Oslo", 2: "Bonn", 3: "Bonn"},
}


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
@pytest.mark.parametrize("job", AFTERWARDS)
def test_a_staged_job_shows_only_once_it_is_published(filled: Place, job: str, mode: str) -> None:
    report = filled.run(job, "t", **job_of(filled, job, mode))
    assert (report.status, len(report.snapshot_ids)) == ("committed", 1)
    assert ids(filled) == {1: "Oslo", 2: "Rome"}
    staged = filled.table("t").metadata.snapshot(report.snapshot_ids[0])
    assert staged.summary["wap.id"] == "audit-7"
    commit(filled.catalog, filled.table("t"), CherryPick(wap_id="audit-7"))
    assert ids(filled) == AFTERWARDS[job]


def test_a_staged_append_is_published_on_what_came_meanwhile_and_only_once(filled: Place) -> None:
    source = filled.parquet(pa.table({"id": [7], "city": ["Bonn"]}), "staged.parquet")
    first = filled.run("append", "t", source=source, options=WAP, run_key="k")
    assert filled.run("append", "t", source=source, options=WAP, run_key="k").status == "already-committed"
    filled.append("t", pa.table({"id": [8], "city": ["Ulm"]}))
    commit(filled.catalog, filled.table("t"), CherryPick(wap_id="audit-7"))
    assert ids(filled) == {1: "Oslo", 2: "Rome", 7: "Bonn", 8: "Ulm"}
    with pytest.raises(ValidationError):
        commit(filled.catalog, filled.table("t"), CherryPick(snapshot_id=first.snapshot_ids[0]))
    assert ids(filled) == {1: "Oslo", 2: "Rome", 7: "Bonn", 8: "Ulm"}


def test_new_columns_are_not_staged(filled: Place) -> None:
    source: Source = filled.parquet(pa.table({"id": [7], "more": [1]}), "wider.parquet")
    with pytest.raises(OptionError, match="cannot wait for an audit"):
        filled.run("append", "t", source=source, options={**WAP, "merge-schema": "true"})
    assert len(filled.table("t").metadata.snapshots) == 1
