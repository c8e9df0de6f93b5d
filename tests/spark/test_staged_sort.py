"""A large sort on Spark has two stages of tasks: the rows stay, files hold ranges, and no staged file is left."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_ops.actions.groups.group_works import make_group_works
from iceberg_ops.actions.workers.runner import GroupFailure
from iceberg_ops.config.options import rewrite_data_files_options
from iceberg_ops.data.rewriting.group_work import GroupResult, GroupWork
from iceberg_ops.planning.rewrite_data_files import plan_rewrite_data_files
from iceberg_ops.serde.json.content_file_json import data_file_from_dict
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from iceberg_ops.spec.values import from_bytes
from spark_jobs.runners import rewrite as spark_rewrite
from tests.spark.conftest import Place

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "city", STRING))
FILES, ROWS = 4, 500


@pytest.fixture
def filled(place: Place, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Every file holds ids from all over; works of any size are staged."""
    monkeypatch.setattr(spark_rewrite, "_BATCH_BYTES", 0)
    place.create("t", SCHEMA)
    for i in range(FILES):
        ids = [n * FILES + i for n in range(ROWS)]
        place.fill("t", pa.table({"id": ids, "city": [["Oslo", "Rome", None][n % 3] for n in ids]}))
    return place


def the_work(place: Place, order: str) -> GroupWork:
    table = place.table("t")
    options = rewrite_data_files_options({"sort-order": order, "rewrite-all": "true"}, {})
    plan = plan_rewrite_data_files(table, options)
    (work,) = make_group_works(plan.groups, table.metadata, table.io, order=plan.order, sizes=options.sizes, operation_id="op")
    return replace(work, ranges=3)


@pytest.mark.parametrize("order", ["id DESC", "zorder(id, city)", "hilbert(id, city)"])
def test_a_sort_in_stages_keeps_the_rows_and_stages_nothing_for_long(filled: Place, order: str) -> None:
    (result,) = spark_rewrite.SparkRewriteRunner(filled.session).run([the_work(filled, order)])
    assert isinstance(result, GroupResult), result
    assert (result.rows_in, result.rows_out, result.is_balanced) == (FILES * ROWS, FILES * ROWS, True)
    files = [data_file_from_dict(found) for found in result.added]
    assert len(files) > 1
    if order == "id DESC":
        bounds = [(from_bytes(LONG, (f.lower_bounds or {})[1]), from_bytes(LONG, (f.upper_bounds or {})[1])) for f in files]
        assert all(later[1] < earlier[0] for earlier, later in pairwise(bounds))
    assert not [path for path in Path(filled.table("t").location.removeprefix("file:")).rglob("*") if "staged" in path.name]


def test_a_file_that_is_gone_is_the_groups_typed_failure(filled: Place) -> None:
    work = the_work(filled, "id")
    table = filled.table("t")
    table.io.delete(next(info.location for info in table.io.list_prefix(table.location) if info.location.endswith(".parquet")))
    (failure,) = spark_rewrite.SparkRewriteRunner(filled.session).run([work])
    assert isinstance(failure, GroupFailure)
    assert failure.code == "CORRUPT_TABLE"
