"""A clause of a MERGE reads only the side that has a row there, and only the table's own columns, with the same messages in both
lanes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import OptionError, WhereError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.spark.conftest import Place

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]
SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
ROWS = [{"id": 1, "v": "a"}, {"id": 2, "v": "b"}, {"id": 3, "v": "c"}]


def clause(when: str, action: str, condition: str | None = None, **assignments: str) -> MergeClause:
    return MergeClause(when=when, action=action, condition=condition, assignments=assignments or None)  # type: ignore[arg-type]


def merge(place: Place, lane: str, *clauses: MergeClause) -> ActionReport:
    place.create("t", SCHEMA)
    place.fill("t", pa.Table.from_pylist(ROWS))
    parts: dict[str, Any] = {
        "source": place.parquet(pa.table({"id": [1, 9], "v": ["x", "y"]})),
        "change": RowChange(on="target.id = source.id", clauses=list(clauses)),
    }
    if lane == "spark":
        return place.run("merge", "t", **parts)
    return run_job(JobSpec(job="merge", table="test.db.t", catalog=place.config, lane="local", **parts))


@pytest.fixture(params=["spark", "local"])
def lane(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_an_update_of_rows_without_a_source_row_must_say_what_it_assigns(place: Place, lane: str) -> None:
    with pytest.raises(OptionError, match="WHEN NOT-MATCHED-BY-SOURCE THEN UPDATE needs assignments"):
        merge(place, lane, clause("not-matched-by-source", "update"))
    assert place.rows("t") == ROWS


@pytest.mark.parametrize(
    ("wrong", "side"),
    [
        (clause("not-matched-by-source", "update", v="source.v"), "source"),
        (clause("not-matched-by-source", "update", "source.v IS NULL", v="'n'"), "source"),
        (clause("not-matched-by-source", "delete", "target.id > 1 AND source.id IS NULL"), "source"),
        (clause("not-matched", "insert", id="source.id", v="target.v"), "target"),
        (clause("not-matched", "insert", "target.v IS NULL"), "target"),
    ],
)
def test_a_clause_that_names_the_side_without_a_row_is_refused(place: Place, lane: str, wrong: MergeClause, side: str) -> None:
    with pytest.raises(WhereError, match=rf"merge: WHEN clause 2 \(.*\) names a column of the {side}, which has no row there"):
        merge(place, lane, clause("matched", "update", v="source.v"), wrong)
    assert place.rows("t") == ROWS


@pytest.mark.parametrize(
    "wrong",
    [
        clause("not-matched-by-source", "update", v="concat(upper(source.v), target.v)"),
        clause("not-matched-by-source", "update", v="(SELECT max(t.v) FROM target t WHERE t.id = source.id)"),
        clause("not-matched", "insert", id="source.id", v="(SELECT max(t.v) FROM target t WHERE t.v = target.v)"),
    ],
)
def test_an_expression_or_a_subquery_does_not_name_it_either(place: Place, wrong: MergeClause) -> None:
    with pytest.raises(WhereError, match="which has no row there"):
        merge(place, "spark", wrong)
    assert place.rows("t") == ROWS


def test_clauses_may_name_the_side_that_has_a_row(place: Place, lane: str) -> None:
    merge(
        place, lane,
        clause("not-matched-by-source", "update", "target.id > 2", v="target.v"),
        clause("not-matched-by-source", "delete", "target.v = 'b'"),
        clause("not-matched", "insert", "source.v = 'y'", id="source.id", v="source.v"),
    )  # fmt: skip
    assert place.rows("t") == [{"id": 1, "v": "a"}, {"id": 3, "v": "c"}, {"id": 9, "v": "y"}]


@pytest.mark.parametrize(
    "name", ["_file", "_pos", "_iceberg_ops_file", "_iceberg_ops_pos", "_iceberg_ops_in_target", "_iceberg_ops_row_id"]
)
def test_columns_that_a_job_adds_are_not_the_tables(place: Place, name: str) -> None:
    with pytest.raises(WhereError, match=name):
        merge(place, "spark", clause("matched", "update", v=f"cast(target.{name} as string)"))
    for parts in (
        {"where": "id = 1", "change": RowChange(set={"v": f"cast({name} as string)"})},
        {"where": f"abs({name}) >= 0", "change": RowChange(set={"v": "'w'"})},
    ):
        with pytest.raises(WhereError, match=name):
            place.run("update", "t", **parts)
    with pytest.raises(WhereError, match=name):
        place.run("delete", "t", where=f"length(cast({name} as string)) > 0")
    assert place.rows("t") == ROWS
