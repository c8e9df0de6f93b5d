"""Append and overwrite accept rows from any source, refuse or divert rows that do not fit, and leave no file behind when they
fail."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import DataError, OptionError, SchemaError
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import DAY, IDENTITY, Transform, truncate
from iceberg_ops.spec.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, IcebergType, NestedField, StructType
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

SCHEMA = Schema.of(
    NestedField(1, "id", INT, required=True),
    NestedField(2, "city", STRING),
    NestedField(3, "day", DATE),
    NestedField(4, "amount", DOUBLE),
)
BY_CITY = PartitionSpec(1, (PartitionField((2,), 1000, IDENTITY, "city"),))
BY_ID = SortOrder(1, (SortField((1,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST),))
ROWS: list[dict[str, Any]] = [
    {"id": 1, "city": "Oslo", "day": date(2024, 1, 2), "amount": 1.5},
    {"id": 2, "city": None, "day": None, "amount": None},
    {"id": 3, "city": "Rome", "day": date(2024, 5, 6), "amount": -2.0},
]
CSV = "id,city,day,amount\n1,Oslo,2024-01-02,1.5\n2,,,\n3,Rome,2024-05-06,-2.0\n"
JSON = "\n".join(json.dumps({k: v.isoformat() if isinstance(v, date) else v for k, v in r.items() if v is not None}) for r in ROWS)


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda r: r["id"])


def arrow(rows: list[dict[str, Any]], **types: pa.DataType) -> pa.Table:
    wanted = {"id": pa.int32(), "city": pa.string(), "day": pa.date32(), "amount": pa.float64()} | types
    return pa.Table.from_pylist(rows, pa.schema(list(wanted.items())))


def text(place: Place, form: str, content: str, name: str = "in.txt", **options: str) -> Source:
    (place.folder / name).write_text(content)
    return Source(format=form, paths=[str(place.folder / name)], options=options)  # type: ignore[arg-type]


@pytest.mark.parametrize("form", ["parquet", "csv", "csv-by-position", "json", "sql", "sql-of-target", "table"])
def test_every_kind_of_source_gives_the_same_rows(place: Place, form: str) -> None:
    place.create("t", SCHEMA)
    if form == "parquet":
        source = place.parquet(arrow(ROWS))
    elif form == "csv":
        source = text(place, "csv", CSV, header="true")
    elif form == "csv-by-position":
        source = text(place, "csv", CSV.partition("\n")[2], header="false")
    elif form == "json":
        source = text(place, "json", JSON)
    elif form == "sql":
        view = place.parquet(arrow(ROWS)).paths[0]
        source = Source(format="sql", query="SELECT amount, id, city, day FROM v", views={"v": view})
    else:
        place.create("other", SCHEMA)
        place.fill("other", arrow(ROWS))
        source = Source(format="table", table="test.db.other")
    if form == "sql-of-target":
        place.fill("t", arrow([{**r, "id": r["id"] - 100} for r in ROWS]))
        source = Source(format="sql", query="SELECT id + 100 AS id, city, day, amount FROM target")
    report = place.run("append", "t", source=source)
    assert (report.status, report.metrics["added-records"]) == ("committed", 3)
    assert by_id([r for r in place.rows("t") if r["id"] > 0]) == ROWS


def test_a_source_table_is_read_at_the_snapshot_and_with_the_deletes_asked_for(place: Place) -> None:
    for name in ("t", "other"):
        place.create(name, SCHEMA)
    first = place.append("other", arrow(ROWS)).snapshot_ids[0]
    place.run("delete", "other", where="id = 2")
    place.run("append", "t", source=Source(format="table", table="test.db.other", snapshot_id=first), run_key="old")
    place.run("append", "t", source=Source(format="table", table="test.db.other"), run_key="new")
    assert sorted(r["id"] for r in place.rows("t")) == [1, 1, 2, 3, 3]


BAD_CSV = CSV + "x,Bonn,2024-01-01,1\n,Kiel,2024-01-01,1\n5,Ulm,2024-13-01,1\n"


@pytest.mark.parametrize(
    ("form", "content", "options", "says"),
    [
        ("csv", BAD_CSV, {"header": "true"}, "column 'id': 'x' is not a valid int: x,Bonn"),
        ("json", JSON + '\n{"id": "no", "city": "Bonn"}', {}, "column 'id': 'no' is not a valid int"),
        ("json", JSON + '\n{"id": 9, "city": "Bo', {}, "is not JSON: Unterminated string"),
        ("json", JSON + '\n{"city": "Bonn"}', {}, "'id' is required"),
    ],
)
def test_a_bad_record_fails_the_job_by_file_and_record(
    place: Place, form: str, content: str, options: dict[str, str], says: str
) -> None:
    place.create("t", SCHEMA, BY_CITY)
    with pytest.raises(DataError, match=says) as failed:
        place.run("append", "t", source=text(place, form, content, **options))
    assert "in.txt" in str(failed.value)
    assert place.rows("t") == []
    assert not [f for f in place.files_on_disk("t") if f.startswith("data/")]


def test_a_bad_parquet_row_is_named_by_row_number(place: Place) -> None:
    place.create("t", SCHEMA)
    rows = arrow([*ROWS, {"id": 2**40, "city": "far", "day": None, "amount": None}], id=pa.int64())
    with pytest.raises(DataError, match=r"source\.parquet, row 3: column 'id': 1099511627776 does not fit int"):
        place.run("append", "t", source=place.parquet(rows))


def test_bad_records_are_diverted_with_their_reasons_and_counted(place: Place) -> None:
    place.create("t", SCHEMA, BY_CITY)
    quarantine = place.folder / "quarantine"
    report = place.run(
        "append",
        "t",
        source=text(place, "csv", BAD_CSV, header="true"),
        options={"bad-records": "quarantine", "quarantine-path": str(quarantine)},
    )
    assert by_id(place.rows("t")) == ROWS
    assert (report.metrics["added-records"], report.metrics["quarantined-records"]) == (3, 3)
    files = [p for p in quarantine.rglob("*") if p.is_file()]
    assert [f.file_path for f in report.failures] == [str(p) for p in files]
    diverted = [json.loads(line) for p in files for line in p.read_text().splitlines()]
    assert sorted(r["record"] for r in diverted) == [
        "5,Ulm,2024-13-01,1", "x,Bonn,2024-01-01,1", '{"city":"Kiel","day":"2024-01-01","amount":1.0}'
    ]  # fmt: skip
    assert {r["reason"] for r in diverted} == {
        "column 'id': 'x' is not a valid int",
        "column 'day': '2024-13-01' is not a valid date",
        "column 'id' is required and has no value",
    }
    assert all(r["file"].endswith("in.txt") for r in diverted)


def test_a_run_repeated_under_its_key_diverts_nothing_twice(place: Place) -> None:
    place.create("t", SCHEMA)
    parts: dict[str, Any] = {
        "source": text(place, "csv", BAD_CSV, header="true"),
        "options": {"bad-records": "quarantine", "quarantine-path": str(place.folder / "quarantine")},
        "run_key": "day-1",
    }
    assert place.run("append", "t", **parts).status == "committed"
    assert place.run("append", "t", **parts).status == "already-committed"
    assert len([p for p in (place.folder / "quarantine").rglob("*") if p.is_file()]) == 1
    assert len(place.rows("t")) == 3


def test_merge_schema_commits_columns_and_rows_at_once(place: Place, version: str) -> None:
    place.create("t", SCHEMA, BY_CITY, **{"format__version": version})
    place.fill("t", arrow(ROWS))
    before = len(place.table("t").metadata.snapshots)
    place_type = {"lat": pa.float64(), "lon": pa.float64()}
    wide = pa.Table.from_pylist(
        [{"ID": 2**40, "city": "Bonn", "note": "new", "at": {"lat": 1.0, "lon": 2.0}}],
        pa.schema({"ID": pa.int64(), "city": pa.string(), "note": pa.string(), "at": pa.struct(place_type)}),
    )  # fmt: skip
    with pytest.raises(SchemaError, match="'note' is not a column"):
        place.run("append", "t", source=place.parquet(wide))
    report = place.run("append", "t", source=place.parquet(wide), options={"merge-schema": "true"}, run_key="k")
    table = place.table("t")
    assert report.metrics["added-columns"] == 4
    assert [f.name for f in table.schema.fields] == ["id", "city", "day", "amount", "note", "at"]
    assert table.schema.find("id").type == LONG  # type: ignore[union-attr]
    assert len(table.metadata.snapshots) == before + 1
    head = table.metadata.branch_head("main")
    assert head is not None
    assert head.schema_id == table.metadata.current_schema_id
    found = {r["id"]: r for r in place.rows("t")}
    assert found[2**40] == {
        "id": 2**40, "city": "Bonn", "day": None, "amount": None, "note": "new", "at": {"lat": 1.0, "lon": 2.0}
    }  # fmt: skip
    assert found[1] == {**ROWS[0], "note": None, "at": None}
    again = place.run("append", "t", source=place.parquet(wide), options={"merge-schema": "true"}, run_key="k")
    assert (again.status, len(place.rows("t"))) == ("already-committed", 4)


def test_merge_schema_adds_a_field_inside_a_struct_and_takes_it_by_name(place: Place) -> None:
    inner = StructType((NestedField(3, "a", INT), NestedField(4, "b", STRING)))
    place.create("t", Schema.of(NestedField(1, "id", INT), NestedField(2, "s", inner)))
    rows = pa.Table.from_pylist(
        [{"id": 1, "s": {"c": 1.5, "a": 7}}, {"id": 2, "s": None}],
        pa.schema([("id", pa.int32()), ("s", pa.struct({"c": pa.float64(), "a": pa.int32()}))]),
    )
    place.run("append", "t", source=place.parquet(rows), options={"merge-schema": "true"})
    assert place.rows("t") == [{"id": 1, "s": {"a": 7, "b": None, "c": 1.5}}, {"id": 2, "s": None}]


def test_a_type_that_can_not_widen_leaves_the_column_and_must_fit_it(place: Place) -> None:
    place.create("t", SCHEMA)
    with pytest.raises(SchemaError, match="'amount': string cannot be stored as double"):
        place.run(
            "append", "t", source=Source(format="sql", query="SELECT 1 AS id, 'x' AS amount"), options={"merge-schema": "true"}
        )
    assert place.table("t").schema == SCHEMA


@pytest.mark.parametrize(
    ("narrow", "transform", "stored", "given", "wide"),
    [
        (INT, truncate(10), "7", "8L", INT),
        (INT, IDENTITY, "7", "8L", LONG),
        (DATE, IDENTITY, "DATE'2026-07-01'", "DATE'2026-07-02'", DATE),
        (DATE, DAY, "DATE'2026-07-01'", "TIMESTAMP_NTZ'2026-07-02 08:00:00'", TIMESTAMP),
    ],
    ids=["int-truncate", "int-identity", "date-identity", "date-day"],
)
def test_a_column_widens_only_where_its_partition_values_stay(
    place: Place, narrow: IcebergType, transform: Transform, stored: str, given: str, wide: IcebergType
) -> None:
    spec = PartitionSpec(1, (PartitionField((2,), 1000, transform, "part"),))
    place.create("t", Schema.of(NestedField(1, "id", INT), NestedField(2, "v", narrow)), spec, **{"format__version": "3"})
    for number, value in enumerate([stored, given]):
        query = f"SELECT {number} AS id, {value} AS v, 'new' AS note"
        place.run("append", "t", source=Source(format="sql", query=query), options={"merge-schema": "true"})
    assert [(f.name, f.type) for f in place.table("t").schema.fields] == [("id", INT), ("v", wide), ("note", STRING)]
    assert [r["id"] for r in place.rows("t")] == [0, 1]


def test_a_value_that_a_column_does_not_hold_is_bad_where_it_may_not_widen(place: Place) -> None:
    spec = PartitionSpec(1, (PartitionField((2,), 1000, truncate(10), "part"),))
    place.create("t", Schema.of(NestedField(1, "id", INT), NestedField(2, "v", INT)), spec)
    source = Source(format="sql", query="SELECT 1 AS id, 5000000000 AS v")
    with pytest.raises(DataError, match="column 'v': 5000000000 does not fit int"):
        place.run("append", "t", source=source, options={"merge-schema": "true"})


def half_written(place: Place, folder: Path) -> None:
    (folder / "_temporary" / "0").mkdir(parents=True)
    pq.write_table(arrow(ROWS), folder / "part-0.parquet")


def no_success(place: Place, folder: Path) -> None:
    pq.write_table(arrow(ROWS), folder / "part-0.parquet")


def corrupt(place: Place, folder: Path) -> None:
    pq.write_table(arrow(ROWS), folder / "part-0.parquet")
    many = arrow([{**ROWS[0], "id": i * 7919 % 100_003} for i in range(20_000)])
    pq.write_table(many, folder / "part-1.parquet", compression="gzip", use_dictionary=False)
    content = bytearray((folder / "part-1.parquet").read_bytes())
    content[1000:40000] = b"\xff" * 39000
    (folder / "part-1.parquet").write_bytes(bytes(content))


def truncated(place: Place, folder: Path) -> None:
    pq.write_table(arrow(ROWS), folder / "part-0.parquet")
    (folder / "part-1.parquet").write_bytes((folder / "part-0.parquet").read_bytes()[:-9])


INTO: dict[str, dict[str, Any]] = {
    "append": {},
    "upsert": {"options": {"upsert-keys": "id"}},
    "merge": {
        "change": RowChange(
            mode="copy-on-write",
            on="target.id = source.id",
            clauses=[MergeClause(when="matched", action="delete"), MergeClause(when="not-matched", action="insert")],
        )
    },
}


@pytest.mark.parametrize("job", INTO)
@pytest.mark.parametrize(
    ("make", "options", "says"),
    [
        (lambda place, folder: None, {}, "is empty"),
        (lambda place, folder: folder.rmdir(), {}, "no such path"),
        (half_written, {}, "half written: it holds _temporary"),
        (no_success, {"require-success-file": "true"}, "has no _SUCCESS"),
        (corrupt, {}, "part-1.parquet"),
        (truncated, {}, "part-1.parquet"),
    ],
    ids=["empty", "missing", "half-written", "no-success", "corrupt-pages", "truncated"],
)
def test_a_source_that_is_not_whole_is_named_and_nothing_is_left(
    place: Place, make: Any, options: dict[str, str], says: str, job: str
) -> None:
    place.create("t", SCHEMA)
    place.fill("t", arrow(ROWS))
    before = place.files_on_disk("t")
    folder = place.folder / "in"
    folder.mkdir()
    make(place, folder)
    more = {**INTO[job], "options": {**options, **INTO[job].get("options", {})}}
    with pytest.raises(DataError, match=says):
        place.run(job, "t", source=Source(format="parquet", paths=[str(folder)]), **more)
    assert [f for f in place.files_on_disk("t") if f.startswith("data/")] == [f for f in before if f.startswith("data/")]


@pytest.mark.parametrize("job", INTO)
def test_a_source_inside_the_table_or_the_table_itself_is_refused(place: Place, job: str) -> None:
    place.create("t", SCHEMA)
    place.fill("t", arrow(ROWS))
    with pytest.raises(DataError, match="inside the table's own folder"):
        place.run(job, "t", source=Source(format="parquet", paths=[f"{place.table('t').location}/data"]), **INTO[job])
    with pytest.raises(OptionError, match="is the target"):
        place.run(job, "t", source=Source(format="table", table="test.db.t"), **INTO[job])


def test_overwrite_of_a_filter_can_widen_the_schema_too(place: Place) -> None:
    place.create("t", SCHEMA)
    place.fill("t", arrow(ROWS))
    source = Source(format="sql", query="SELECT 9 AS id, 'Oslo' AS city, 'x' AS note")
    place.run("overwrite", "t", source=source, where="id < 100", options={"merge-schema": "true"})
    assert place.rows("t") == [{"id": 9, "city": "Oslo", "day": None, "amount": None, "note": "x"}]


@pytest.mark.parametrize("mode", ["none", "hash", "range"])
def test_every_distribution_writes_sorted_files_of_whole_partitions(place: Place, mode: str) -> None:
    place.create("t", SCHEMA, BY_CITY, BY_ID, **{"write.distribution__mode": mode})
    rows = [{"id": i * 7 % 1000, "city": f"c{i % 5}", "day": None, "amount": None} for i in range(1000)]
    pq.write_table(arrow(rows), place.folder / "a.parquet", row_group_size=100)
    report = place.run("append", "t", source=Source(format="parquet", paths=[str(place.folder / "a.parquet")]))
    assert by_id(place.rows("t")) == by_id(rows)
    table = place.table("t")
    if mode == "hash":
        assert report.metrics["added-data-files"] == 5
    for path in sorted(place.files_on_disk("t")):
        if path.startswith("data/"):
            ids = pq.read_table(f"{table.location}/{path}", columns=["id"], partitioning=None)["id"].to_pylist()
            assert ids == sorted(ids, reverse=True)
    assert scan_table(table, Scan()).num_rows == 1000


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bad-records": "skip"}, "fail, quarantine|fail or quarantine"),
        ({"bad-records": "quarantine"}, "needs quarantine-path"),
        ({"quarantine-path": "/q"}, "needs bad-records"),
        ({"upsert-keys": "id"}, "unknown option upsert-keys"),
    ],
)
def test_options_that_do_not_go_together_are_refused(place: Place, options: dict[str, str], says: str) -> None:
    place.create("t", SCHEMA)
    with pytest.raises(OptionError, match=says):
        place.run("append", "t", source=Source(format="sql", query="SELECT 1 AS id"), options=options)
