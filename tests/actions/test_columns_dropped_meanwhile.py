"""Columns that were dropped before rows were copied. Before the commit other writers delete by them with the older schema, or make
that schema current again. No row reappears, and no value is lost."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
from iceberg_ops.config.job_spec import RowChange
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.types import LONG, STRING, NestedField
from tests.actions.lake import Lake
from tests.actions.rows_place import RowsPlace
from tests.builders import make_catalog, make_table
from tests.catalog.wrappers import Meddles
from tests.commit.scenarios import Foreign, SchemaSetBack

BY_DATA = pa.schema([pa.field("data", pa.string(), True, {"PARQUET:field_id": "2"})])
ROWS = pa.schema({"k": pa.int64(), "v": pa.string(), "c": pa.string()})


def without_data(version: int) -> Lake:
    """Two files that hold ``data``, which the table has not got any more."""
    catalog = make_catalog()
    make_table(catalog, version=version)
    lake = Lake(catalog)
    lake.append([(1, "x", "a"), (2, "y", "a")])
    lake.append([(3, "x", "a")])
    dropped = SchemaEvolution.of_table(lake.table.metadata).drop_column("data").apply()
    commit(catalog, lake.table, UpdateSchema(schema=dropped))
    return lake


def delete_by_data(lake: Lake, value: str | None) -> None:
    """What a writer commits that was opened before the column was dropped."""
    table = lake.table
    path = f"{table.location}/data/by-data.parquet"
    size = lake._write(table, path, pa.table({"data": [value]}, BY_DATA))
    file = DataFile(
        content=FileContent.EQUALITY_DELETES, file_path=path, file_format=FileFormat.PARQUET, partition=(), record_count=1,
        file_size_in_bytes=size, equality_ids=(2,), value_counts={2: 1}, null_value_counts={2: int(value is None)},
    )  # fmt: skip
    commit(lake.catalog, table, Foreign(added_deletes=(file,), isolation=None))


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "options", [{}, {"partial_progress.enabled": "true"}, {"strategy": "sort", "sort_order": "id"}], ids=["all", "batches", "sort"]
)
def test_a_compaction_brings_back_no_row_that_was_deleted_by_a_column_its_files_lack(version: int, options: dict[str, Any]) -> None:
    lake = without_data(version)
    others = Meddles(lake.catalog, lambda: delete_by_data(lake, "x"))
    report = lake.run("rewrite_data_files", catalog=others, rewrite_all="true", **options)
    assert lake.rows() == [(2, "a")]
    assert {g.status for g in report.groups} == {"re-planned", "committed"}


@pytest.mark.parametrize("version", [2, 3])
def test_a_compaction_loses_no_row_to_a_delete_of_nulls_in_a_column_its_files_lack(version: int) -> None:
    """The files that it read have values there, so that the delete does not reach them."""
    lake = without_data(version)
    lake.run("rewrite_data_files", catalog=Meddles(lake.catalog, lambda: delete_by_data(lake, None)), rewrite_all="true")
    assert lake.rows() == [(1, "a"), (2, "a"), (3, "a")]


def without_c(folder: Path) -> RowsPlace:
    """Two files that hold ``c``, which the table has not got any more."""
    place = RowsPlace.at(folder)
    place.create(Schema.of(NestedField(1, "k", LONG), NestedField(2, "v", STRING), NestedField(3, "c", STRING)))
    for i in range(2):
        place.run("append", source=place.source([{"k": 10 * i + j, "v": "o", "c": f"c{j}"} for j in range(2)], ROWS))
    dropped = SchemaEvolution.of_table(place.table().metadata).drop_column("c").apply()
    commit(place.catalog, place.table(), UpdateSchema(schema=dropped))
    return place


JOBS: dict[str, dict[str, Any]] = {
    "rewrite_data_files": {"options": {"rewrite-all": "true"}},
    "delete": {"where": "k = 1", "change": RowChange(mode="copy-on-write")},
    "update, copy-on-write": {"where": "k = 1", "change": RowChange(mode="copy-on-write", set={"v": "'n'"})},
    "update, merge-on-read": {"where": "k = 1", "change": RowChange(mode="merge-on-read", set={"v": "'n'"})},
}


@pytest.mark.parametrize("name", JOBS)
def test_the_values_of_a_column_that_comes_back_while_rows_are_copied_are_kept(tmp_path: Path, name: str) -> None:
    place = without_c(tmp_path)
    table = place.table()
    report = place.run(name.partition(",")[0], lambda: commit(place.catalog, table, SchemaSetBack()), **JOBS[name])
    assert report.status == "committed"
    kept = {0: "c0", 10: "c0", 11: "c1", **({} if name == "delete" else {1: "c1"})}
    assert {row["k"]: row["c"] for row in place.rows()} == kept


@dataclass
class _Later:
    """Adds a column, which no file holds."""

    place: RowsPlace

    def __call__(self) -> None:
        table = self.place.table()
        more = SchemaEvolution.of_table(table.metadata).add_column("new", LONG).apply()
        commit(self.place.catalog, table, UpdateSchema(schema=more))


@pytest.mark.parametrize("name", JOBS)
def test_a_new_column_is_no_conflict_for_rows_that_are_copied(tmp_path: Path, name: str) -> None:
    place = without_c(tmp_path)
    report = place.run(name.partition(",")[0], _Later(place), **JOBS[name])
    assert (report.status, report.attempts) == ("committed", 2)
    assert {row["new"] for row in place.rows()} == {None}
