"""Jobs in a session that a program also uses for itself: neither sees the other's settings and views."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark import RDD
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange, Source
from iceberg_ops.errors import DataError, IcebergOpsError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DATE, LONG, STRING, TIMESTAMPTZ, NestedField
from spark_jobs.jobs import row_change, sql_tables
from spark_jobs.jobs.dispatch import run
from spark_jobs.session import job_session
from tests.spark.conftest import Place

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

SCHEMA = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "name", STRING))
TIMED = Schema.of(*SCHEMA.fields, NestedField(3, "at", TIMESTAMPTZ), NestedField(4, "day", DATE))


def named(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "name": [f"n{i}" for i in ids]})


def ids(place: Place, name: str = "t") -> list[int]:
    return [r["id"] for r in place.rows(name)]


@pytest.fixture
def own(place: Place) -> Iterator[Place]:
    """A place whose session the test may bend as it likes."""
    made = place.session.newSession()
    yield replace(place, session=made)
    place.session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(place.session._jsparkSession)  # type: ignore[union-attr]
    SparkSession._activeSession = place.session


# Two jobs


def test_two_jobs_of_one_session_each_see_their_own_target(own: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both conditions have named their table before either is evaluated."""
    for name, kept in (("a", (1, 2, 3)), ("b", (7, 8, 9))):
        own.create(name, SCHEMA)
        own.fill(name, named(*kept))
    both = threading.Barrier(2, timeout=120)
    apply = row_change.StatementRows.changes

    def together(self: row_change.StatementRows, *given: Any, **named_: Any) -> Any:
        both.wait()
        return apply(self, *given, **named_)

    monkeypatch.setattr(row_change.StatementRows, "changes", together)
    failures: list[BaseException] = []

    def delete(name: str) -> None:
        try:
            own.run("delete", name, where="id = (SELECT max(id) FROM target)", change=RowChange(mode="merge-on-read"))
        except BaseException as e:  # noqa: BLE001 - shown by the test's own thread
            failures.append(e)

    threads = [threading.Thread(target=delete, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert (ids(own, "a"), ids(own, "b")) == ([1, 2], [7, 8])


def test_a_program_that_evaluates_while_a_job_runs_sees_its_own_view(own: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    own.create("t", SCHEMA)
    own.fill("t", named(1, 2, 3))
    own.session.range(40, 42).createOrReplaceTempView("target")
    seen: list[int] = []
    made = sql_tables.SqlTables._made

    def looked(self: Any, *given: Any) -> Any:
        found = made(self, *given)
        thread = threading.Thread(target=lambda: seen.append(own.session.table("target").count()))
        thread.start()
        thread.join()
        return found

    monkeypatch.setattr(sql_tables.SqlTables, "_made", looked)
    own.run("delete", "t", where="id = (SELECT max(id) FROM target)")
    assert (ids(own), set(seen)) == ([1, 2], {2})


# What belongs to the program


def test_views_functions_database_and_settings_of_the_program_stay(own: Place) -> None:
    session = own.session
    own.create("t", SCHEMA)
    own.append("t", named(1, 2, 3))
    for view in ("target", "source", "mine"):
        session.range(5).createOrReplaceTempView(view)
    session.udf.register("shout", lambda text: text.upper(), "string")
    session.sql("CREATE DATABASE IF NOT EXISTS of_the_program")
    session.catalog.setCurrentDatabase("of_the_program")
    session.conf.set("spark.sql.ansi.enabled", "false")
    session.conf.set("spark.sql.shuffle.partitions", "7")
    session.conf.unset("spark.sql.sources.parallelPartitionDiscovery.threshold")
    before = state(session)
    own.run("delete", "t", where="id = (SELECT min(id) FROM target)")
    own.append("t", named(4))
    query = "SELECT f.id, shout(f.name) AS name FROM mine, f WHERE mine.id = f.id"
    source = Source(format="sql", query=query, views={"f": files(own)})
    clauses = [MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")]
    own.merge("t", source, "target.id = source.id", clauses, "merge-on-read")
    with pytest.raises(IcebergOpsError):
        own.run("update", "t", where="nope = 1", change=RowChange(set={"name": "'x'"}))
    assert [tuple(r.values()) for r in own.rows("t")] == [(2, "N2"), (3, "n3"), (4, "N4")]
    assert state(session) == before
    assert session.table("target").count() == session.table("source").count() == 5


def files(place: Place) -> str:
    return place.parquet(named(2, 4), "files.parquet").paths[0]


def state(session: SparkSession) -> dict[str, Any]:
    catalog = session.catalog
    return {
        "views": sorted((t.name, t.isTemporary) for t in catalog.listTables()),
        "functions": sorted(f.name for f in catalog.listFunctions() if f.className is None or "expressions" not in f.className),
        "database": catalog.currentDatabase(),
        "catalog": catalog.currentCatalog(),
        "settings": session.conf.getAll,
        "active": session._jvm.org.apache.spark.sql.classic.SparkSession.getActiveSession().get().hashCode(),  # type: ignore[union-attr]
        "active here": id(SparkSession._activeSession),
        "to frame": RDD.toDF,
        "tags": len(session.sparkContext.getJobTags()),
        "group": session.sparkContext.getLocalProperty("spark.jobGroup.id"),
    }


def test_a_data_frame_that_the_program_makes_after_a_job_is_of_its_own_session(own: Place) -> None:
    own.create("t", SCHEMA)
    own.fill("t", named(1, 2))
    own.session.createDataFrame([(1,)], "n int").collect()
    own.run("delete", "t", where="id = 1")
    rows = own.session.sparkContext.parallelize([(1,)])
    assert SparkSession.getActiveSession() is own.session
    assert own.session.createDataFrame(rows, "n int").sparkSession is own.session


def test_a_job_has_the_current_database_and_catalog_of_the_session(own: Place) -> None:
    own.session.sql("CREATE DATABASE IF NOT EXISTS of_the_program")
    own.session.catalog.setCurrentDatabase("of_the_program")
    with job_session(own.session) as made:
        assert made.catalog.currentDatabase() == "of_the_program"
        assert made.catalog.currentCatalog() == own.session.catalog.currentCatalog()


def test_a_job_keeps_what_the_session_says_about_speed(own: Place) -> None:
    own.session.conf.set("spark.sql.shuffle.partitions", "7")
    own.session.conf.set("spark.sql.adaptive.enabled", "false")
    own.session.conf.set("spark.sql.catalog.mine.uri", "x")
    own.session.conf.set("spark.other.setting", "y")
    with job_session(own.session) as made:
        kept = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.enabled", "spark.sql.catalog.mine.uri", "spark.other.setting")
        assert [made.conf.get(key) for key in kept] == ["7", "false", "x", "y"]


def test_a_user_function_with_the_name_of_a_built_in_one_is_not_called_by_jobs(own: Place) -> None:
    own.create("t", SCHEMA)
    own.fill("t", named(1, 2, 3))
    for name in ("crc32", "coalesce", "struct", "isnotnull", "upper", "concat", "try_cast"):
        own.session.udf.register(name, lambda *_: 5, "long")
    own.session.udf.register("mine", lambda text: text + "!", "string")
    own.run("delete", "t", where="upper(name) = 'N1'", change=RowChange(mode="merge-on-read"))
    own.run("update", "t", where="id = 2", change=RowChange(set={"name": "concat(mine(name), coalesce(NULL, '?'))"}))
    assert [tuple(r.values()) for r in own.rows("t")] == [(2, "n2!?"), (3, "n3")]
    assert own.session.sql("SELECT upper('a') AS u").first() == (5,)


def test_a_table_function_with_the_name_of_a_built_in_one_is_not_called_by_jobs(own: Place) -> None:
    class Own:
        def eval(self, *_: int) -> Iterator[tuple[int]]:
            yield (777,)

    own.create("t", SCHEMA)
    for name in ("range", "explode", "mine"):
        own.session.udtf.register(name, F.udtf(Own, returnType="id long"))
    query = (
        "SELECT id, 'a' AS name FROM range(2) UNION ALL SELECT *, 'b' FROM explode(array(5L)) UNION ALL SELECT *, 'c' FROM mine(1)"
    )
    own.run("append", "t", source=Source(format="sql", query=query))
    assert [r["id"] for r in own.rows("t")] == [0, 1, 5, 777]
    assert own.session.sql("SELECT * FROM range(2)").first() == (777,)


# What settings of the session could change

ODD = {
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.sources.useV1SourceList": "",
    "spark.sql.ansi.enabled": "false",
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "Pacific/Auckland",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.variable.substitute": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.setopsPrecedence.enabled": "true",
    "spark.sql.legacy.bangEqualsNot": "true",
    "spark.sql.legacy.nullInEmptyListBehavior": "true",
    "spark.sql.legacy.inSubqueryNullability": "true",
    "spark.sql.legacy.castComplexTypesToString.enabled": "true",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.legacy.parseQueryWithoutEof": "true",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.int96AsTimestamp": "false",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.parquet.filterPushdown": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.columnNameOfCorruptRecord": "name",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.csv.parser.columnPruning.enabled": "false",
    "spark.sql.json.enablePartialResults": "false",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.execution.arrow.useLargeVarTypes": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    "spark.sql.execution.arrow.pyspark.enabled": "false",
}  # fmt: skip
NAMES = ["a\\b", "a\\\\b", "x", "2020-1-1", "${env:HOME}", "k", "K", "!", "1", "tab\t", None]


@pytest.mark.parametrize("settings", [{}, ODD, *({k: ODD[k]} for k in list(ODD)[:8])], ids=lambda s: ", ".join(s)[-40:] or "none")
def test_settings_of_the_session_do_not_change_what_statements_and_sources_mean(own: Place, settings: dict[str, str]) -> None:
    for key, value in settings.items():
        own.session.conf.set(key, value)
    own.create("t", TIMED)
    count = len(NAMES)
    at = pa.array([1_577_836_800_000_000 + i * 3_600_000_000 for i in range(count)], pa.timestamp("us", "UTC"))
    days = pa.array([18262] * count, pa.date32())
    own.fill("t", pa.table({"id": pa.array(range(count), pa.int64()), "name": NAMES, "at": at, "day": days}))
    statements(own)
    assert [(r["id"], r["name"]) for r in own.rows("t")] == [
        (2, "x!"), (3, "2020-1-1"), (6, "K"), (9, "tab\t"), (10, None), (20, "csv"), (21, "json"), (22, "1"), (23, "sql"),
    ]  # fmt: skip
    assert {key: own.session.conf.get(key) for key in settings} == settings


def statements(own: Place) -> None:
    def delete(where: str) -> None:
        own.run("delete", "t", where=where, change=RowChange(mode="merge-on-read"))

    delete(r"name = 'a\\b'")
    delete(r"name LIKE 'a\\\\\\\\b'")
    delete("NAME = 'k'")
    delete("name = '${env:HOME}'")
    delete("name = '!' AND NOT (id IN (SELECT 1 FROM target WHERE false))")
    delete("at = TIMESTAMP '2020-01-01 08:00:00' AND name = \"1\"")
    own.run("update", "t", where='name = "x" AND DATE(at) = day AND hour(at) = 2', change=RowChange(set={"Name": "\"x\" || '!'"}))
    with pytest.raises(DataError):
        delete("CAST(name AS INT) = 5")
    with pytest.raises(DataError):
        delete("to_date(name, 'yyyy-MM-dd') = DATE '2020-01-01'")
    (own.folder / "s.csv").write_text("id,name\n20,csv\n")
    (own.folder / "s.json").write_text('{"id": 21, "name": "json"}\n')
    own.run("append", "t", source=Source(format="csv", paths=[str(own.folder / "s.csv")], options={"header": "true"}))
    own.run("append", "t", source=Source(format="json", paths=[str(own.folder / "s.json")]))
    rows = "SELECT id, CAST(count(*) AS STRING) AS name FROM (SELECT 22L AS id UNION SELECT 2 INTERSECT SELECT 1) GROUP BY 1"
    own.run("append", "t", source=Source(format="sql", query=rows))
    with pytest.raises(DataError, match=r"broken\.parquet|FAILED_READ"):
        own.run("append", "t", source=Source(format="parquet", paths=[broken(own)]))
    file = own.parquet(pa.table({"id": [23], "name": [b"sql"]}), "bytes.parquet").paths[0]
    own.run("append", "t", source=Source(format="sql", query=f"SELECT id, decode(name, 'utf-8') AS name FROM parquet.`{file}`"))


def broken(own: Place) -> str:
    path = own.folder / "broken.parquet"
    path.write_bytes(b"PAR1 is how it begins, and no more")
    return str(path)


def test_a_name_for_a_view_that_is_the_target_s_is_refused(own: Place) -> None:
    own.create("t", SCHEMA)
    source = Source(format="sql", query="SELECT * FROM target", views={"target": files(own)})
    with pytest.raises(IcebergOpsError, match="target"):
        run(own.session, JobSpec(job="append", table="test.db.t", catalog=own.config, source=source))
