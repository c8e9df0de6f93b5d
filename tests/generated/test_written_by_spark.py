"""Files that Spark jobs write match their recorded metadata: above all the table's sort order, with any order and any
partitions."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.config.job_spec import Source
from iceberg_ops.errors import DataError, UnsupportedError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.metrics_config import MetricsConfig
from tests.data.files import batch_of
from tests.generated import judge, tables
from tests.generated.drawing import Draw, for_each_seed, missing
from tests.spark.conftest import Place, place  # noqa: F401 - a fixture

pytestmark = pytest.mark.spark
KIND = "written by Spark"
PARTITIONED = (*tables.TRANSFORM_NAMES[1:], tables.TRANSFORM_NAMES[0])
SORTED = (*PARTITIONED[3:], *PARTITIONED[:3])
"""The first transform of each, by the seed: eight seeds have all of them, and none of these tables is refused."""


def test_files_of_spark_jobs_are_what_is_recorded_of_them(place: Place) -> None:  # noqa: F811
    def check(draw: Draw) -> None:
        of = draw.turn(PARTITIONED), draw.turn(SORTED)
        wanted = tables.schema(draw, spark=True, of=of)
        spec, order = tables.spec(draw, wanted, of[0]), tables.sort_order(draw, wanted, of[1])
        name, mode = f"t{draw.seed}", draw.choice(["none", "hash", "range"])
        properties = {"write.metadata.metrics.default": "full", "write.distribution-mode": mode}
        table = place.catalog.create_table(("db", name), wanted, spec=spec, sort_order=order, properties=properties)
        rows = tables.rows(draw, table.schema, most=150)
        path = place.folder / f"{name}.parquet"
        pq.write_table(pa.Table.from_batches([batch_of(table.schema, rows)]), path, row_group_size=40)
        job = draw.choice(["append", "overwrite"])
        try:
            place.run(job, name, source=Source(format="parquet", paths=[str(path)]))
        except (DataError, UnsupportedError) as e:
            assert any(said in str(e) for said in ("lies outside", "a nested column in a Spark job"))  # noqa: PT017
            draw.note("refused")
            return
        draw.note(job, f"distribution {mode}", *tables.transforms_of(spec, order))
        table = place.table(name)
        metadata, metrics = table.metadata, MetricsConfig.for_table(table.metadata)
        files = [task.data_file for task in plan(table, Scan()).tasks]
        wrong = [
            f"{f.file_path}: {what}"
            for f in files
            for what in judge.contradictions(f, table.schema, metadata.spec, metadata.sort_order, metrics, table.io)
        ]
        assert wrong == []
        assert sum(f.record_count for f in files) == len(rows)
        assert {f.sort_order_id for f in files} == {None if order.is_unsorted else metadata.default_sort_order_id}

    for_each_seed(KIND, 8, check)
    assert missing(KIND, tables.EVERY_TRANSFORM | {"append", "overwrite"}) == set()
