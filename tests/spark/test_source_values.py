"""Values of a source are stored unchanged: decimals in folder names, and columns of files that Spark wrote with field ids."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import types as spark

from iceberg_ops.commit.manifests import staged_files
from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.errors import DataError, OptionError, UnsupportedError
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, LONG, STRING, DecimalType, NestedField
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark
MONEY = Schema.of(NestedField(1, "id", LONG), NestedField(2, "d", DecimalType(22, 2)))
TEXTS = Schema.of(NestedField(1, "a", STRING), NestedField(2, "b", STRING))
PAIRS = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
FORMS = ["parquet", "csv", "json", "sql"]


def below(place: Place, form: str, value: str) -> Source:
    folder: Path = place.folder / form / f"d={value}"
    folder.mkdir(parents=True)
    if form in ("parquet", "sql"):
        pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), folder / "a.parquet")
    else:
        (folder / f"a.{form}").write_text("id\n1\n" if form == "csv" else '{"id": 1}\n')
    if form == "sql":
        return Source(format="sql", query="SELECT * FROM s", views={"s": str(folder.parent)})
    return Source(format=form, paths=[str(folder.parent)], options={"header": "true"} if form == "csv" else {})  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", ["12345678901234567890.12", "1.10", "7", "-0.01"])
def test_a_decimal_of_a_folder_name_keeps_its_digits(place: Place, form: str, value: str) -> None:
    place.create("t", MONEY)
    source = below(place, form, value)
    place.run("append", "t", source=source)
    place.run("append", "t", source=source, options={"merge-schema": "true"})
    assert [row["d"] for row in place.rows("t")] == [Decimal(value).quantize(Decimal("0.01"))] * 2
    assert place.table("t").schema == MONEY


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", ["123456789012345678901.5", "1.005", "1e-3"])
def test_a_decimal_of_a_folder_name_that_does_not_fit_is_neither_null_nor_rounded(place: Place, form: str, value: str) -> None:
    place.create("t", MONEY)
    with pytest.raises(DataError, match=f"{value}' is not a valid decimal"):
        place.run("append", "t", source=below(place, form, value))
    assert place.rows("t") == []


def with_ids(place: Place) -> str:
    """Two files, whose columns of one name have other ids."""
    folder = str(place.folder / "ids")
    for ids, values in (((1, 2), ("a1", "b1")), ((2, 1), ("a2", "b2"))):
        fields = [spark.StructField(n, spark.StringType(), True, {"parquet.field.id": i}) for n, i in zip("ab", ids, strict=True)]
        place.session.createDataFrame([values], spark.StructType(fields)).coalesce(1).write.mode("append").parquet(folder)
    return folder


@pytest.mark.parametrize("options", [{}, {"write-tasks": "1"}], ids=["by-arrow", "by-spark"])
@pytest.mark.parametrize("form", ["parquet", "views"])
def test_columns_of_a_source_are_found_by_name_whatever_ids_they_have(place: Place, form: str, options: dict[str, str]) -> None:
    place.create("t", TEXTS)
    folder = with_ids(place)
    source = Source(format="parquet", paths=[folder])
    if form == "views":
        source = Source(format="sql", query="SELECT * FROM s", views={"s": folder})
    place.run("append", "t", source=source, options=options)
    assert place.rows("t") == [{"a": "a1", "b": "b1"}, {"a": "a2", "b": "b2"}]


def test_files_with_field_ids_are_refused_in_sql_text(place: Place) -> None:
    place.create("t", TEXTS)
    place.fill("t", pa.table({"a": ["a1"], "b": ["b1"]}))
    folder = with_ids(place)
    with pytest.raises(UnsupportedError, match=r"would find its columns by these: name its folder among the paths or views"):
        place.run("append", "t", source=Source(format="sql", query=f"SELECT * FROM parquet.`{folder}`"))
    with pytest.raises(UnsupportedError, match=r"parquet\.field\.id"):
        place.run("delete", "t", where=f"a IN (SELECT a FROM parquet.`{folder}`)")
    assert len(place.rows("t")) == 1


def test_a_key_is_no_source_only_column(place: Place) -> None:
    place.create("t", PAIRS)
    options = {"upsert-keys": "id", "source-only-columns": "ID,v"}
    with pytest.raises(OptionError, match="source-only-columns: 'id' is a key of the upsert"):
        place.run("upsert", "t", source=place.parquet(pa.table({"id": [1], "v": ["a"]})), options=options)


@pytest.mark.parametrize("job", ["append", "overwrite"])
def test_a_query_may_name_the_target_where_the_branch_is_yet_to_be_made(place: Place, job: str) -> None:
    place.create("t", PAIRS)
    place.fill("t", pa.table({"id": [1], "v": ["a"]}))
    place.run(job, "t", branch="new", source=Source(format="sql", query="SELECT id + 1 AS id, v FROM target"))
    assert [row["id"] for row in place.rows("t", Scan(ref="new"))] == ([1, 2] if job == "append" else [2])


def beside(monkeypatch: pytest.MonkeyPatch, append: Any) -> None:
    """Another append is committed right before the first commit of the job."""
    commit, waiting = staged_files.commit, [append]

    def commits(*args: Any, **named: Any) -> Any:
        if waiting:
            waiting.pop()()
        return commit(*args, **named)

    monkeypatch.setattr(staged_files, "commit", commits)


@pytest.mark.parametrize("isolation", ["serializable", None])
def test_a_serializable_overwrite_of_the_tables_own_rows_is_evaluated_again(
    place: Place, monkeypatch: pytest.MonkeyPatch, isolation: str | None
) -> None:
    place.create("t", PAIRS)
    for i in (1, 2):
        place.fill("t", pa.table({"id": [i], "v": ["old"]}))
    beside(monkeypatch, lambda: place.append("t", pa.table({"id": [1], "v": ["new"]})))
    query = "SELECT 2L AS id, CAST(count(*) AS string) AS v FROM target WHERE id = 1"
    options = {} if isolation is None else {"isolation-level": isolation}
    place.run("overwrite", "t", where="id = 2", source=Source(format="sql", query=query), options=options)
    assert [row["v"] for row in place.rows("t") if row["id"] == 2] == ["1" if isolation is None else "2"]


def test_a_refused_evaluation_leaves_no_quarantine(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create("t", Schema.of(NestedField(1, "id", INT), NestedField(2, "v", STRING)))
    rows = pa.table({"id": pa.array([1], pa.int32()), "v": ["x"]})
    place.fill("t", rows)
    bad = place.parquet(pa.table({"id": pa.array([2**40], pa.int64()), "v": ["bad"]}))
    beside(monkeypatch, lambda: place.append("t", rows))
    options = {"isolation-level": "serializable", "bad-records": "quarantine", "quarantine-path": str(place.folder / "q")}
    report = place.run("overwrite", "t", source=bad, where="id = 1", options=options)
    assert report.metrics["evaluations-count"] == 2
    left = [str(p) for p in (place.folder / "q").rglob("*") if p.is_file()]
    assert left == [f.file_path for f in report.failures]


@pytest.mark.parametrize("name", ["target", "S"])
def test_a_view_of_the_job_never_takes_the_place_of_one_that_a_view_of_the_program_reads(place: Place, name: str) -> None:
    place.create("t", PAIRS)
    place.fill("t", pa.table({"id": [1], "v": ["a"]}))
    pq.write_table(pa.table({"id": [1]}), place.folder / "s.parquet")
    source = Source(format="sql", query=f"SELECT * FROM w WHERE id NOT IN (SELECT id FROM {name})")
    if name == "S":
        source = Source(format="sql", query=source.query, views={"s": str(place.folder / "s.parquet")})
    session = place.session
    session.sql(f"CREATE TEMPORARY VIEW {name} AS SELECT 7L AS id, 'program' AS v")
    place.run("append", "t", source=Source(format="sql", query=f"SELECT 8L AS id, 'b' AS v FROM {name}", views=source.views))
    session.sql(f"CREATE TEMPORARY VIEW w AS SELECT * FROM {name}")
    try:
        with pytest.raises(OptionError, match="would take the place of the program's view of that name, which its view 'w' reads"):
            place.run("append", "t", source=source)
    finally:
        session.catalog.dropTempView("w")
        session.catalog.dropTempView(name)
    assert [row["id"] for row in place.rows("t")] == [1, 8]


@pytest.mark.parametrize(
    ("made", "query", "kind"),
    [
        ("GLOBAL TEMPORARY VIEW w AS SELECT * FROM S", "SELECT * FROM global_temp.w", "VIEW global_temp.w"),
        (
            "TEMPORARY FUNCTION w() RETURNS BIGINT RETURN SELECT max(id) FROM S",
            "SELECT w() AS id, 'x' AS v",
            "TEMPORARY FUNCTION w",
        ),
        ("TEMPORARY FUNCTION w() RETURNS TABLE(id BIGINT, v STRING) RETURN SELECT * FROM S", "FROM w()", "TEMPORARY FUNCTION w"),
    ],
    ids=["global view", "function", "table function"],
)
def test_a_view_of_the_job_never_takes_the_place_of_one_that_other_text_of_the_program_reads(
    place: Place, made: str, query: str, kind: str
) -> None:
    place.create("t", PAIRS)
    pq.write_table(pa.table({"id": [1], "v": ["job"]}), place.folder / "s.parquet")
    session = place.session
    session.sql("CREATE TEMPORARY VIEW s AS SELECT 7L AS id, 'program' AS v")
    session.sql(f"CREATE {made}")
    try:
        with pytest.raises(OptionError, match=r"program's view of that name, which its \w+ 'w' reads"):
            place.run("append", "t", source=Source(format="sql", query=query, views={"s": str(place.folder / "s.parquet")}))
        place.run("append", "t", source=Source(format="sql", query=query))
    finally:
        session.sql(f"DROP {kind}")
        session.catalog.dropTempView("s")
    assert [row["id"] for row in place.rows("t")] == [7]


def test_a_view_of_the_job_may_have_the_name_of_a_global_one_that_the_program_reads(place: Place) -> None:
    place.create("t", PAIRS)
    pq.write_table(pa.table({"id": [1], "v": ["job"]}), place.folder / "s.parquet")
    session = place.session
    session.sql("CREATE GLOBAL TEMPORARY VIEW s AS SELECT 7L AS id, 'program' AS v")
    session.sql("CREATE TEMPORARY VIEW w AS SELECT * FROM global_temp.s")
    session.sql("CREATE TEMPORARY FUNCTION f() RETURNS BIGINT RETURN SELECT 1 + max(id) FROM global_temp.s")
    query = "SELECT * FROM s UNION ALL SELECT * FROM w UNION ALL SELECT f(), 'f'"
    try:
        place.run("append", "t", source=Source(format="sql", query=query, views={"s": str(place.folder / "s.parquet")}))
    finally:
        session.sql("DROP TEMPORARY FUNCTION f")
        session.catalog.dropTempView("w")
        session.sql("DROP VIEW global_temp.s")
    assert [row["id"] for row in place.rows("t")] == [1, 7, 8]


def test_a_merge_takes_text_without_a_header_by_position(place: Place) -> None:
    place.create("t", PAIRS)
    (place.folder / "a.csv").write_text("1,a\n2,b\n")
    change = RowChange(mode="copy-on-write", on="target.id = source.id", clauses=[MergeClause(when="not-matched", action="insert")])
    place.run(
        "merge", "t", source=Source(format="csv", paths=[str(place.folder / "a.csv")], options={"header": "false"}), change=change
    )
    assert [row["id"] for row in place.rows("t")] == [1, 2]
