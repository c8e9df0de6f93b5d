"""Row operations change exactly the rows that SQL defines, in both modes, on v2 and v3 tables, and leave no file behind when they
fail."""

from __future__ import annotations

from collections import Counter
from datetime import date
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import DataError, OptionError, SchemaError, WhereError
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import MONTH
from iceberg_ops.spec.types import DATE, DOUBLE, LONG, STRING, NestedField
from tests.spark.conftest import Place

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

SCHEMA = Schema.of(
    NestedField(1, "id", LONG, required=True),
    NestedField(2, "city", STRING),
    NestedField(3, "day", DATE),
    NestedField(4, "amount", DOUBLE),
)
BY_MONTH = PartitionSpec(1, (PartitionField((3,), 1000, MONTH, "day_month"),))
ROWS: list[dict[str, Any]] = [
    {"id": i, "city": ["Oslo", "Rome", None][i % 3], "day": date(2024, 1 + i % 3, 1 + i), "amount": i * 1.5 if i % 4 else None}
    for i in range(12)
]


def table_of(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(
        rows, pa.schema([("id", pa.int64()), ("city", pa.string()), ("day", pa.date32()), ("amount", pa.float64())])
    )


@pytest.fixture(params=["unpartitioned", "by-month"])
def empty(place: Place, version: str, request: pytest.FixtureRequest) -> Place:
    spec = BY_MONTH if request.param == "by-month" else UNPARTITIONED
    place.create("t", SCHEMA, spec, **{"format__version": version})
    return place


@pytest.fixture
def filled(empty: Place) -> Place:
    empty.fill("t", table_of(ROWS[:7]))
    empty.fill("t", table_of(ROWS[7:]))
    return empty


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda r: r["id"])


def test_append_adds_the_rows_and_reports_them(empty: Place) -> None:
    empty.append("t", table_of(ROWS[:7]))
    empty.append("t", table_of(ROWS[7:]))
    assert by_id(empty.rows("t")) == ROWS


def test_append_twice_with_one_run_key_leaves_one_copy(place: Place) -> None:
    place.create("t", SCHEMA)
    first = place.append("t", table_of(ROWS), run_key="day-1")
    second = place.append("t", table_of(ROWS), run_key="day-1")
    assert (first.status, second.status) == ("committed", "already-committed")
    assert second.snapshot_ids == first.snapshot_ids
    assert by_id(place.rows("t")) == ROWS


def test_delete_removes_matching_rows_and_keeps_nulls(filled: Place, mode: str) -> None:
    report = filled.run("delete", "t", where="city <> 'Oslo' AND amount > 3", change=RowChange(mode=mode))
    expected = [r for r in ROWS if not (r["city"] not in ("Oslo", None) and r["amount"] is not None and r["amount"] > 3)]
    assert by_id(filled.rows("t")) == expected
    assert report.metrics["deleted-records"] == len(ROWS) - len(expected)


def test_deleting_again_what_is_gone_changes_nothing(filled: Place, mode: str) -> None:
    filled.run("delete", "t", where="id in (1, 8)", change=RowChange(mode=mode))
    again = filled.run("delete", "t", where="id in (1, 8)", change=RowChange(mode=mode))
    assert again.status == "nothing-to-do"


def test_deletes_pile_up_on_one_file(filled: Place, mode: str) -> None:
    for i in (0, 3, 6, 9):
        filled.run("delete", "t", where=f"id = {i}", change=RowChange(mode=mode))
    assert [r["id"] for r in by_id(filled.rows("t"))] == [1, 2, 4, 5, 7, 8, 10, 11]


def test_a_condition_this_package_can_not_read_is_still_evaluated_by_spark(filled: Place, mode: str) -> None:
    filled.run("delete", "t", where="length(city) = 4 AND id % 2 = 0", change=RowChange(mode=mode))
    assert by_id(filled.rows("t")) == [r for r in ROWS if not (r["city"] and r["id"] % 2 == 0)]


def test_update_changes_only_matching_rows(filled: Place, mode: str) -> None:
    change = RowChange(mode=mode, set={"amount": "coalesce(amount, 0) + 100", "city": "upper(city)"})
    filled.run("update", "t", where="day < DATE '2024-02-01'", change=change)
    expected = [
        {**r, "amount": (r["amount"] or 0) + 100, "city": r["city"] and r["city"].upper()} if r["day"] < date(2024, 2, 1) else r
        for r in ROWS
    ]
    assert by_id(filled.rows("t")) == expected


def test_update_can_move_a_row_to_another_partition(filled: Place, mode: str) -> None:
    filled.run("update", "t", where="id = 4", change=RowChange(mode=mode, set={"day": "DATE '2030-12-31'"}))
    assert [r for r in filled.rows("t") if r["id"] == 4] == [{**ROWS[4], "day": date(2030, 12, 31)}]
    assert len(filled.rows("t")) == len(ROWS)


def test_copy_on_write_leaves_no_more_files_in_a_partition_than_it_found(filled: Place) -> None:
    def files() -> dict[tuple[Any, ...], int]:
        return dict(Counter(task.data_file.partition for task in plan(filled.table("t"), Scan()).tasks))

    before = files()
    filled.run("update", "t", where="id IN (1, 2, 8)", change=RowChange(mode="copy-on-write", set={"amount": "amount + 1"}))
    assert files() == before
    changed = [{**r, "amount": r["amount"] + 1} if r["id"] in (1, 2, 8) and r["amount"] is not None else r for r in ROWS]
    assert by_id(filled.rows("t")) == changed


CLAUSES = [
    MergeClause(when="matched", action="delete", condition="source.amount < 0"),
    MergeClause(when="matched", action="update", assignments={"amount": "target.amount + source.amount"}),
    MergeClause(when="not-matched", action="insert", condition="source.id < 100"),
]


def test_merge_takes_the_first_clause_that_fits(filled: Place, mode: str) -> None:
    source = table_of(
        [
            {"id": 1, "city": "x", "day": date(2024, 5, 5), "amount": -1.0},
            {"id": 2, "city": "x", "day": date(2024, 5, 5), "amount": 10.0},
            {"id": 50, "city": "new", "day": date(2024, 5, 5), "amount": 5.0},
            {"id": 500, "city": "too high", "day": date(2024, 5, 5), "amount": 5.0},
        ]
    )
    report = filled.merge("t", filled.parquet(source), "target.id = source.id", CLAUSES, mode)
    expected = [{**r, "amount": r["amount"] + 10} if r["id"] == 2 else r for r in ROWS if r["id"] != 1]
    expected.append({"id": 50, "city": "new", "day": date(2024, 5, 5), "amount": 5.0})
    assert by_id(filled.rows("t")) == expected
    assert report.metrics["deleted-records"] == 2
    assert report.metrics["added-records"] == 2


def test_merge_by_source_reaches_rows_the_source_does_not_have(filled: Place, mode: str) -> None:
    source = table_of([ROWS[i] for i in range(6)])
    clauses = [MergeClause(when="not-matched-by-source", action="delete", condition="target.id > 9")]
    filled.merge("t", filled.parquet(source), "target.id = source.id", clauses, mode)
    assert by_id(filled.rows("t")) == [r for r in ROWS if r["id"] <= 9]


def test_two_source_rows_for_one_target_row_are_an_error_and_leave_nothing(filled: Place, mode: str) -> None:
    source = table_of([{**ROWS[1], "amount": 1.0}, {**ROWS[1], "amount": 2.0}])
    before = filled.files_on_disk("t")
    with pytest.raises(DataError, match="matched by one source row"):
        filled.merge("t", filled.parquet(source), "target.id = source.id", CLAUSES, mode)
    assert filled.files_on_disk("t") == before
    assert by_id(filled.rows("t")) == ROWS


def test_earlier_snapshots_still_show_what_they_showed(filled: Place, mode: str) -> None:
    head = filled.table("t").metadata.current_snapshot_id
    filled.run("delete", "t", where="id < 6", change=RowChange(mode=mode))
    assert by_id(filled.rows("t", Scan(snapshot_id=head))) == ROWS


def test_whole_partitions_are_deleted_by_metadata(place: Place, version: str) -> None:
    place.create("t", SCHEMA, BY_MONTH, **{"format__version": version})
    place.fill("t", table_of(ROWS))
    report = place.run("delete", "t", where="day >= DATE '2024-02-01' AND day < DATE '2024-03-01'")
    assert report.metrics.get("metadata-only") == 1
    assert by_id(place.rows("t")) == [r for r in ROWS if r["day"].month != 2]


def test_overwrite_replaces_the_partitions_it_brings(place: Place) -> None:
    place.create("t", SCHEMA, BY_MONTH)
    place.fill("t", table_of(ROWS))
    new = [{"id": 77, "city": "n", "day": date(2024, 2, 9), "amount": 0.0}]
    place.run("overwrite", "t", source=place.parquet(table_of(new)))
    assert by_id(place.rows("t")) == [*[r for r in ROWS if r["day"].month != 2], *new]


def test_overwrite_by_filter_replaces_what_matches(place: Place) -> None:
    place.create("t", SCHEMA, BY_MONTH)
    place.fill("t", table_of(ROWS))
    new = [{"id": 77, "city": "n", "day": date(2024, 1, 9), "amount": 0.0}]
    place.run("overwrite", "t", where="day < DATE '2024-02-01'", source=place.parquet(table_of(new)))
    assert by_id(place.rows("t")) == by_id([*[r for r in ROWS if r["day"].month != 1], *new])


@pytest.mark.parametrize(
    ("job", "parts", "error", "says"),
    [
        ("delete", {}, OptionError, "needs a WHERE"),
        ("delete", {"where": "nope = 1"}, WhereError, "nope"),
        ("delete", {"where": "id = = 1"}, WhereError, "id = = 1"),
        ("delete", {"where": "rand() > 0.5"}, WhereError, "not deterministic"),
        ("update", {"change": RowChange()}, OptionError, "SET"),
        ("update", {"change": RowChange(set={"nope": "1"})}, OptionError, "nope"),
        ("update", {"change": RowChange(set={"id": "'x' || city"})}, SchemaError, "'id'"),
        ("update", {"change": RowChange(set={"id": "CAST(NULL AS BIGINT)"})}, DataError, "id"),
        ("append", {}, OptionError, "source"),
        ("append", {"source": Source(format="parquet", paths=["/no/such/file"])}, DataError, "/no/such/file"),
        ("append", {"source": Source(format="sql", query="SELECT 1 AS id, 2 AS nope")}, SchemaError, "nope"),
        ("append", {"source": Source(format="sql", query="SELECT 'a' AS city")}, SchemaError, "required column 'id'"),
        ("append", {"source": Source(format="sql", query="SELEC 1")}, OptionError, "parse"),
        ("append", {"source": Source(format="sql", query="SELECT 1 AS id"), "options": {"nope": "1"}}, OptionError, "nope"),
        ("merge", {"source": Source(format="sql", query="SELECT 1 AS id")}, OptionError, "ON"),
    ],
    ids=lambda v: v if isinstance(v, str) else None,
)
def test_bad_input_is_one_line_and_changes_nothing(place: Place, job: str, parts: dict[str, Any], error: type, says: str) -> None:
    place.create("t", SCHEMA)
    place.fill("t", table_of(ROWS))
    before = place.files_on_disk("t")
    with pytest.raises(error, match=says) as caught:
        place.run(job, "t", **parts)
    assert "\n" not in str(caught.value)
    assert place.files_on_disk("t") == before
    assert by_id(place.rows("t")) == ROWS


def row_ids(place: Place) -> dict[int, tuple[int, int]]:
    columns = ["id", "_row_id", "_last_updated_sequence_number"]
    rows = scan_table(place.table("t"), columns=columns).to_pylist()
    return {r["id"]: (r["_row_id"], r["_last_updated_sequence_number"]) for r in rows}


def test_rows_that_copy_on_write_only_moves_keep_their_row_ids(place: Place) -> None:
    place.create("t", SCHEMA, **{"format__version": "3"})
    place.fill("t", table_of(ROWS))
    before = row_ids(place)
    place.run("update", "t", where="id = 3", change=RowChange(mode="copy-on-write", set={"amount": "0.0"}))
    place.run("delete", "t", where="id = 4", change=RowChange(mode="copy-on-write"))
    after = row_ids(place)
    assert {i: ids for i, ids in after.items() if i != 3} == {i: ids for i, ids in before.items() if i not in (3, 4)}
    assert len({row_id for row_id, _ in after.values()}) == len(ROWS) - 1


def test_a_dry_run_plans_and_leaves_everything_as_it_is(filled: Place) -> None:
    rows, files = filled.rows("t"), filled.files_on_disk("t")
    for job, parts in {
        "delete": {"where": "id > 3 AND length(city) > 1"},
        "update": {"change": RowChange(set={"amount": "amount + 1"})},
        "append": {"source": Source(format="sql", query="SELECT 99L AS id")},
    }.items():
        report = filled.run(job, "t", dry_run=True, **parts)
        assert (report.dry_run, report.status, report.snapshot_ids) == (True, "planned", [])
    assert (filled.rows("t"), filled.files_on_disk("t")) == (rows, files)
