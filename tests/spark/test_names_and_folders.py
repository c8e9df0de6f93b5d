"""The meaning of names in Spark: a subquery with the name of a pinned table, values in folder names, spellings of locations, and
columns whose names jobs also use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.catalog.load import load_catalog
from iceberg_ops.config.job_spec import CatalogConfig, MergeClause, RowChange, Source
from iceberg_ops.errors import UnsupportedError, WhereError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, UUID, FixedType, IcebergType, ListType, MapType, NestedField, StructType
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark
SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
ON = "target.id = source.id"


@pytest.mark.parametrize("alias", ["s", "target"])
def test_a_subquery_with_the_name_of_the_target_is_not_the_target(place: Place, alias: str) -> None:
    place.create("t", SCHEMA)
    place.fill("t", pa.table({"id": list(range(10)), "v": ["old"] * 10}))
    inner = "SELECT id, rand() AS w FROM range(10)"
    query = f"SELECT {alias}.id, cast({alias}.w AS string) v FROM ({inner}) AS {alias} WHERE (SELECT count(*) FROM target) > 0"
    clauses = [MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")]
    report = place.merge("t", Source(format="sql", query=query), ON, clauses, "merge-on-read")
    assert report.metrics["staged-source-records"] == 10
    assert [row["id"] for row in place.rows("t")] == list(range(10))


def folder(place: Place, form: str, value: str) -> Path:
    path = place.folder / "src" / f"v={value}"
    path.mkdir(parents=True)
    if form == "csv":
        (path / "a.csv").write_text("id\n1\n")
    elif form == "json":
        (path / "a.json").write_text(json.dumps({"id": 1}) + "\n")
    else:
        pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), path / "a.parquet")
    return path.parent


@pytest.mark.parametrize("value", ["007", "1e5", "1.10", "2024-01-01"])
@pytest.mark.parametrize("form", ["parquet", "csv", "json", "sql"])
@pytest.mark.parametrize("job", ["append", "merge", "upsert"])
def test_a_value_of_a_folder_name_is_text_where_the_column_is(place: Place, job: str, form: str, value: str) -> None:
    place.create("t", SCHEMA, **{"format__version": "2"})
    path = str(folder(place, form, value))
    if form == "sql":
        source = Source(format="sql", query="SELECT id, v FROM s", views={"s": path})
    else:
        source = Source(format=form, paths=[path], options={"header": "true"} if form == "csv" else {})  # type: ignore[arg-type]
    parts: dict[str, Any] = {"options": {"upsert-keys": "id"}} if job == "upsert" else {}
    if job == "merge":
        values = {"id": "cast(source.id AS bigint)", "v": "source.v"}
        clause = MergeClause(when="not-matched", action="insert", assignments=values)
        parts["change"] = RowChange(on="target.id = cast(source.id AS bigint)", clauses=[clause])
    place.run(job, "t", source=source, **parts)
    assert place.rows("t") == [{"id": 1, "v": value}]


@pytest.mark.parametrize("spelling", ["{}/x/../warehouse", "{}/./warehouse", "{}//warehouse", "file:{}/warehouse"])
def test_a_location_may_be_spelled_in_other_ways(place: Place, mode: str, spelling: str) -> None:
    (place.folder / "x").mkdir()
    properties = {**place.config.properties, "uri": f"sqlite:///{place.folder}/c2.db", "warehouse": spelling.format(place.folder)}
    place.config = CatalogConfig(name="test", type="sql", properties=properties)
    place.catalog = load_catalog(place.config)
    place.catalog.create_namespace(("db",))
    place.create("t", SCHEMA)
    place.fill("t", pa.table({"id": [1, 2, 3, 4], "v": list("abcd")}))
    place.run("delete", "t", where="id % 2 = 0 AND id < 3", change=RowChange(mode=mode))  # type: ignore[arg-type]
    place.run("update", "t", where="id % 3 = 0", change=RowChange(mode=mode, set={"v": "upper(v)"}))  # type: ignore[arg-type]
    assert place.rows("t") == [{"id": 1, "v": "a"}, {"id": 3, "v": "C"}, {"id": 4, "v": "d"}]


def each_operation(place: Place, columns: str) -> dict[str, dict[str, Any]]:
    source = Source(format="sql", query=f"SELECT 1L AS id{columns}")
    insert = MergeClause(when="not-matched", action="insert", assignments={"id": "source.id"})
    return {
        "append": {"source": source},
        "overwrite": {"source": source},
        "upsert": {"source": source, "options": {"upsert-keys": "id"}},
        "merge": {"source": source, "change": RowChange(on=ON, clauses=[insert])},
        "update": {"where": "id = 1", "change": RowChange(set={"id": "2"})},
        "delete": {"where": "id % 2 = 1"},
    }


@pytest.mark.parametrize("name", ["_iceberg_ops_file", "_iceberg_ops_pos", "_iceberg_ops_change", "_ICEBERG_OPS_bad"])
def test_a_column_with_a_name_that_jobs_use_is_refused_in_every_operation(place: Place, name: str) -> None:
    place.create("t", Schema.of(NestedField(1, "id", LONG), NestedField(2, name, STRING)))
    for job, parts in each_operation(place, f", 'x' AS {name}").items():
        with pytest.raises(UnsupportedError, match=f"column '{name}'"):
            place.run(job, "t", **parts)


def test_a_source_column_with_a_name_that_jobs_add_is_refused(place: Place) -> None:
    place.create("t", SCHEMA)
    for job, parts in each_operation(place, ", 'x' AS v, 1 AS _iceberg_ops_change").items():
        if "source" in parts:
            with pytest.raises(UnsupportedError, match="source column '_iceberg_ops_change'"):
                place.run(job, "t", **parts)


def test_a_source_may_have_columns_of_a_changelog(place: Place) -> None:
    place.create("t", SCHEMA)
    source = Source(format="sql", query="SELECT 1L AS id, 'x' AS v, 'I' AS _change_type, 'f' AS _file")
    clause = MergeClause(
        when="not-matched", action="insert", condition="source._change_type = 'I' AND source._file = 'f'",
        assignments={"id": "source.id", "v": "source._file"},
    )  # fmt: skip
    place.merge("t", source, ON, [clause], "merge-on-read")
    assert place.rows("t") == [{"id": 1, "v": "f"}]


NESTED = {
    "struct": lambda t: StructType((NestedField(3, "u", t),)),
    "list": lambda t: ListType(NestedField(3, "element", t)),
    "map": lambda t: MapType(NestedField(3, "key", STRING, True), NestedField(4, "value", t)),
}


@pytest.mark.parametrize("inner", [UUID, FixedType(4)], ids=str)
@pytest.mark.parametrize("kind", NESTED)
def test_uuid_and_fixed_inside_nested_columns_are_refused_in_every_operation(place: Place, kind: str, inner: IcebergType) -> None:
    place.create("t", Schema.of(NestedField(1, "id", LONG), NestedField(2, "s", NESTED[kind](inner))))
    for job, parts in each_operation(place, "").items():
        with pytest.raises(UnsupportedError, match="inside a nested column in a Spark job"):
            place.run(job, "t", **parts)


@pytest.mark.parametrize("where", ["id = ", "nope = 3", "id > 0 AND", "id = 'x'"])
def test_an_overwrite_reads_its_condition_before_its_source(place: Place, where: str) -> None:
    place.create("t", SCHEMA)
    before = place.files_on_disk("t")
    source = Source(format="sql", query="SELECT assert_true(false, 'the source was read'), 1L AS id, 'a' AS v")
    with pytest.raises(WhereError):
        place.run("overwrite", "t", where=where, source=source)
    assert place.files_on_disk("t") == before
