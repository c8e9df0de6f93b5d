"""A job reads the files of its source in their current state: neither only up to a former size nor from a cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.errors import RetryableError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.jobs import source_rows, text_source
from spark_jobs.jobs.source_state import SourceState
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
BY_ID = SortOrder(1, (SortField((1,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))
CHANGED = r"was changed (after Spark listed it|while it was read), so nothing was committed"
MERGE = RowChange(
    mode="merge-on-read",
    on="target.id = source.id",
    clauses=[MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")],
)


def rows(count: int, text: str) -> pa.Table:
    return pa.table({"id": list(range(count)), "v": [text] * count})


def replace_parquet(path: Path) -> None:
    pq.write_table(rows(1000, "new"), path.with_suffix(".new"), row_group_size=100)
    os.replace(path.with_suffix(".new"), path)


def append_lines(path: Path) -> None:
    with path.open("a") as file:
        file.writelines(f'{{"id":{i},"v":"new"}}\n' for i in range(2, 5))


def lines_of_csv(path: Path) -> None:
    with path.open("a") as file:
        file.writelines(f"{i},new\n" for i in range(2, 5))


class Files:
    """A folder with one file of each format, two rows in each, and the change that makes it longer."""

    def __init__(self, folder: Path) -> None:
        self.parquet, self.json, self.csv = (folder / name / f"f.{name}" for name in ("parquet", "json", "csv"))
        for path in (self.parquet, self.json, self.csv):
            path.parent.mkdir(parents=True)
        pq.write_table(rows(2, "old"), self.parquet)
        self.json.write_text("".join(f'{{"id":{i},"v":"old"}}\n' for i in range(2)))
        self.csv.write_text("id,v\n0,old\n1,old\n")

    def grow(self, form: str) -> None:
        {"parquet": replace_parquet, "json": append_lines, "csv": lines_of_csv}[form](getattr(self, form))

    def read(self, session: SparkSession, form: str) -> DataFrame:
        return session.read.format(form).option("header", "true").schema("id long, v string").load(str(getattr(self, form).parent))


@pytest.fixture
def files(place: Place) -> Files:
    return Files(place.folder / "in")


@contextmanager
def program_view(frame: DataFrame, name: str = "landing") -> Iterator[None]:
    frame.createOrReplaceTempView(name)
    try:
        yield
    finally:
        frame.sparkSession.catalog.dropTempView(name)


@contextmanager
def cached(frame: DataFrame) -> Iterator[DataFrame]:
    frame.cache().count()
    try:
        yield frame
    finally:
        frame.unpersist(blocking=True)


def fails_unchanged(place: Place, job: str, **parts: Any) -> None:
    before, there = place.files_on_disk("t"), place.rows("t")
    with pytest.raises(RetryableError, match=CHANGED):
        place.run(job, "t", **parts)
    assert (place.rows("t"), place.files_on_disk("t")) == (there, before)


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
@pytest.mark.parametrize("v1", ["parquet,json,csv", ""], ids=["v1", "v2"])
def test_a_view_of_the_program_over_a_file_that_grew_is_not_committed(place: Place, files: Files, form: str, v1: str) -> None:
    place.create("t", SCHEMA)
    place.session.conf.set("spark.sql.sources.useV1SourceList", v1)
    try:
        frame = files.read(place.session, form)
        with program_view(frame):
            files.grow(form)
            fails_unchanged(place, "append", source=Source(format="sql", query="SELECT * FROM landing"))
    finally:
        place.session.conf.unset("spark.sql.sources.useV1SourceList")


@pytest.mark.parametrize("job", ["delete", "update", "merge"])
def test_a_subquery_over_a_file_that_grew_is_not_committed(place: Place, files: Files, job: str) -> None:
    place.create("t", SCHEMA)
    place.fill("t", rows(3, "x"))
    where, source = "id IN (SELECT id FROM landing)", Source(format="sql", query="SELECT * FROM landing")
    parts: dict[str, Any] = {
        "delete": {"where": where},
        "update": {"where": where, "change": RowChange(mode="merge-on-read", set={"v": "'y'"})},
        "merge": {"source": source, "change": MERGE},
    }
    with program_view(files.read(place.session, "json")):
        files.grow("json")
        fails_unchanged(place, job, **parts[job])


@pytest.mark.parametrize("where", ["id = (SELECT top())", "id IN (SELECT id FROM listed())", "id = top()"])
def test_a_subquery_whose_function_reads_a_file_that_grew_is_not_committed(place: Place, files: Files, where: str) -> None:
    place.create("t", SCHEMA)
    place.fill("t", rows(3, "x"))
    session = place.session
    with program_view(files.read(session, "json")):
        session.sql("CREATE TEMPORARY FUNCTION top() RETURNS BIGINT RETURN SELECT max(id) FROM landing")
        session.sql("CREATE TEMPORARY FUNCTION listed() RETURNS TABLE(id BIGINT) RETURN SELECT id FROM landing")
        try:
            files.grow("json")
            fails_unchanged(place, "delete", where=where)
        finally:
            for name in ("top", "listed"):
                session.sql(f"DROP TEMPORARY FUNCTION {name}")


def test_a_merge_of_a_table_by_values_of_a_file_that_grew_is_not_committed(place: Place, files: Files) -> None:
    for name in ("t", "other"):
        place.create(name, SCHEMA)
        place.fill(name, rows(3, "x"))
    source = Source(format="table", table="test.db.other", catalog=place.config)
    clause = MergeClause(when="matched", action="update", assignments={"v": "(SELECT max(v) FROM landing)"})
    change = RowChange(mode="merge-on-read", on="target.id = source.id", clauses=[clause])
    with program_view(files.read(place.session, "parquet")):
        place.run("merge", "t", source=source, change=change)
        files.grow("parquet")
        fails_unchanged(place, "merge", source=source, change=change)


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_text_that_grows_after_its_columns_were_found_is_not_committed(
    place: Place, files: Files, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place.create("t", SCHEMA)
    real = text_source._output

    def then_grown(*given: Any, **named: Any) -> Any:
        found = real(*given, **named)
        files.grow(kind)
        return found

    monkeypatch.setattr(text_source, "_output", then_grown)
    fails_unchanged(place, "append", source=text_of(files, kind))


def unreadable(path: Path) -> None:
    path.write_bytes(b'{"id":"x')


def misfit(path: Path) -> None:
    if path.suffix == ".parquet":
        pq.write_table(pa.table({"id": ["x"], "v": ["y"]}), path)
    else:
        path.write_text('{"id":"x","v":"y"}\n' if path.suffix == ".json" else "id,v\nx,y\n")


CHANGES = {"removed": Path.unlink, "unreadable": unreadable, "misfit": misfit}


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize(
    ("job", "kind"),
    [(job, kind) for job in ("append", "upsert", "merge") for kind in ("parquet", "csv", "json")] + [("delete", "parquet")],
)
def test_a_file_whose_change_makes_the_read_fail_is_one_that_changed(
    place: Place, files: Files, monkeypatch: pytest.MonkeyPatch, job: str, kind: str, how: str
) -> None:
    place.create("t", SCHEMA, **({"order": BY_ID} if job == "append" else {}))  # type: ignore[arg-type]
    place.fill("t", rows(3, "old"))
    made = SourceState.__init__

    def then_changed(self: SourceState, *given: Any, **named: Any) -> None:
        made(self, *given, **named)
        CHANGES[how](getattr(files, kind))

    monkeypatch.setattr(SourceState, "__init__", then_changed)
    source = Source(format="parquet", paths=[str(files.parquet.parent)]) if kind == "parquet" else text_of(files, kind)
    parts: dict[str, dict[str, Any]] = {
        "append": {"source": source},
        "upsert": {"source": source, "options": {"upsert-keys": "id"}},
        "merge": {"source": source, "change": MERGE},
        "delete": {"where": f"id IN (SELECT id FROM parquet.`{files.parquet}`)"},
    }
    fails_unchanged(place, job, **parts[job])


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_text_that_is_removed_before_its_columns_are_found_is_a_file_that_changed(
    place: Place, files: Files, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    place.create("t", SCHEMA)
    real = text_source._lines

    def then_removed(*given: Any) -> Any:
        found = real(*given)
        getattr(files, kind).unlink()
        return found

    monkeypatch.setattr(text_source, "_lines", then_removed)
    fails_unchanged(place, "append", source=text_of(files, kind))


@pytest.mark.parametrize("source", ["view", "direct", "sorted"])
def test_parquet_that_is_replaced_after_it_was_listed_is_not_committed(
    place: Place, files: Files, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    place.create("t", SCHEMA, **({"order": BY_ID} if source == "sorted" else {}))  # type: ignore[arg-type]
    real = source_rows.schema_to_read

    def then_replaced(*given: Any) -> Any:
        found = real(*given)
        files.grow("parquet")
        return found

    monkeypatch.setattr(source_rows, "schema_to_read", then_replaced)
    views = {"s": str(files.parquet.parent)}
    spec = Source(format="sql", query="SELECT * FROM s", views=views) if source == "view" else None
    fails_unchanged(place, "append", source=spec or Source(format="parquet", paths=[str(files.parquet)]))


def test_a_file_of_a_view_that_is_replaced_while_its_columns_are_checked_is_one_that_changed(
    place: Place, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.create("t", SCHEMA)
    pq.write_table(rows(2, "old"), files.parquet.with_name("g.parquet"))
    real = source_rows.check_columns_of_files

    def replaced(found: DataFrame) -> None:
        pq.write_table(rows(2, "new").append_column("more", pa.array([1, 2])), files.parquet)
        real(found)

    monkeypatch.setattr(source_rows, "check_columns_of_files", replaced)
    views = {"s": str(files.parquet.parent)}
    fails_unchanged(place, "append", source=Source(format="sql", query="SELECT id, v FROM s", views=views))


def test_parquet_that_is_replaced_while_its_folders_are_judged_is_not_committed(
    place: Place, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark lists it twice then: the columns are of the first listing, the rows of the second."""
    place.create("t", SCHEMA)
    folder = files.parquet.parent / "v=007"
    folder.mkdir()
    path = folder / "f.parquet"
    pq.write_table(pa.table({"id": [1]}), path)
    files.parquet.unlink()
    real = source_rows.schema_to_read

    def then_replaced(*given: Any) -> Any:
        found = real(*given)
        pq.write_table(pa.table({"id": [1, 2, 3], "new": [1, 2, 3]}), path)
        return found

    monkeypatch.setattr(source_rows, "schema_to_read", then_replaced)
    fails_unchanged(place, "append", source=Source(format="parquet", paths=[str(folder.parent)]))
    views = {"s": str(folder.parent)}
    pq.write_table(pa.table({"id": [1]}), path)
    fails_unchanged(place, "append", source=Source(format="sql", query="SELECT id, v FROM s", views=views))


def text_of(files: Files, form: str) -> Source:
    options = {"header": "true"} if form == "csv" else {}
    return Source(format=form, paths=[str(getattr(files, form).parent)], options=options)  # type: ignore[arg-type]


CACHED: dict[str, tuple[str, Callable[[Files], Source], dict[str, Any]]] = {
    "append": ("append", lambda f: text_of(f, "parquet"), {}),
    "json": ("append", lambda f: text_of(f, "json"), {}),
    "csv": ("append", lambda f: text_of(f, "csv"), {}),
    "view": ("append", lambda f: Source(format="sql", query="SELECT * FROM s", views={"s": str(f.parquet.parent)}), {}),
    "overwrite": ("overwrite", lambda f: text_of(f, "parquet"), {}),
    "merge": ("merge", lambda f: text_of(f, "parquet"), {"change": MERGE}),
    "upsert": ("upsert", lambda f: text_of(f, "parquet"), {"options": {"upsert-keys": "id"}}),
}


@pytest.mark.parametrize("name", CACHED)
def test_a_cache_of_the_program_is_neither_read_nor_touched(place: Place, files: Files, name: str) -> None:
    job, source, parts = CACHED[name]
    place.create("t", SCHEMA, order=BY_ID)
    for form in {"json": ["json"], "csv": ["csv"]}.get(name, ["parquet"]):
        frame = place.session.read.format(form).options(**text_of(files, form).options).load(str(getattr(files, form).parent))
        with cached(frame):
            files.grow(form)
            place.run(job, "t", source=source(files), **parts)
            assert (frame.count(), frame.storageLevel.useMemory) == (2, True)
    found = place.rows("t")
    assert len(found) == (5 if name in ("json", "csv") else 1000)
    assert {r["v"] for r in found} == ({"old", "new"} if name in ("json", "csv") else {"new"})


QUERIES = {"view": "SELECT * FROM landing", "path": "SELECT * FROM parquet.`{path}`"}


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("of_a_cache", [False, True], ids=["cache", "cache of a cache"])
def test_a_query_takes_cached_rows_only_of_files_that_are_as_they_were(
    place: Place, files: Files, query: str, of_a_cache: bool
) -> None:
    place.create("t", SCHEMA)
    source = Source(format="sql", query=QUERIES[query].format(path=files.parquet.parent))
    path = str(files.parquet.parent)
    first = place.session.read.parquet(path) if query == "view" else place.session.sql(QUERIES[query].format(path=path))
    with cached(first), program_view(first):
        place.run("append", "t", source=source)
        assert [r["id"] for r in place.rows("t")] == [0, 1]
        files.grow("parquet")
        if not of_a_cache:
            fails_unchanged(place, "append", source=source)
            return
        # Spark lists the new file, and takes the rows of the old one from the first cache.
        same = place.session.read.parquet(path) if query == "view" else place.session.sql(QUERIES[query].format(path=path))
        again = same.where("id >= 0")
        with cached(again), program_view(again):
            fails_unchanged(place, "append", source=Source(format="sql", query="SELECT * FROM landing"))


def test_a_query_reads_files_past_a_cache_of_another_read(place: Place, files: Files) -> None:
    place.create("t", SCHEMA)
    with cached(place.session.read.parquet(str(files.parquet.parent))):
        files.grow("parquet")
        place.run("append", "t", source=Source(format="sql", query=QUERIES["path"].format(path=files.parquet.parent)))
    assert len(place.rows("t")) == 1000


def test_a_source_that_stays_as_it_was_listed_is_committed(place: Place, files: Files) -> None:
    place.create("t", SCHEMA)
    for form in ("parquet", "json", "csv"):
        with program_view(files.read(place.session, form)):
            place.run("append", "t", source=Source(format="sql", query="SELECT * FROM landing"))
    assert len(place.rows("t")) == 6
