"""A row operation on a table without a snapshot accepts the same conditions as on a table with rows."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.local.local_engine import LocalEvaluator
from iceberg_ops.actions.run.context import Run
from iceberg_ops.config.job_spec import JobSpec, RowChange
from iceberg_ops.errors import UnsupportedError, WhereError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.actions.rows_place import RowsPlace

IDS = pa.schema({"id": pa.int64()})
SUBQUERY = "id IN (SELECT id FROM target)"


@pytest.fixture
def place(tmp_path: Path) -> RowsPlace:
    made = RowsPlace.at(tmp_path)
    made.create(Schema.of(NestedField(1, "id", LONG)), format__version="2")
    return made


def parts(place: RowsPlace, job: str) -> dict[str, Any]:
    if job == "overwrite":
        return {"source": place.source([{"id": 1}], IDS)}
    return {"change": RowChange(set={"id": "2"})} if job == "update" else {}


class _Everything:
    """An engine that evaluates every condition, and finds no row."""

    name = "all"
    summary: ClassVar[Mapping[str, str]] = {"engine-name": "all"}

    def check(self, job: JobSpec) -> None: ...

    def opened(self, job: JobSpec) -> AbstractContextManager[LocalEvaluator]:
        return nullcontext(_EveryRow())


class _EveryRow(LocalEvaluator):
    def condition(self, run: Run, text: str, *, subqueries: bool) -> Expression:
        return ALWAYS_TRUE


@pytest.mark.parametrize("dry_run", [True, False])
@pytest.mark.parametrize("job", ["delete", "update", "overwrite"])
@pytest.mark.parametrize("where", ["target.id = 1", "TARGET.ID = 1"])
def test_columns_are_named_by_the_target(place: RowsPlace, job: str, dry_run: bool, where: str) -> None:
    report = place.run(job, where=where, dry_run=dry_run, **parts(place, job))
    done = "planned" if dry_run else "committed"
    assert report.status == (done if job == "overwrite" else "nothing-to-do")


@pytest.mark.parametrize("job", ["delete", "update"])
def test_what_an_engine_evaluates_is_left_to_it(place: RowsPlace, job: str) -> None:
    spec = JobSpec(job=job, table="test.db.t", catalog=place.config, where=SUBQUERY, **parts(place, job))
    assert run_job(spec, engine=_Everything()).status == "nothing-to-do"
    assert place.run(job, where=SUBQUERY, dry_run=True, **parts(place, job)).status == "nothing-to-do"


@pytest.mark.parametrize("has_rows", [True, False])
def test_a_subquery_is_refused_as_something_for_spark(place: RowsPlace, has_rows: bool) -> None:
    if has_rows:
        place.run("append", source=place.source([{"id": 1}], IDS))
    with pytest.raises(UnsupportedError, match=r"without Spark: delete where id IN .* --lane spark"):
        place.run("delete", where=SUBQUERY)
    with pytest.raises(WhereError, match="a filter reads one table"):
        place.run("overwrite", where=SUBQUERY, source=place.source([{"id": 1}], IDS))


@pytest.mark.parametrize("job", ["delete", "update", "overwrite"])
def test_a_column_that_is_not_there_is_told(place: RowsPlace, job: str) -> None:
    with pytest.raises(WhereError, match="no column named 'other'"):
        place.run(job, where="target.id = 1 AND other = 2", **parts(place, job))
