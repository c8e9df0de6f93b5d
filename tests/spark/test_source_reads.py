"""How often Spark reads a text source: once for its names and types, if necessary, and once for its rows; CSV once more for its
quotes, which the reader of the rows does not check."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from iceberg_ops.config.job_spec import Source
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
COUNT = 50


@pytest.fixture
def read(place: Place) -> Callable[[Callable[[], object]], list[int]]:
    """Records that each Spark job of some work read from files."""
    context = place.session.sparkContext._jsc.sc()  # type: ignore[attr-defined]

    def counted(work: Callable[[], object]) -> list[int]:
        begun = context.dagScheduler().numTotalJobs()
        work()
        context.listenerBus().waitUntilEmpty()
        return [_records(context.statusStore(), n) for n in range(begun, context.dagScheduler().numTotalJobs())]

    return counted


def _records(store: Any, job: int) -> int:
    stages = store.job(job).stageIds()
    return sum(store.lastStageAttempt(stages.apply(i)).inputRecords() for i in range(stages.size()))


def source(place: Place, form: str, **options: str) -> Source:
    more = "more" in options
    options.pop("more", None)
    rows = [{"id": i, "v": f"v{i}"} | ({"x": i} if more else {}) for i in range(COUNT)]
    lines = [json.dumps(row) for row in rows] if form == "json" else [",".join(str(v) for v in row.values()) for row in rows]
    if form == "csv" and options.get("header") != "false":
        lines.insert(0, ",".join(rows[0]))
    (place.folder / "in.txt").write_text("\n".join(lines))
    return Source(format=form, paths=[str(place.folder / "in.txt")], options=options)  # type: ignore[arg-type]


CASES: dict[str, tuple[str, str, dict[str, str], list[int]]] = {
    "json is read for its columns, and for its rows": ("append", "json", {}, [COUNT, COUNT]),
    "json that replaces rows": ("overwrite", "json", {}, [COUNT, COUNT]),
    "csv with names": ("append", "csv", {}, [COUNT + 1, COUNT + 1]),
    "csv by position": ("append", "csv", {"header": "false"}, [COUNT, COUNT]),
    "csv whose columns the table types": ("append", "csv", {"header": "true", "inferSchema": "true"}, [COUNT + 1, COUNT + 1]),
    "csv by position, to be inferred": ("append", "csv", {"header": "false", "inferSchema": "true"}, [COUNT, COUNT]),
}


@pytest.mark.parametrize("name", CASES)
def test_no_source_is_read_more_often_than_it_must_be(
    place: Place, read: Callable[[Callable[[], object]], list[int]], name: str
) -> None:
    job, form, options, expected = CASES[name]
    place.create("t", SCHEMA)
    given = source(place, form, **options)
    assert read(lambda: place.run(job, "t", source=given)) == expected
    assert place.rows("t") == [{"id": i, "v": f"v{i}"} for i in range(COUNT)]


def test_columns_that_the_table_does_not_have_are_inferred(place: Place) -> None:
    place.create("t", SCHEMA)
    given = source(place, "csv", header="true", inferSchema="true", more="")
    place.run("append", "t", source=given, options={"merge-schema": "true"})
    assert [row["x"] for row in place.rows("t")] == list(range(COUNT))
