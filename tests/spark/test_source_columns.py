"""Columns in a folder of Parquet files that Spark would skip or misinterpret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.errors import DataError, OptionError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField, StructType
from tests.spark.conftest import Place

INNER = StructType((NestedField(5, "x", LONG), NestedField(6, "y", LONG)))
SCHEMA = Schema.of(
    NestedField(1, "id", LONG), NestedField(2, "b", STRING), NestedField(3, "code", STRING), NestedField(4, "s", INNER)
)
INSERT = [MergeClause(when="not-matched", action="insert", assignments={"id": "source.id"})]
JOBS: dict[str, dict[str, Any]] = {
    "append": {"options": {"write-tasks": "1"}},
    "overwrite": {},
    "upsert": {"options": {"upsert-keys": "id"}},
    "merge": {"change": RowChange(mode="merge-on-read", on="target.id = source.id", clauses=INSERT)},
}


def _source(folder: Path, *tables: pa.Table, **options: str) -> Source:
    folder.mkdir(parents=True)
    for i, table in enumerate(tables):
        pq.write_table(table, folder / f"{i}.parquet")
    return Source(format="parquet", paths=[str(folder)], options=options)


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    ("more", "lost"),
    [({"b": ["only here"]}, "b"), ({"s": [{"x": 1, "y": 2}]}, "s.y")],
    ids=["a column", "a field of a struct"],
)
def test_a_column_that_only_some_files_have_is_never_left_out(place: Place, job: str, more: dict[str, Any], lost: str) -> None:
    place.create("some", SCHEMA)
    few = {"id": [1]} if "b" in more else {"id": [1], "s": [{"x": 1}]}
    source = _source(place.folder / "odd name+", pa.table(few), pa.table({"id": [2], **more}))
    with pytest.raises(DataError, match=rf"1\.parquet has column '{lost}', which not every file .* mergeSchema"):
        place.run(job, "some", source=source, **JOBS[job])
    assert place.rows("some") == []


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize(
    ("columns", "said"),
    [("id, b, b", "'b' twice"), ("id, b, code AS B", "'b' and 'B', which are one name"), ("*, id", "'id' twice")],
)
def test_a_query_with_a_column_twice_is_refused_before_anything_is_written(place: Place, job: str, columns: str, said: str) -> None:
    place.create("twice", SCHEMA)
    before = place.files_on_disk("twice")
    query = f"SELECT {columns} FROM VALUES (1, 'x', 'y') s(id, b, code)"
    with pytest.raises(OptionError, match=f"source query gives column {said}"):
        place.run(job, "twice", source=Source(format="sql", query=query), **JOBS[job])
    assert place.files_on_disk("twice") == before


@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("names", [["id", "b", "b"], ["id", "b", "B"]])
def test_a_file_with_a_column_twice_is_refused_before_anything_is_written(place: Place, job: str, names: list[str]) -> None:
    place.create("twice", SCHEMA)
    before = place.files_on_disk("twice")
    rows = pa.Table.from_arrays([pa.array([1]), pa.array(["x"]), pa.array(["y"])], names=names)
    with pytest.raises(DataError, match="COLUMN_ALREADY_EXISTS"):
        place.run(job, "twice", source=_source(place.folder / "twice", rows), **JOBS[job])
    assert place.files_on_disk("twice") == before


def test_merge_schema_of_the_reader_reads_the_columns_of_all_files(place: Place) -> None:
    place.create("all", SCHEMA)
    source = _source(place.folder / "all", pa.table({"id": [1]}), pa.table({"id": [2], "b": ["two"]}), mergeSchema="true")
    place.run("append", "all", source=source)
    assert [(r["id"], r["b"]) for r in place.rows("all")] == [(1, None), (2, "two")]


def test_files_whose_types_can_not_be_merged_are_bad_data(place: Place) -> None:
    place.create("types", SCHEMA)
    source = _source(place.folder / "types", pa.table({"id": [1]}), pa.table({"id": ["one"]}), mergeSchema="true")
    with pytest.raises(DataError, match="CANNOT_MERGE_SCHEMAS"):
        place.run("append", "types", source=source)


@pytest.mark.parametrize("job", ["append", "merge"])
def test_text_in_a_folder_name_stays_text(place: Place, job: str) -> None:
    place.create("folders", SCHEMA)
    for code in ("007", "1.10", "__HIVE_DEFAULT_PARTITION__"):
        _source(place.folder / "in" / f"Code={code}", pa.table({"id": [len(code)]}))
    clauses = [MergeClause(when="not-matched", action="insert", assignments={"id": "source.id", "code": "source.code"})]
    change = {"change": RowChange(mode="merge-on-read", on="target.id = source.id", clauses=clauses)} if job == "merge" else {}
    place.run(job, "folders", source=Source(format="parquet", paths=[str(place.folder / "in")]), **change)
    assert [(r["id"], r["code"]) for r in place.rows("folders")] == [(3, "007"), (4, "1.10"), (26, None)]


def test_a_folder_above_the_source_gives_no_column_a_type(place: Place) -> None:
    place.create("above", Schema.of(NestedField(1, "id", LONG), NestedField(2, "region", STRING)))
    for where in ("x", "region=7"):
        rows = pa.table({"id": [1], "region": pa.array([5], pa.int32())})
        place.run("append", "above", source=_source(place.folder / where / "src", rows))
        views = {"s": str(place.folder / where / "src")}
        place.run("append", "above", source=Source(format="sql", query="SELECT * FROM s", views=views))
    assert [(r["id"], r["region"]) for r in place.rows("above")] == [(1, "5")] * 4


def test_json_of_which_nothing_parses_is_named_by_file_and_record(place: Place) -> None:
    place.create("json", SCHEMA)
    (place.folder / "a.json").write_text('{"id": 1,\n')
    with pytest.raises(DataError, match=r'a\.json: is not JSON: .* at character 10: \{"id": 1,'):
        place.run("append", "json", source=Source(format="json", paths=[str(place.folder / "a.json")]))
    (place.folder / "a.json").write_text("{}\n")
    place.run("append", "json", source=Source(format="json", paths=[str(place.folder / "a.json")]))
    assert [r["id"] for r in place.rows("json")] == [None]
