"""Source paths that contain characters of a pattern and exist with exactly these names."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.config.job_spec import Source
from iceberg_ops.errors import DataError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark
SCHEMA = Schema.of(NestedField(1, "id", LONG))


def laid(path: Path, number: int) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array([number], pa.int64())}), path)
    return str(path)


@pytest.mark.parametrize("beside", [True, False])
@pytest.mark.parametrize("name", ["a[1].parquet", "[1]/a.parquet"])
def test_another_file_that_the_pattern_finds_is_not_read_instead(place: Place, name: str, beside: bool) -> None:
    place.create("t", SCHEMA)
    path = laid(place.folder / "in" / name, 1)
    if beside:
        laid(place.folder / "in" / name.replace("[", "").replace("]", ""), 2)
    with pytest.raises(DataError, match="exists, and Spark takes it for a pattern"):
        place.run("append", "t", source=Source(format="parquet", paths=[path]))
    place.run("append", "t", source=Source(format="parquet", paths=[path.replace("[", "\\[").replace("]", "\\]")]))
    assert [row["id"] for row in place.rows("t")] == [1]


def test_a_pattern_that_finds_the_file_of_its_name_is_one(place: Place) -> None:
    place.create("t", SCHEMA)
    laid(place.folder / "in" / "a.parquet", 1)
    path = laid(place.folder / "in" / "*.parquet", 2)
    place.run("append", "t", source=Source(format="parquet", paths=[path]))
    assert sorted(row["id"] for row in place.rows("t")) == [1, 2]
