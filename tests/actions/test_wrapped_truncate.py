"""The smallest whole numbers under truncate: the partition value of their block wraps around, and depends on the width of the
type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import CommitFailedError, SchemaError, UnsupportedError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.transforms import IDENTITY, VOID, Transform, bucket, truncate
from iceberg_ops.spec.types import INT, LONG, STRING, NestedField
from tests.actions.rows_place import RowsPlace

LEAST = -(2**31)


def place_by(tmp_path: Path, transform: Transform) -> RowsPlace:
    place = RowsPlace.at(tmp_path)
    spec = PartitionSpec(0, (PartitionField((1,), 1000, transform, "p"),))
    schema = Schema.of(NestedField(1, "k", INT), NestedField(2, "v", STRING))
    place.create(schema, spec, write_metadata_metrics_default="none")
    rows = [{"k": LEAST, "v": "least"}, {"k": 5, "v": "five"}]
    place.run("append", source=place.source(rows, pa.schema({"k": pa.int32(), "v": pa.string()})))
    return place


@pytest.mark.parametrize("transform", [truncate(10), truncate(8), bucket(4), IDENTITY], ids=str)
def test_an_int_is_promoted_unless_a_partition_value_would_change(tmp_path: Path, transform: Transform) -> None:
    place = place_by(tmp_path, transform)
    table = place.table()
    evolution = SchemaEvolution.of_table(table.metadata)
    if transform == truncate(10):
        with pytest.raises(SchemaError, match=r"int to long: the values of partition field 'p' \(truncate\[10\]\) would change"):
            evolution.update_type("k", LONG)
        return
    commit(place.catalog, table, UpdateSchema(schema=evolution.update_type("k", LONG).apply()))
    assert [r["v"] for r in scan_table(place.table(), Scan(where=parse_where(f"k = {LEAST}"))).to_pylist()] == ["least"]


def test_a_column_that_another_writer_promoted_loses_no_row(tmp_path: Path) -> None:
    place = place_by(tmp_path, truncate(10))
    table = place.table()
    regardless = SchemaEvolution(table.metadata.schema, table.metadata.last_column_id)
    place.set_schema(regardless.update_type("k", LONG).apply())
    for where in (f"k = {LEAST}", "k < 0", f"k IN ({LEAST}, 7)", f"k <= {LEAST}", "k <> 5", "k BETWEEN -3000000000 AND -1"):
        found = scan_table(place.table(), Scan(where=parse_where(where))).to_pylist()
        assert [r["v"] for r in found] == ["least"], where
    place.run("delete", where="k > 1000")
    assert [r["v"] for r in place.rows()] == ["least", "five"]


KEYED = pa.schema({"k": pa.int32(), "v": pa.string()})
OF_K = {"upsert-keys": "k"}


def promote(place: RowsPlace) -> None:
    """As another writer does it, regardless of partition values."""
    table = place.table()
    regardless = SchemaEvolution(table.metadata.schema, table.metadata.last_column_id)
    place.set_schema(regardless.update_type("k", LONG).apply())


@pytest.mark.parametrize("dry_run", [False, True])
def test_an_upsert_is_refused_where_its_deletes_miss_rows_of_before_the_promotion(tmp_path: Path, dry_run: bool) -> None:
    place = place_by(tmp_path, truncate(10))
    promote(place)
    rows = [{"k": LEAST, "v": "new"}]
    with pytest.raises(UnsupportedError, match=r"promoted column 'k' from int.*'p' \(truncate\[10\]\)"):
        place.run("upsert", source=place.source(rows, KEYED), options=OF_K, dry_run=dry_run)
    assert [r["v"] for r in place.rows()] == ["least", "five"]


@pytest.mark.parametrize("transform", [truncate(8), bucket(4), IDENTITY, VOID], ids=str)
def test_an_upsert_finds_older_rows_where_the_promotion_moved_none(tmp_path: Path, transform: Transform) -> None:
    place = place_by(tmp_path, transform)
    promote(place)
    place.run("upsert", source=place.source([{"k": LEAST, "v": "new"}], KEYED), options=OF_K)
    assert sorted(r["v"] for r in place.rows()) == ["five", "new"]


def test_an_upsert_that_meets_the_promotion_is_refused(tmp_path: Path) -> None:
    """The rows that the other writer adds with it lie in a partition that the upsert's deletes do not reach."""
    place = place_by(tmp_path, truncate(10))
    real, promoted = place.catalog.commit_table, list[int]()

    def late(*args: Any) -> Any:
        if not promoted:
            promoted.append(1)
            promote(place)
            place.run("append", source=place.source([{"k": LEAST, "v": "other"}], pa.schema({"k": pa.int64(), "v": pa.string()})))
            raise CommitFailedError("another commit came first")
        return real(*args)

    place.catalog.commit_table = late  # type: ignore[method-assign]
    with pytest.raises(UnsupportedError, match="promoted column 'k' from int"):
        place.run("upsert", source=place.source([{"k": LEAST, "v": "new"}], KEYED), options=OF_K)
    assert sorted(r["v"] for r in place.rows()) == ["five", "least", "other"]
