"""The error for a value that a statement cannot store names column, value and row; the error for a failed expression names its
column."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import CatalogConfig, JobSpec, MergeClause, RowChange, Source
from iceberg_ops.errors import DataError, OptionError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, LONG, STRING, UUID, ListType, NestedField, StructType
from spark_jobs.jobs.spark_errors import failing_expression, first_line
from tests.spark.conftest import Place

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("call_sites")]

POINT = StructType((NestedField(11, "x", INT), NestedField(12, "y", STRING)))
SCHEMA = Schema.of(
    NestedField(1, "id", LONG, required=True),
    NestedField(2, "n", INT),
    NestedField(3, "u", UUID),
    NestedField(4, "p", POINT),
    NestedField(5, "l", ListType(NestedField(13, "element", INT))),
)
HUGE = 3_000_000_000


def filled(place: Place, **properties: str) -> Place:
    place.create("t", SCHEMA, **properties)
    place.fill("t", pa.table({"id": range(5), "n": pa.array([1, 2, 0, 4, 5], pa.int32())}))
    return place


def refused(place: Place, says: str, job: str, **parts: Any) -> DataError:
    """The error of the job, after which the table and its files are what they were."""
    rows, files = place.rows("t"), place.files_on_disk("t")
    with pytest.raises(DataError, match=says) as failed:
        place.run(job, "t", **parts)
    assert place.rows("t") == rows
    assert place.files_on_disk("t") == files
    assert "\n" not in str(failed.value)
    return failed.value


VALUES = {
    "number out of range": ({"n": f"IF(id = 2, {HUGE}L, n)"}, rf"row 2: column 'n': {HUGE} does not fit int"),
    "no uuid": ({"u": "IF(id = 3, 'nope', NULL)"}, "row 3: column 'u': nope does not fit uuid"),
    "null in a required column": ({"id": "IF(id = 4, NULL, id)"}, "row 4: column 'id' is required and has no value"),
    "field of a struct": ({"p.x": f"IF(id = 1, {HUGE}L, 1L)"}, rf"row 1: column 'p\.x': {HUGE} does not fit int"),
    "element of a list": ({"l": f"array(1L, IF(id = 0, {HUGE}L, 2L))"}, rf"row 0: column 'l\.element': {HUGE} does not fit int"),
}


def test_values_of_update_that_do_not_fit_are_told_by_column_and_row(place: Place, mode: Any) -> None:
    filled(place)
    for assigned, says in VALUES.values():
        refused(place, rf"/data/[^ ]+\.parquet, {says}$", "update", change=RowChange(mode=mode, set=assigned))


def test_rows_that_spark_does_not_read_itself_are_told_by_their_file_too(place: Place) -> None:
    filled(place, write_format_default="avro")
    assigned, says = VALUES["number out of range"]
    refused(place, rf"/data/[^ ]+\.avro, {says}$", "update", change=RowChange(mode="copy-on-write", set=assigned))


def test_a_value_that_differs_each_time_is_checked_as_it_is_stored(place: Place) -> None:
    place.create("t", SCHEMA)
    place.fill("t", pa.table({"id": range(200)}))
    limit = 2**31
    change = RowChange(mode="merge-on-read", set={"n": f"CAST(rand() * 4 AS BIGINT) + {limit - 2}L"})
    error = refused(place, "does not fit int", "update", change=change)
    found = re.search(r"'n': (\d+) does not fit int", str(error))
    assert found is not None
    assert int(found[1]) >= limit


def merging(place: Place, ids: list[int], n: list[int], **clauses: dict[str, str] | None) -> dict[str, Any]:
    kinds = {"update": "matched", "insert": "not-matched"}
    made = [MergeClause(when=kinds[k], action=k, assignments=a) for k, a in clauses.items()]  # type: ignore[arg-type]
    source = place.parquet(pa.table({"id": ids, "n": pa.array(n, pa.int64())}))
    return {"source": source, "change": RowChange(mode="merge-on-read", on="target.id = source.id", clauses=made)}


def test_values_of_merge_that_do_not_fit_are_told_by_the_row_they_are_for(place: Place) -> None:
    filled(place)
    update, insert = {"n": "source.n"}, {"id": "source.id", "n": "source.n"}
    matched = merging(place, [1, 3, 9], [7, HUGE, 8], update=update, insert=insert)
    refused(place, rf"/data/[^ ]+\.parquet, row 3: column 'n': {HUGE} does not fit int$", "merge", **matched)
    new = merging(place, [1, 9], [7, HUGE], update=update, insert=insert)
    refused(place, rf"^source: column 'n': {HUGE} does not fit int: {{\"id\":9,\"n\":{HUGE}}}$", "merge", **new)
    none = merging(place, [9], [1], insert={"id": "NULL", "n": "source.n"})
    refused(place, "^source: column 'id' is required and has no value: ", "merge", **none)


def test_values_that_fit_after_all_are_stored(place: Place, mode: Any) -> None:
    filled(place)
    place.run("update", "t", change=RowChange(mode=mode, set={"n": "n + 1L", "p.x": "id"}), where="id < 2")
    wide = merging(place, [1, 9], [70, 90], update={"n": "source.n"}, insert={"id": "source.id", "n": "source.n"})
    place.run("merge", "t", **wide)
    assert {r["id"]: (r["n"], r["p"]) for r in place.rows("t")} == {
        0: (2, {"x": 0, "y": None}),
        1: (70, {"x": 1, "y": None}),
        2: (0, None),
        3: (4, None),
        4: (5, None),
        9: (90, None),
    }


EXPRESSIONS = {
    "division by zero": ({"n": "int(5 / n)", "id": "id + 1"}, r"SET n = 'int\(5 / n\)': \[DIVIDE_BY_ZERO\]"),
    "cast": ({"n": "CAST(concat('x', id) AS INT)"}, r"SET n = \"CAST\(concat\('x', id\) AS INT\)\": \[CAST_INVALID_INPUT\]"),
    "overflow": ({"n": "n + 2147483647", "u": "NULL"}, r"SET n = 'n \+ 2147483647': \[ARITHMETIC_OVERFLOW\]"),
}


def test_an_expression_that_fails_is_told_by_its_column(place: Place) -> None:
    filled(place)
    for assigned, says in EXPRESSIONS.values():
        error = refused(place, rf"^update test\.db\.t: {says}", "update", change=RowChange(mode="merge-on-read", set=assigned))
        assert "== SQL" not in str(error), "the text stands there once"


CATALOG = CatalogConfig(name="c", type="memory")
QUOTED = "[DIVIDE_BY_ZERO] Division by zero.\n== SQL (line 1, position 1) ==\n5 /  n\n^^^^^\n"
UNQUOTED = '[ARITHMETIC_OVERFLOW] long overflow.\n== DataFrame ==\n"cast" was called from\n'
BLAMED = {
    "quoted": (QUOTED, {"a": "n + 1", "b": "5 / n"}, None, None, "SET b = '5 / n'"),
    "the only one": (UNQUOTED, {"a": "n + 1", "b": "'5'", "c": "other"}, None, None, "SET a = 'n + 1'"),
    "one of several": (UNQUOTED, {"a": "n + 1"}, "n / 2 > 1", None, "one of WHERE 'n / 2 > 1'; SET a = 'n + 1'"),
    "a source query": (UNQUOTED, {"a": "q"}, None, Source(format="sql", query="SELECT 1/0"), "source query 'SELECT 1/0'"),
    "none": (UNQUOTED, {"a": "q"}, None, None, ""),
}


@pytest.mark.parametrize(("text", "assigned", "where", "source", "expected"), BLAMED.values(), ids=BLAMED.keys())
def test_the_expression_to_blame_is_never_guessed(
    text: str, assigned: dict[str, str], where: str | None, source: Source | None, expected: str
) -> None:
    job = JobSpec(job="update", table="c.db.t", catalog=CATALOG, where=where, source=source, change=RowChange(set=assigned))
    assert failing_expression(job, text) == expected


def test_columns_that_a_source_has_no_type_for_are_stored_as_null(place: Place) -> None:
    filled(place)
    columns = "NULL AS n, NULL AS u, NULL AS p, NULL AS l"
    clauses = [MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert")]
    change = RowChange(mode="merge-on-read", on="target.id = source.id", clauses=clauses)
    query = f"SELECT id, {columns} FROM VALUES (1L), (9L) AS t(id)"
    place.run("merge", "t", source=Source(format="sql", query=query), change=change)
    assert {r["id"]: r["n"] for r in place.rows("t")} == {0: 1, 1: None, 2: 0, 3: 4, 4: 5, 9: None}
    query = f"SELECT id, {columns}, X'ff' AS b, make_ym_interval(1, 2) AS i FROM VALUES (1L), (CAST(NULL AS BIGINT)) AS t(id)"
    refused(place, "^source: column 'id' is required", "merge", source=Source(format="sql", query=query), change=change)


def test_an_error_of_a_query_is_said_without_spark_s_plan(place: Place) -> None:
    filled(place)
    with pytest.raises(OptionError, match=r"UNRESOLVED_COLUMN.* `nope` ") as failed:
        place.run("append", "t", source=Source(format="sql", query="SELECT nope FROM VALUES (1L) AS t(id)"))
    said = str(failed.value)
    assert ("Project" in said, "\n" in said) == (False, False), said
    assert first_line("[A] no; line 1 pos 7;\n'Project ['nope]\n+- OneRowRelation\n") == "[A] no; line 1 pos 7"
