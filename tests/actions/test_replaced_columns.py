"""After another engine replaced a table (CREATE OR REPLACE TABLE), its columns have the ids of former ones with other types: rows,
equality deletes and partition values are read by the columns that they were written for."""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.append_files import AppendFiles
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import FormerColumnsError, UnsupportedError
from iceberg_ops.expressions.predicates import eq, gt, is_null, lt
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import (
    BOOLEAN,
    DATE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NS,
    DecimalType,
    IcebergType,
    NestedField,
)
from iceberg_ops.spec.updates import LAST_ADDED, AddPartitionSpec, SetDefaultSpec
from tests.actions.rows_place import RowsPlace
from tests.commit.scenarios import Replaced

BY_K = PartitionSpec(0, (PartitionField((2,), 1000, IDENTITY, "p"),))
CENTS, FINER = DecimalType(18, 2), DecimalType(9, 4)
DAYS = [dt.date(2020, 1, 1), dt.date(2020, 1, 2)]
HOURS = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2, 3)]
OF_KEY = {"upsert-keys": "id,k"}
VALUES: dict[IcebergType, tuple[pa.DataType, list[Any]]] = {
    INT: (pa.int32(), [1, 2]),
    LONG: (pa.int64(), [1, 2**40]),
    STRING: (pa.string(), ["a", "b"]),
    BOOLEAN: (pa.bool_(), [True, False]),
    DATE: (pa.date32(), DAYS),
    TIMESTAMP: (pa.timestamp("us"), HOURS),
    TIMESTAMP_NS: (pa.timestamp("ns"), HOURS),
    CENTS: (pa.decimal128(18, 2), [Decimal("1.23"), Decimal("4.56")]),
    FINER: (pa.decimal128(9, 4), [Decimal("1.2345"), Decimal("4.5678")]),
}
REPLACED: list[tuple[IcebergType, IcebergType]] = [
    (LONG, STRING),
    (STRING, LONG),
    (LONG, INT),
    (INT, LONG),
    (LONG, DATE),
    (LONG, BOOLEAN),
    (TIMESTAMP, DATE),
    (TIMESTAMP, STRING),
    (CENTS, FINER),
    (FINER, CENTS),
]


def schema(k: IcebergType) -> Schema:
    return Schema.of(NestedField(1, "id", LONG, True), NestedField(2, "k", k))


def rows_of(place: RowsPlace, k: IcebergType, *ids: int) -> Any:
    """A source with a row for each id."""
    type_, values = VALUES[k]
    rows = [{"id": i, "k": values[i % 2]} for i in ids]
    return place.source(rows, pa.schema({"id": pa.int64(), "k": type_}))


def place_of(tmp_path: Path, version: int, spec: PartitionSpec, former: IcebergType, now: IcebergType) -> RowsPlace:
    """Rows 1 and 2, upserted once and tagged; the table replaced; rows 3 and 4."""
    place = RowsPlace.at(tmp_path)
    place.create(schema(former), spec, format__version=str(version))
    place.run("append", source=rows_of(place, former, 1, 2))
    place.run("upsert", source=rows_of(place, former, 1), options=OF_KEY)
    commit(place.catalog, place.table(), SetRef(ref="before", type="tag"))
    commit(place.catalog, place.table(), Replaced(schema=schema(now), is_empty=True))
    place.run("append", source=rows_of(place, now, 3, 4))
    return place


def scanned(place: RowsPlace, k: IcebergType, *ids: int, **scan: Any) -> None:
    """Exactly the rows of these ids are there."""
    values = VALUES[k][1]
    found = scan_table(place.table(), Scan(**scan)).to_pylist()
    assert sorted((r["id"], r["k"]) for r in found) == [(i, values[i % 2]) for i in ids]


@pytest.mark.parametrize("spec", [PartitionSpec(), BY_K], ids=["unpartitioned", "by the column"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("former", "now"), REPLACED, ids=str)
def test_equality_deletes_compare_the_columns_of_their_own_table(
    tmp_path: Path, former: IcebergType, now: IcebergType, version: int, spec: PartitionSpec
) -> None:
    place = place_of(tmp_path, version, spec, former, now)
    place.run("upsert", source=rows_of(place, now, 3, 5), options=OF_KEY)
    scanned(place, now, 3, 4, 5)
    scanned(place, former, 1, 2, ref="before")
    place.run("convert_equality_deletes")
    place.run("rewrite_data_files", options={"rewrite-all": "true"})
    scanned(place, now, 3, 4, 5)


@pytest.mark.parametrize("now", [INT, DATE, FINER, STRING, TIMESTAMP], ids=str)
@pytest.mark.parametrize("former", [LONG, TIMESTAMP, TIMESTAMP_NS, CENTS], ids=str)
def test_values_of_partitions_are_of_the_present_type(tmp_path: Path, former: IcebergType, now: IcebergType) -> None:
    """They are shown, and are the values of a column that files lack, as imported ones do."""
    place = RowsPlace.at(tmp_path)
    place.create(schema(former), BY_K, format__version="3", schema__name_mapping__default='[{"field-id": 1, "names": ["id"]}]')
    commit(place.catalog, place.table(), Replaced(schema=schema(now), is_empty=True))
    place.run("append", source=rows_of(place, now, 3, 4))
    table, values = place.table(), VALUES[now][1]
    shown = scan_table(table, Scan(), columns=["id", "_partition"]).to_pylist()
    assert sorted((r["id"], r["_partition"]["p"]) for r in shown) == [(i, values[i % 2]) for i in (3, 4)]
    found = [task.data_file for task in planned(table)]
    lacking = tuple(without_k(tmp_path, file, 7 + n) for n, file in enumerate(found))
    commit(place.catalog, table, AppendFiles(added=lacking))
    kept = {r["id"]: r["k"] for r in scan_table(place.table(), Scan()).to_pylist()}
    assert sorted(map(str, (kept[7], kept[8]))) == sorted(map(str, values))


@pytest.mark.parametrize("spec", [PartitionSpec(), BY_K], ids=["unpartitioned", "by the column"])
@pytest.mark.parametrize(("former", "now"), [(LONG, STRING), (STRING, LONG), (TIMESTAMP, BOOLEAN)], ids=str)
def test_a_branch_with_rows_of_former_columns_is_no_damaged_table(
    tmp_path: Path, former: IcebergType, now: IcebergType, spec: PartitionSpec
) -> None:
    """Branches are read by the table's columns, and these rows cannot be: the error says so, and does not report lost files."""
    place = place_of(tmp_path, 2, spec, former, now)
    start = place.table().metadata.refs["before"].snapshot_id
    commit(place.catalog, place.table(), SetRef(ref="audit", snapshot_id=start))
    with pytest.raises(UnsupportedError, match="written for former columns, and another engine has replaced the table"):
        scan_table(place.table(), Scan(ref="audit"))
    scanned(place, former, 1, 2, snapshot_id=start)
    scanned(place, now, 3, 4)


@pytest.mark.parametrize("spec", [PartitionSpec(), BY_K], ids=["unpartitioned", "by the column"])
@pytest.mark.parametrize(
    ("former", "now"), [(CENTS, FINER), (FINER, CENTS), (LONG, TIMESTAMP), (DATE, LONG), (STRING, CENTS), (LONG, INT)], ids=str
)
def test_rows_of_former_columns_are_not_filtered_by_them_on_a_branch(
    tmp_path: Path, former: IcebergType, now: IcebergType, spec: PartitionSpec
) -> None:
    """Bounds and partition values of the former type left out rows, or let a delete drop files whole. So it is where a commit has
    merged the manifests, and where the former snapshots have expired."""
    place = RowsPlace.at(tmp_path)
    place.create(schema(former), spec, format__version="3", commit_manifest_min__count__to__merge="2")
    place.run("append", source=rows_of(place, former, 1, 2))
    commit(place.catalog, place.table(), SetRef(ref="audit"))
    commit(place.catalog, place.table(), Replaced(schema=schema(now), is_empty=True))
    values = VALUES[now][1]
    for is_expired in (False, True):
        for where in (eq("k", values[0]), lt("k", values[0]), gt("k", values[1]), is_null("k")):
            with pytest.raises(UnsupportedError, match=r"k was of type .* and another engine has replaced the table"):
                scan_table(place.table(), Scan(ref="audit", where=where), columns=["id"])
        head = place.table().metadata.refs["audit"]
        for test in ("<", ">"):
            text = str(values[0]) if now in (INT, LONG, CENTS, FINER) else f"timestamp '{values[0]}'"
            with pytest.raises(UnsupportedError, match=r"k was of type .* and another engine has replaced the table"):
                place.run("delete", where=f"k {test} {text}", branch="audit")
        assert place.table().metadata.refs["audit"] == head
        if not is_expired:
            place.run("append", source=rows_of(place, now, 3, 4), branch="audit")
            place.run("rewrite_manifests", branch="audit")
            place.run("expire_snapshots", options={"older-than": "0s", "retain-last": "1"})
            assert len(place.table().metadata.snapshots) == 1
    place.run("append", source=rows_of(place, now, 5, 6))
    scanned(place, now, 5, 6)
    assert [r["id"] for r in scan_table(place.table(), Scan(where=eq("k", values[1]))).to_pylist()] == [5]


@pytest.mark.parametrize(
    ("former", "now"),
    [
        (INT, DATE),
        (INT, TIMESTAMP),
        (LONG, TIMESTAMP),
        (LONG, CENTS),
        (INT, CENTS),
        (TIMESTAMP_NS, TIMESTAMP),
        (TIMESTAMP, TIMESTAMP_NS),
    ],
    ids=str,
)
def test_a_form_that_another_type_can_be_read_from_is_refused_on_a_branch(
    tmp_path: Path, former: IcebergType, now: IcebergType
) -> None:
    """Numbers were read as times and as the digits of decimals."""
    place = RowsPlace.at(tmp_path)
    place.create(schema(former), format__version="3")
    place.run("append", source=rows_of(place, former, 1, 2))
    commit(place.catalog, place.table(), SetRef(ref="audit"))
    commit(place.catalog, place.table(), Replaced(schema=schema(now), is_empty=True))
    place.run("append", source=rows_of(place, now, 3, 4))
    with pytest.raises(FormerColumnsError, match="written for former columns, and another engine has replaced the table"):
        scan_table(place.table(), Scan(ref="audit"))
    with pytest.raises(UnsupportedError, match="another engine has replaced the table"):
        place.run("rewrite_data_files", options={"rewrite-all": "true"}, branch="audit")
    assert scan_table(place.table(), Scan(ref="audit"), columns=["id"]).num_rows == 2
    scanned(place, now, 3, 4)


@pytest.mark.parametrize("spec", [PartitionSpec(), BY_K], ids=["unpartitioned", "by the column"])
def test_a_manifest_of_former_columns_that_loses_a_file_stays_one(tmp_path: Path, spec: PartitionSpec) -> None:
    """Where it became one of the present columns, its partition values did not fit, and a filter compared bounds of the former
    ones once their snapshots had expired."""
    place = RowsPlace.at(tmp_path)
    place.create(schema(TIMESTAMP), spec, format__version="3", commit_manifest_min__count__to__merge="2")
    place.run("append", source=rows_of(place, TIMESTAMP, 1))
    place.run("append", source=rows_of(place, TIMESTAMP, 2))
    commit(place.catalog, place.table(), SetRef(ref="audit"))
    commit(place.catalog, place.table(), Replaced(schema=schema(DATE), is_empty=True))
    place.run("delete", where="id = 1", branch="audit")
    place.run("expire_snapshots", options={"older-than": "0s", "retain-last": "1"})
    assert scan_table(place.table(), Scan(ref="audit"), columns=["id"]).to_pylist() == [{"id": 2}]
    for where in (eq("k", DAYS[0]), gt("k", DAYS[0]), is_null("k")):
        with pytest.raises(FormerColumnsError):
            scan_table(place.table(), Scan(ref="audit", where=where), columns=["id"])


def planned(table: Any) -> Any:
    return plan(table, Scan()).tasks


def without_k(folder: Path, like: DataFile, row: int) -> DataFile:
    """A file of one row that lacks the partition column."""
    path = folder / f"{uuid.uuid4()}.parquet"
    pq.write_table(pa.table({"id": pa.array([row], pa.int64())}), path)
    size = path.stat().st_size
    return DataFile(
        file_path=str(path),
        file_format=FileFormat.PARQUET,
        spec_id=like.spec_id,
        partition=like.partition,
        record_count=1,
        file_size_in_bytes=size,
    )


def test_an_upsert_goes_on_where_timestamps_took_the_place_of_dates(tmp_path: Path) -> None:
    """A v2 table promotes no date. In v3 nothing tells a replacement from a promotion."""
    place = place_of(tmp_path / "two", 2, BY_K, DATE, TIMESTAMP)
    place.run("upsert", source=rows_of(place, TIMESTAMP, 3, 5), options=OF_KEY)
    scanned(place, TIMESTAMP, 3, 4, 5)
    place = place_of(tmp_path / "three", 3, BY_K, DATE, TIMESTAMP)
    with pytest.raises(UnsupportedError, match="promoted column 'k' from date, or replaced the table"):
        place.run("upsert", source=rows_of(place, TIMESTAMP, 3, 5), options=OF_KEY)


def test_a_context_that_travelled_reads_by_the_same_types() -> None:
    now = Schema.of(*schema(TIMESTAMP).fields, schema_id=1)
    for version in (2, 3):
        then = schema(DATE)
        context = ReadContext(table_schema=then, projected=then, schemas=(then, now), format_version=version)
        again = ReadContext.from_json(context.to_json())
        assert context.path_to(2).type == again.path_to(2).type == (DATE if version == 2 else TIMESTAMP)
        assert replace(context, value_schema=then).type_of_values(2) == DATE
        assert ReadContext.from_json(replace(context, value_schema=then).to_json()).type_of_values(2) == DATE


@pytest.mark.parametrize(("former", "between"), [(DATE, TIMESTAMP), (DATE, TIMESTAMP_NS), (INT, LONG)], ids=str)
def test_values_of_partitions_are_of_the_present_type_where_it_is_a_former_one_again(
    tmp_path: Path, former: IcebergType, between: IcebergType
) -> None:
    """A catalog finds that it had the schema before, and makes that one current."""
    place = RowsPlace.at(tmp_path)
    place.create(schema(former), BY_K, format__version="3", schema__name_mapping__default='[{"field-id": 1, "names": ["id"]}]')
    commit(place.catalog, place.table(), Replaced(schema=schema(between)))
    place.run("append", source=rows_of(place, between, 1, 2))
    commit(place.catalog, place.table(), SetRef(ref="before", type="tag"))
    commit(place.catalog, place.table(), Replaced(schema=schema(former), is_empty=True))
    assert place.table().metadata.current_schema_id == 0
    place.run("append", source=rows_of(place, former, 3, 4))
    for type_, ids, scan in ((former, (3, 4), Scan()), (between, (1, 2), Scan(ref="before"))):
        shown = scan_table(place.table(), scan, columns=["id", "_partition"]).to_pylist()
        assert sorted((r["id"], r["_partition"]["p"]) for r in shown) == [(i, VALUES[type_][1][i % 2]) for i in ids]
    lacking = tuple(without_k(tmp_path, task.data_file, 7 + n) for n, task in enumerate(planned(place.table())))
    commit(place.catalog, place.table(), AppendFiles(added=lacking))
    kept = {r["id"]: r["k"] for r in scan_table(place.table(), Scan()).to_pylist()}
    assert {kept[7], kept[8]} == set(VALUES[former][1])


@pytest.mark.parametrize("spec", [PartitionSpec(), BY_K], ids=["unpartitioned", "by the column"])
@pytest.mark.parametrize(("wide", "narrow"), [(LONG, INT), (CENTS, DecimalType(9, 2))], ids=str)
def test_a_dropped_column_has_the_widest_type_whichever_schema_was_first(
    tmp_path: Path, wide: IcebergType, narrow: IcebergType, spec: PartitionSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A table of long is replaced by one of int, which is promoted to long, by the first schema again. Then the column goes."""
    monkeypatch.setitem(VALUES, CENTS, (pa.decimal128(18, 2), [Decimal("1.23"), Decimal("1234567890123.45")]))
    monkeypatch.setitem(VALUES, DecimalType(9, 2), (pa.decimal128(9, 2), [Decimal("1.23"), Decimal("4.56")]))
    place = RowsPlace.at(tmp_path)
    place.create(schema(wide), spec, format__version="2")
    commit(place.catalog, place.table(), Replaced(schema=schema(narrow)))
    place.run("append", source=rows_of(place, narrow, 1, 2))
    commit(place.catalog, place.table(), Replaced(schema=schema(wide)))
    assert place.table().metadata.current_schema_id == 0
    place.run("append", source=rows_of(place, wide, 3, 4))
    place.run("upsert", source=rows_of(place, wide, 3, 5), options=OF_KEY)
    if spec.fields:
        place.catalog.commit_table(place.table(), (), (AddPartitionSpec(PartitionSpec(1, ())), SetDefaultSpec(LAST_ADDED)))
    place.set_schema(Schema.of(NestedField(1, "id", LONG, True)))
    found = scan_table(place.table(), Scan(), columns=["id", *(["_partition"] if spec.fields else [])]).to_pylist()
    assert sorted(r["id"] for r in found) == [1, 2, 3, 4, 5]
    values = {(r["id"], r["_partition"]["p"]) for r in found if spec.fields}
    assert {(i, VALUES[wide][1][i % 2]) for i in (3, 4, 5) if spec.fields} <= values


@pytest.mark.parametrize("spec", [PartitionSpec(), BY_K], ids=["unpartitioned", "by the column"])
def test_dates_that_are_no_timestamp_ns_are_read_where_the_column_was_one_of_dates(
    tmp_path: Path, spec: PartitionSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    days = [dt.date(9999, 12, 31), dt.date(1, 1, 1)]
    monkeypatch.setitem(VALUES, DATE, (pa.date32(), days))
    place = place_of(tmp_path, 3, spec, DATE, TIMESTAMP_NS)
    scanned(place, DATE, 1, 2, ref="before")
    scanned(place, TIMESTAMP_NS, 3, 4)
    if spec.fields:
        shown = scan_table(place.table(), Scan(ref="before"), columns=["id", "_partition"]).to_pylist()
        assert sorted((r["id"], r["_partition"]["p"]) for r in shown) == [(1, days[1]), (2, days[0])]
