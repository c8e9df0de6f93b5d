"""A source whose rows may differ between two evaluations is evaluated once per statement; any other is not staged."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange, Source
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import RetryableError, UnsupportedError, WhereError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField
from spark_jobs.jobs import merge, staged_source
from spark_jobs.jobs.repeatable import is_known, is_repeatable
from spark_jobs.jobs.source_rows import source_rows
from spark_jobs.jobs.source_state import SourceState
from spark_jobs.jobs.spark_run import SparkRun
from spark_jobs.jobs.sql_tables import SqlTables
from tests.spark.conftest import Place, make_place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "name", STRING))
UPSERT = [MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")]
ON = "target.id = source.id"


def named(ids: range, name: str) -> pa.Table:
    return pa.table({"id": list(ids), "name": [name] * len(ids)})


@pytest.fixture
def filled(place: Place) -> Place:
    return _filled(place)


@pytest.fixture(scope="module")
def only_read(session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Place:
    """For tests that change nothing."""
    made = _filled(make_place(session, tmp_path_factory.mktemp("only-read")))
    made.parquet(named(range(3), "s"), "s.parquet")
    return made


def _filled(place: Place) -> Place:
    place.create("t", SCHEMA)
    place.fill("t", named(range(200), "old"))
    return place


@pytest.fixture
def moody(session: SparkSession, tmp_path: Path) -> Iterator[Path]:
    """``moody(id)`` claims to be deterministic, and gives the ids below 100 in its first evaluation, those above in its second.
    It leaves a line for each row it is asked for."""
    asked = tmp_path / "asked"

    def value(number: int) -> int:
        with open(asked, "a") as notes:
            notes.write(f"{number}\n")
        seen = Path(asked).read_text().splitlines().count(str(number))
        return number if seen == 1 else number + 100 * (seen - 1)

    session.udf.register("moody", value, "long")
    yield asked
    session.sql("DROP TEMPORARY FUNCTION moody")


def merge_run(place: Place, source: Source | None = None) -> AbstractContextManager[SparkRun]:
    return place.spark_run(JobSpec(job="merge", table="test.db.t", catalog=place.config, source=source))


def merged(place: Place, query: str) -> ActionReport:
    return place.merge("t", Source(format="sql", query=query), ON, UPSERT, "merge-on-read")


# The source of a merge


def test_a_source_of_a_merge_is_evaluated_once(filled: Place, moody: Path) -> None:
    report = merged(filled, "SELECT moody(id) AS id, 'new' AS name FROM range(100)")
    assert sorted(moody.read_text().split()) == sorted(map(str, range(100)))
    assert report.metrics["staged-source-records"] == 100
    rows = [(r["id"], r["name"]) for r in filled.rows("t")]
    assert rows == [(i, "new" if i < 100 else "old") for i in range(200)]
    assert not [name for name in filled.files_on_disk("t") if "-source-" in name]


def test_no_file_of_a_source_is_left_by_a_merge_that_fails(filled: Place, moody: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = filled.files_on_disk("t")

    def fails(*_: object) -> object:
        assert [name for name in filled.files_on_disk("t") if "-source-" in name]
        raise KeyboardInterrupt

    monkeypatch.setattr(merge, "merged_rows", fails)
    with pytest.raises(KeyboardInterrupt):
        merged(filled, "SELECT moody(id) AS id, 'new' AS name FROM range(100)")
    assert filled.files_on_disk("t") == before


def test_a_staged_source_comes_back_in_its_own_types_and_names(filled: Place) -> None:
    query = """
        SELECT cast(id AS tinyint) AS tiny, cast(id AS smallint) AS small, NULL AS nothing, id AS `a.b`, id AS B, id AS b,
               timestamp_micros(id) AS t, timestamp_ntz'0001-01-01 00:00:00.000001' AS n, cast(id AS decimal(38, 3)) AS d,
               double('NaN') AS x, -0.0D AS z, X'00ff' AS bytes, named_struct('k', array(map('v', id)), 'K2', 1Y) AS nested,
               'text' COLLATE UTF8_LCASE AS folded
        FROM range(3) LIMIT 3
    """
    with merge_run(filled) as run:
        given = run.session.sql(query)
        with staged_source.evaluated_once(run, given, SourceState(run, given)) as staged:
            assert staged.rows.dtypes == given.dtypes
            assert sorted(map(repr, staged.rows.collect())) == sorted(map(repr, given.collect()))
            assert staged.rows.schema.fieldNames() == given.schema.fieldNames()


def test_a_source_without_rows_or_columns_of_its_own_can_be_staged(filled: Place) -> None:
    for query, count in (("SELECT NULL AS n FROM range(5) LIMIT 3", 3), ("SELECT id FROM range(5) LIMIT 0", 0)):
        with merge_run(filled) as run:
            given = run.session.sql(query)
            with staged_source.evaluated_once(run, given, SourceState(run, given)) as staged:
                assert staged.rows.collect() == given.collect()
                assert staged.rows.count() == count


def test_a_type_that_no_file_holds_is_refused_by_name(filled: Place) -> None:
    with pytest.raises(UnsupportedError, match="interval"):
        merged(filled, "SELECT id, 'n' AS name, INTERVAL 1 DAY AS apart FROM range(5) LIMIT 3")


@F.udtf(returnType="id long")
class Drawn:
    """It claims to be deterministic where it is registered so."""

    def eval(self) -> Iterator[tuple[int]]:
        yield (random.randrange(64),)


SOURCES = {
    "rows in the query": ("SELECT * FROM VALUES (1L, 'a') AS v(id, name)", True),
    "files": ("SELECT id, upper(name) AS name FROM parquet.`{folder}/s.parquet` WHERE id > 1 ORDER BY id", True),
    "a view of files": ("SELECT * FROM named", True),
    "a table of the catalog": ("SELECT * FROM test.db.t", True),
    "the table that is changed": ("SELECT * FROM target", True),
    "a join of these": ("SELECT a.id, b.name FROM target a JOIN parquet.`{folder}/s.parquet` b ON a.id = b.id", True),
    "a union and a CTE": ("WITH s AS (SELECT * FROM target) SELECT * FROM s UNION ALL SELECT * FROM s", True),
    "counts, and sums of whole numbers": ("SELECT id, max(name) AS name, count(*) c, sum(id) s FROM target GROUP BY id", True),
    "distinct rows": ("SELECT DISTINCT id, name FROM target", True),
    "an uncorrelated subquery": ("SELECT * FROM target WHERE id IN (SELECT id FROM test.db.t)", True),
    "LIMIT": ("SELECT * FROM target LIMIT 5", False),
    "ORDER BY and LIMIT": ("SELECT * FROM target ORDER BY name LIMIT 5", False),
    "OFFSET": ("SELECT * FROM target OFFSET 5", False),
    "a sample": ("SELECT * FROM target TABLESAMPLE (10 PERCENT)", False),
    "a window": ("SELECT * FROM (SELECT *, row_number() OVER (PARTITION BY name ORDER BY 1) r FROM target) WHERE r = 1", False),
    "first": ("SELECT id, first(name) AS name FROM target GROUP BY id", False),
    "any_value": ("SELECT id, any_value(name) AS name FROM target GROUP BY id", False),
    "max_by": ("SELECT id, max_by(name, 1) AS name FROM target GROUP BY id", False),
    "collect_list": ("SELECT id, concat_ws(',', collect_list(name)) AS name FROM target GROUP BY id", False),
    "a sum of floats": ("SELECT id, cast(sum(double(id)) AS string) AS name FROM target GROUP BY id", False),
    "an average of whole numbers": ("SELECT id, cast(avg(id) AS string) AS name FROM target GROUP BY id", False),
    "rand": ("SELECT id, cast(rand() AS string) AS name FROM target", False),
    "uuid": ("SELECT id, uuid() AS name FROM target", False),
    "monotonically_increasing_id": ("SELECT monotonically_increasing_id() AS id, name FROM target", False),
    "a Python function": ("SELECT id, shout(name) AS name FROM target", False),
    "a Java method": ("SELECT id, reflect('java.util.UUID', 'randomUUID') AS name FROM target", False),
    "groups of a collation": ("SELECT max(id), n FROM (SELECT id, name COLLATE UNICODE_CI n FROM target) GROUP BY n", False),
    "groups of a collation below a cast": (
        "SELECT max(id) id, cast(n AS string) name FROM (SELECT id, name COLLATE UNICODE_CI n FROM target) GROUP BY n", False),
    "the greatest by a collation, cast": (
        "SELECT id, cast(max(name COLLATE UNICODE_CI) AS string) n FROM target GROUP BY id", False),
    "distinct by a collation, cast": (
        "SELECT cast(n AS string) n FROM (SELECT DISTINCT name COLLATE UNICODE_CI n FROM target)", False),
    "the greatest float": ("SELECT id, cast(max(double(id)) AS string) AS name FROM target GROUP BY id", False),
    "the least struct with a float": ("SELECT id, to_json(min(struct(float(id)))) AS name FROM target GROUP BY id", False),
    "a sum that overflows to NULL": ("SELECT name, try_sum(id) AS id FROM target GROUP BY name", False),
    "an average of decimals": ("SELECT id, string(avg(decimal(id))) AS name FROM target GROUP BY id", True),
    "a filtered count": ("SELECT id, string(count(*) FILTER (WHERE name > 'a')) AS name FROM target GROUP BY id", True),
    "a count filtered by a function": (
        "SELECT id, string(count(*) FILTER (WHERE shout(name) > 'a')) n FROM target GROUP BY id", False),
    "a random IV": ("SELECT id, hex(aes_encrypt(name, '0000111122223333')) AS name FROM target", False),
    "a random IV in an aggregate": (
        "SELECT id, max(hex(aes_encrypt(name, '0000111122223333'))) AS name FROM target GROUP BY id", False),
    "a random IV in a subquery": (
        "SELECT * FROM target WHERE id IN (SELECT crc32(aes_encrypt(name, '0000111122223333')) FROM target)", False),
    "a Python table function": ("SELECT id, 'n' AS name FROM drawn()", False),
    "a Python table function beside rows": ("SELECT t.id, name FROM target t, LATERAL drawn()", False),
    "rows of an array": ("SELECT explode(sequence(1, 3)) AS id, name FROM target", True),
    "text, times and nested values": ("""
        SELECT id, concat_ws('-', upper(trim(name)), date_format(date_add(DATE '2026-01-01', int(id)), 'yyyy'), sha2(name, 256),
               CASE WHEN id BETWEEN 1 AND 3 OR name LIKE 'a%' OR id IN (7, 8) THEN 'x' ELSE coalesce(name, nvl(name, 'y')) END,
               to_json(named_struct('a', transform(array(id, 2), x -> x + 1), 'b', map('k', id % 7))), string(current_timestamp()),
               regexp_replace(name, 'a', 'b'), lpad(name, 3, 'x'), round(decimal(id) / 3, 2), ceil(id / 2), abs(-id),
               string(TIMESTAMP '2026-01-01 00:00:00' + INTERVAL 1 DAY), extract(HOUR FROM current_timestamp()),
               to_date('2026-01-01'), struct(id).id, array(id)[0], split_part(name, 'l', 1)) AS name
        FROM target""", True),
    "LIMIT in a subquery": ("SELECT * FROM target WHERE id IN (SELECT id FROM target LIMIT 5)", False),
    "LIMIT in a scalar subquery": ("SELECT id, (SELECT max(n) FROM (SELECT name n FROM target LIMIT 5)) name FROM target", False),
    "a scalar subquery": ("SELECT id, (SELECT max(name) FROM parquet.`{folder}/s.parquet`) AS name FROM target", True),
    "LIMIT in a CTE": ("WITH s AS (SELECT * FROM target LIMIT 5) SELECT * FROM s", False),
    "LIMIT in a view": ("SELECT * FROM few", False),
}  # fmt: skip


@pytest.mark.parametrize("what", SOURCES)
def test_only_a_source_that_can_not_differ_is_taken_to_be_the_same_each_time(only_read: Place, what: str) -> None:
    query, repeatable = SOURCES[what]
    folder = only_read.folder
    source = Source(format="sql", query=query.format(folder=folder), views={"named": str(folder / "s.parquet")})
    with merge_run(only_read, source) as run:
        run.session.udf.register("shout", str.upper, "string")
        run.session.udtf.register("drawn", Drawn.asDeterministic())
        run.session.sql("CREATE TEMPORARY VIEW few AS SELECT id, 'x' AS name FROM range(10) LIMIT 3")
        rows = source_rows(run, SqlTables(run))
        assert is_repeatable(rows, run.pinned_rows) is repeatable


def test_a_condition_with_a_user_function_is_not_known_to_compute_the_same(session: SparkSession) -> None:
    session.udf.register("shout", str.upper, "string")
    rows = session.range(3).selectExpr("id", "'a' AS name")
    assert is_known(rows.filter("id = 1 AND upper(name) = 'A'"))
    assert not is_known(rows.filter("id = 1 AND shout(name) = 'A'"))


@pytest.mark.parametrize("what", ["a random IV", "a Python table function"])
def test_a_merge_of_a_source_that_differs_each_time_brings_no_key_twice(filled: Place, what: str) -> None:
    filled.session.udtf.register("drawn", Drawn.asDeterministic())
    queries = {
        "a random IV": """
            SELECT DISTINCT 1000 + crc32(aes_encrypt(string(id), '0000111122223333')) % 64 AS id, 'new' AS name FROM range(40)""",
        "a Python table function": "SELECT DISTINCT d.id + 1000 AS id, 'new' AS name FROM range(40), LATERAL drawn() d",
    }
    filled.fill("t", named(range(1000, 1064), "old"))
    try:
        report = merged(filled, queries[what])
    finally:
        filled.session.sql("DROP TEMPORARY FUNCTION drawn")
    assert report.metrics["staged-source-records"] > 0
    assert [r["id"] for r in filled.rows("t")] == [*range(200), *range(1000, 1064)]


@pytest.mark.parametrize("form", ["parquet", "csv", "json"])
def test_files_of_every_format_are_read_as_they_are_without_staging(filled: Place, form: str) -> None:
    rows = filled.session.createDataFrame([(1, "new"), (300, "new")], "id long, name string")
    rows.write.format(form).option("header", "true").save(str(filled.folder / form))
    options = {"header": "true"} if form == "csv" else {}
    source = Source(format=form, paths=[str(filled.folder / form)], options=options)  # type: ignore[arg-type]
    report = filled.merge("t", source, "target.id = bigint(source.id)", MERGE_TEXT if form == "csv" else UPSERT, "merge-on-read")
    assert "staged-source-records" not in report.metrics
    assert len(filled.rows("t")) == 201


MERGE_TEXT = [
    MergeClause(when="matched", action="update", assignments={"name": "source.name"}),
    MergeClause(when="not-matched", action="insert", assignments={"id": "bigint(source.id)", "name": "source.name"}),
]


# Conditions of clauses


@pytest.mark.parametrize("kind", ["python", "arrow"])
def test_a_condition_of_a_clause_chooses_one_clause_for_each_row(filled: Place, tmp_path: Path, kind: str) -> None:
    """A function that says yes and no in turn: the row came into the table with the values of no clause."""
    asked = tmp_path / "asked"

    def turns(number: int) -> bool:
        with open(asked, "a") as notes:
            notes.write(f"{number}\n")
        return asked.read_text().splitlines().count(str(number)) % 2 == 1

    filled.session.udf.register("turns", F.udf(turns, "boolean", useArrow=kind == "arrow"))
    clauses = [
        MergeClause(when="matched", condition="turns(source.id)", action="update", assignments={"name": "'yes'"}),
        MergeClause(when="matched", action="update", assignments={"name": "'no'"}),
        MergeClause(when="not-matched", condition="turns(source.id)", action="insert"),
    ]
    try:
        filled.merge("t", filled.parquet(named(range(190, 210), "new")), ON, clauses, "merge-on-read")
    finally:
        filled.session.sql("DROP TEMPORARY FUNCTION turns")
    assert sorted(asked.read_text().split()) == sorted(map(str, range(190, 210)))
    rows = {r["id"]: r["name"] for r in filled.rows("t")}
    assert [rows[i] for i in range(190, 210)] == ["yes"] * 10 + ["new"] * 10


def test_a_condition_of_a_clause_that_differs_each_time_is_refused(filled: Place) -> None:
    clauses = [MergeClause(when="matched", condition="rand() < 0.5", action="delete")]
    before = filled.files_on_disk("t")
    with pytest.raises(WhereError, match=r"WHEN clause 1 .* is not deterministic"):
        filled.merge("t", filled.parquet(named(range(3), "new")), ON, clauses, "merge-on-read")
    assert filled.files_on_disk("t") == before


# Files that change


SUBQUERY = "(SELECT max(name) FROM parquet.`{folder}/other.parquet`)"
READERS: dict[str, dict[str, Any]] = {
    "append": {"source": f"SELECT id + 1000 AS id, {SUBQUERY} AS name FROM target"},
    "merge": {"source": f"SELECT id, {SUBQUERY} AS name FROM target"},
    "delete": {"where": f"name < {SUBQUERY}"},
    "update": {"where": "id > 3", "set": {"name": SUBQUERY}},
    "merge-set": {"source": "SELECT * FROM target", "set": {"name": SUBQUERY}},
}


@pytest.mark.parametrize("how", READERS)
def test_a_file_of_a_subquery_that_changes_while_it_is_read_is_not_committed(
    filled: Place, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled.folder / "other.parquet"
    pq.write_table(named(range(3), "zzz"), path)
    before, rows = filled.files_on_disk("t"), filled.rows("t")
    check = SourceState.check_unchanged

    def changed(self: SourceState) -> None:
        os.utime(path, ns=(1, 1))
        check(self)

    monkeypatch.setattr(SourceState, "check_unchanged", changed)
    reader = READERS[how]
    parts: dict[str, Any] = {}
    if "source" in reader:
        parts["source"] = Source(format="sql", query=reader["source"].format(folder=filled.folder))
    if "where" in reader:
        parts["where"] = reader["where"].format(folder=filled.folder)
    assigned = {name: text.format(folder=filled.folder) for name, text in reader.get("set", {}).items()}
    if how == "update":
        parts["change"] = RowChange(mode="merge-on-read", set=assigned)
    elif how.startswith("merge"):
        update = MergeClause(when="matched", action="update", assignments=assigned or None)
        parts["change"] = RowChange(mode="merge-on-read", on=ON, clauses=[update])
    with pytest.raises(RetryableError, match=r"other\.parquet was changed"):
        filled.run(how.partition("-")[0], "t", **parts)
    assert filled.rows("t") == rows
    assert filled.files_on_disk("t") == before


@pytest.mark.parametrize("job", ["append", "overwrite", "merge", "upsert"])
@pytest.mark.parametrize("how", ["rewritten", "replaced", "gone"])
def test_a_file_of_the_source_that_changes_while_it_is_read_is_not_committed(
    filled: Place, job: str, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = filled.folder / "s.parquet"
    source = filled.parquet(named(range(190, 210), "new"), "s.parquet")
    before, rows = filled.files_on_disk("t"), filled.rows("t")
    made = SourceState.__init__

    def then_changed(self: SourceState, *given: object) -> None:
        made(self, *given)  # type: ignore[arg-type]
        stat = path.stat()
        if how == "rewritten":
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns + 1))
        elif how == "replaced":
            pq.write_table(named(range(190, 210), "new"), filled.folder / "other.parquet")
            os.replace(filled.folder / "other.parquet", path)
            os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
        else:
            monkeypatch.setattr(SourceState, "check_unchanged", gone(SourceState.check_unchanged))

    def gone(check: object) -> object:
        def checked(self: SourceState) -> None:
            path.unlink()
            check(self)  # type: ignore[operator]

        return checked

    monkeypatch.setattr(SourceState, "__init__", then_changed)
    parts = {
        "upsert": {"options": {"upsert-keys": "id"}},
        "merge": {"change": RowChange(mode="merge-on-read", on=ON, clauses=UPSERT)},
    }
    with pytest.raises(RetryableError, match=r"s\.parquet was changed"):
        filled.run(job, "t", source=source, **parts.get(job, {}))
    assert filled.rows("t") == rows
    assert filled.files_on_disk("t") == before
