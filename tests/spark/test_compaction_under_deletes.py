"""The Spark lane passes on the data that carrying deletes over needs, as the local lane does."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.workers.runner import GroupFailure
from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.row_delta import RowDelta
from iceberg_ops.config.job_spec import JobSpec
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.data.writing.row_deletes import write_row_deletes
from iceberg_ops.data.writing.write_context import WriteContext
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.runners.rewrite import SparkRewriteRunner
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "city", STRING))


class Meddling:
    """Spark does the works; before they are handed back, the first row of every file is deleted."""

    name = "spark"

    def __init__(self, place: Place) -> None:
        self.place = place

    def run(self, works: Sequence[GroupWork]) -> Generator[GroupResult | GroupFailure]:
        yield from SparkRewriteRunner(self.place.session).run(works)
        table = self.place.table("t")
        tasks = plan(table, Scan()).tasks
        context = WriteContext.for_table(table.metadata)
        found = write_row_deletes(table.io, context, [(t, np.zeros(1, np.int64)) for t in tasks], operation_id="meddling")
        head = table.metadata.current_snapshot_id
        operation = RowDelta(added_deletes=found.added, removed_deletes=found.replaced, starting_snapshot_id=head)
        commit(self.place.catalog, table, operation)


@pytest.mark.parametrize("options", [{}, {"strategy": "sort", "sort-order": "city, id DESC"}], ids=["bin-pack", "sort"])
def test_deletes_that_come_while_spark_rewrites_are_carried_over(place: Place, version: str, options: dict[str, Any]) -> None:
    place.create("t", SCHEMA, **{"format__version": version})
    for i in range(3):
        ids = list(range(10 * i, 10 * i + 10))
        place.fill("t", pa.table({"id": ids, "city": [["Oslo", "Rome", None][n % 3] for n in ids]}))
    job = JobSpec(job="rewrite_data_files", table="test.db.t", catalog=place.config, options={"rewrite-all": "true", **options})
    report = run_job(job, runner=Meddling(place))
    assert [(group.status, group.carried_over_rows) for group in report.groups] == [("carried-over", 3)]
    assert sorted(row["id"] for row in place.rows("t")) == [i for i in range(30) if i % 10]
