"""Arrow reads Parquet files that need nothing of Spark: the table is the same as with Spark, and so are the errors."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.config.job_spec import Source
from iceberg_ops.config.report import ActionReport
from iceberg_ops.errors import DataError, IcebergOpsError, SchemaError
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.sorting import UNSORTED, NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    DecimalType,
    FixedType,
    ListType,
    MapType,
    NestedField,
    StructType,
)
from spark_jobs.jobs import ingest
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

DIRECT, SPARK = "direct", "spark"
NOON = datetime.datetime(2024, 1, 2, 12, 0, 0, 5)
NOON_UTC = NOON.replace(tzinfo=UTC)
POINT = StructType((NestedField(11, "x", INT), NestedField(12, "y", STRING)))
TAGS, COUNTS = (
    ListType(NestedField(13, "element", STRING)),
    MapType(NestedField(14, "key", STRING, True), NestedField(15, "value", LONG)),
)
BY_ID = SortOrder(1, (SortField((1,), IDENTITY, SortDirection.DESC, NullOrder.NULLS_LAST),))
BY_V = PartitionSpec(1, (PartitionField((2,), 1000, IDENTITY, "v"),))


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Which way each source went."""
    taken: list[str] = []

    def noting(way: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*args: Any, **kwargs: Any) -> Any:
            taken.append(way)
            return write(*args, **kwargs)

        return noted

    monkeypatch.setattr(ingest, "write_parts", noting(DIRECT, ingest.write_parts))
    monkeypatch.setattr(ingest, "write_changes", noting(SPARK, ingest.write_changes))
    return taken


def by_spark(place: Place, name: str, source: Source, **parts: Any) -> ActionReport:
    """The same job, with its rows sent through Spark whatever they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "direct_parts", lambda *_: None)
        return place.run("append", name, source=source, **parts)


@dataclass(frozen=True)
class Case:
    """A column ``v`` of the table, and what the source holds there."""

    type: Any
    values: list[Any]
    stored: pa.DataType | None
    way: str = DIRECT
    write: dict[str, Any] = field(default_factory=dict)


CASES = {
    "int": Case(INT, [1, None, -(2**31)], pa.int32()),
    "byte-to-int": Case(INT, [1, None, -128], pa.int8()),
    "int-to-long": Case(LONG, [1, None, 2**31 - 1], pa.int32()),
    "unsigned-to-long": Case(LONG, [1, None, 2**32 - 1], pa.uint32(), SPARK),
    "long-to-int": Case(INT, [1, None, 7], pa.int64(), SPARK),
    "int-to-double": Case(DOUBLE, [1, None, 7], pa.int32(), SPARK),
    "float": Case(FLOAT, [1.5, None, float("inf")], pa.float32()),
    "float-to-double": Case(DOUBLE, [0.1, None, -0.0], pa.float32()),
    "double-to-float": Case(FLOAT, [0.5, None, 1.0], pa.float64(), SPARK),
    "boolean": Case(BOOLEAN, [True, None, False], pa.bool_()),
    "decimal": Case(DecimalType(15, 2), [Decimal("1.25"), None, Decimal("-9.99")], pa.decimal128(15, 2)),
    "decimal-of-more-digits": Case(DecimalType(20, 2), [Decimal("1.25"), None, Decimal("-9.99")], pa.decimal128(9, 2)),
    "decimal-of-another-scale": Case(DecimalType(20, 3), [Decimal("1.25"), None, Decimal("-9.99")], pa.decimal128(9, 2), SPARK),
    "decimal-in-an-integer": Case(
        DecimalType(9, 2), [Decimal("1.25"), None, Decimal("-9.99")], pa.decimal128(9, 2), write={"store_decimal_as_integer": True}
    ),
    "date": Case(DATE, [date(2024, 1, 2), None, date(1500, 3, 1)], pa.date32()),
    "text": Case(STRING, ["a", None, "žluť"], pa.string()),
    "large-text": Case(STRING, ["a", None, ""], pa.large_string()),
    "text-views": Case(STRING, ["a", None, "longer than twelve bytes"], pa.string_view()),
    "text-in-a-dictionary": Case(STRING, ["a", None, "a"], pa.dictionary(pa.int32(), pa.string())),
    "int-to-text": Case(STRING, [1, None, 2], pa.int32(), SPARK),
    "binary": Case(BINARY, [b"\x00", None, b""], pa.binary()),
    "fixed": Case(FixedType(3), [b"abc", None, b"xyz"], pa.binary(3)),
    "timestamp-us": Case(TIMESTAMP, [NOON, None, datetime.datetime(1500, 1, 1)], pa.timestamp("us")),
    "timestamp-ms": Case(TIMESTAMP, [NOON.replace(microsecond=0), None, NOON.replace(microsecond=5000)], pa.timestamp("ms"), SPARK),
    "timestamptz-us": Case(TIMESTAMPTZ, [NOON_UTC, None, NOON_UTC], pa.timestamp("us", "UTC")),
    "timestamptz-of-another-zone": Case(TIMESTAMPTZ, [NOON_UTC, None, NOON_UTC], pa.timestamp("us", "Europe/Oslo"), SPARK),
    "timestamp-for-timestamptz": Case(TIMESTAMPTZ, [NOON, None, NOON], pa.timestamp("us"), SPARK),
    "int96": Case(TIMESTAMPTZ, [NOON, None, NOON], pa.timestamp("us"), SPARK, {"use_deprecated_int96_timestamps": True}),
    "struct": Case(POINT, [{"x": 1, "y": "a"}, None, {"x": None, "y": None}], pa.struct([("x", pa.int32()), ("y", pa.string())])),
    "struct-in-another-order": Case(POINT, [{"y": "a", "x": 1}, None], pa.struct([("y", pa.string()), ("x", pa.int32())]), SPARK),
    "struct-with-less": Case(POINT, [{"x": 1}, None], pa.struct([("x", pa.int32())]), SPARK),
    "list": Case(TAGS, [["a", None], None, []], pa.list_(pa.string())),
    "map": Case(COUNTS, [[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64())),
    "column-missing": Case(STRING, [], None),
}  # fmt: skip


def source_of(place: Place, case: Case) -> Source:
    count = len(case.values) or 3
    columns = {"id": pa.array(range(count), pa.int64())}
    if case.stored is not None:
        columns["v"] = pa.array(case.values, case.stored)
    pq.write_table(pa.table(columns), place.folder / "in.parquet", **case.write)
    return Source(format="parquet", paths=[str(place.folder / "in.parquet")])


@pytest.mark.parametrize("name", CASES)
def test_both_ways_make_the_same_table(place: Place, ways: list[str], name: str) -> None:
    case = CASES[name]
    for table in ("t", "s"):
        place.create(table, Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", case.type)))
    source = source_of(place, case)
    report, other = place.run("append", "t", source=source), by_spark(place, "s", source)
    assert ways == [case.way, SPARK]
    assert place.rows("t") == place.rows("s")
    assert report.metrics["added-records"] == other.metrics["added-records"] == (len(case.values) or 3)


def small(*ids: int | None, **more: list[Any]) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "v": pa.array([f"v{i}" for i in ids], pa.string()), **more})


SCHEMA = Schema.of(NestedField(1, "id", LONG), NestedField(2, "v", STRING))
STRICT = Schema.of(NestedField(1, "id", LONG, required=True), NestedField(2, "v", STRING))


def folder_of(place: Place, **files: pa.Table) -> Path:
    folder = place.folder / "in"
    folder.mkdir()
    for name, rows in files.items():
        pq.write_table(rows, folder / f"{name}.parquet")
    return folder


def parquet(folder: Path, *more: str, **options: str) -> Source:
    return Source(format="parquet", paths=[str(folder), *more], options=options)


def test_files_of_a_folder_are_read_once_each_and_hidden_ones_are_not(place: Place, ways: list[str]) -> None:
    place.create("t", SCHEMA)
    folder = folder_of(place, a=small(1, 2), b=small(3), _hidden=small(99))
    (folder / "_SUCCESS").touch()
    report = place.run("append", "t", source=parquet(folder))
    assert (ways, [r["id"] for r in place.rows("t")]) == ([DIRECT], [1, 2, 3])
    assert report.metrics["added-data-files"] == 1


def test_names_in_another_case_are_the_same_columns(place: Place, ways: list[str]) -> None:
    place.create("t", SCHEMA)
    place.run("append", "t", source=parquet(folder_of(place, a=small(1).rename_columns(["ID", "V"]))))
    assert (ways, place.rows("t")) == ([DIRECT], [{"id": 1, "v": "v1"}])


def test_field_ids_of_another_table_mean_nothing(place: Place, ways: list[str]) -> None:
    place.create("t", SCHEMA)
    ids = {"id": b"2", "v": b"1"}
    swapped = pa.schema([f.with_metadata({b"PARQUET:field_id": ids[f.name]}) for f in small(1).schema])
    place.run("append", "t", source=parquet(folder_of(place, a=small(1).cast(swapped))))
    assert (ways, place.rows("t")) == ([DIRECT], [{"id": 1, "v": "v1"}])


def subfolder(folder: Path) -> Source:
    (folder / "v=x").mkdir()
    pq.write_table(small(7).select(["id"]), folder / "v=x" / "part.parquet")
    for path in folder.glob("*.parquet"):
        path.unlink()
    return parquet(folder)


def other_columns(folder: Path) -> Source:
    pq.write_table(small(5).select(["id"]), folder / "b.parquet")
    return parquet(folder)


OF_SPARK: dict[str, Callable[[Path], Source]] = {
    "read-options": lambda folder: parquet(folder, pathGlobFilter="*.parquet"),
    "glob": lambda folder: parquet(folder / "*.parquet"),
    "hive-partitions": subfolder,
    "a-file-without-a-column": other_columns,
    "query": lambda folder: Source(format="sql", query="SELECT * FROM x", views={"x": str(folder)}),
}


@pytest.mark.parametrize("name", OF_SPARK)
def test_a_source_in_doubt_is_spark_s(place: Place, ways: list[str], name: str) -> None:
    place.create("t", SCHEMA)
    place.run("append", "t", source=OF_SPARK[name](folder_of(place, a=small(1))))
    assert ways == [SPARK]


def test_dates_of_spark_2_are_spark_s_and_its_other_columns_are_not(place: Place, ways: list[str]) -> None:
    with_day = Schema.of(NestedField(1, "id", LONG), NestedField(2, "day", DATE))
    place.create("t", SCHEMA)
    place.create("d", with_day)
    notes = {"org.apache.spark.version": "2.4.8"}
    folder = folder_of(place, a=small(1).replace_schema_metadata(notes))
    place.run("append", "t", source=parquet(folder))
    julian = pa.table({"id": [1], "day": pa.array([-141_428], pa.int32()).view(pa.date32())})
    pq.write_table(julian.replace_schema_metadata(notes), folder / "a.parquet")
    place.run("append", "d", source=parquet(folder))
    assert (ways, place.rows("d")) == ([DIRECT, SPARK], [{"id": 1, "day": datetime.date(1582, 10, 4)}])


@pytest.mark.parametrize(
    ("spec", "order", "properties", "options", "way"),
    [
        (BY_V, UNSORTED, {}, {}, SPARK),
        (BY_V, UNSORTED, {"write.distribution__mode": "none"}, {}, DIRECT),
        (BY_V, UNSORTED, {}, {"distribution-mode": "none"}, DIRECT),
        (UNPARTITIONED, BY_ID, {}, {}, SPARK),
        (UNPARTITIONED, BY_ID, {"write.distribution__mode": "none"}, {}, DIRECT),
        (UNPARTITIONED, UNSORTED, {"write.distribution__mode": "hash"}, {}, DIRECT),
        (UNPARTITIONED, UNSORTED, {}, {"write-tasks": "2"}, SPARK),
        (UNPARTITIONED, UNSORTED, {"write.format.default": "avro"}, {}, DIRECT),
    ],
)
def test_what_is_to_be_spread_is_spark_s_and_each_file_is_sorted_either_way(
    place: Place,
    ways: list[str],
    spec: PartitionSpec,
    order: SortOrder,
    properties: dict[str, str],
    options: dict[str, str],
    way: str,
) -> None:
    place.create("t", SCHEMA, spec, order, **properties)
    place.run("append", "t", source=parquet(folder_of(place, a=small(3, 1, 2))), options=options)
    assert (ways, [r["id"] for r in place.rows("t")]) == ([way], [1, 2, 3])
    if order is BY_ID:
        stored = [
            pq.read_table(place.table("t").location + "/" + f).column("id").to_pylist()
            for f in place.files_on_disk("t")
            if f.startswith("data/")
        ]
        assert stored
        assert all(ids == sorted(ids, reverse=True) for ids in stored)


def test_nulls_in_a_required_column_are_told_by_row_and_diverted_as_before(place: Place, ways: list[str]) -> None:
    place.create("t", STRICT)
    folder = folder_of(place, a=small(1, None, 3))
    with pytest.raises(DataError, match=r"a\.parquet, row 1: column 'id' is required"):
        place.run("append", "t", source=parquet(folder))
    quarantine = {"bad-records": "quarantine", "quarantine-path": str(place.folder / "q")}
    report = place.run("append", "t", source=parquet(folder), options=quarantine)
    assert (ways, report.metrics["quarantined-records"]) == ([SPARK, SPARK], 1)
    assert [r["id"] for r in place.rows("t")] == [1, 3]


def test_a_required_column_without_nulls_and_an_empty_quarantine_change_nothing(place: Place, ways: list[str]) -> None:
    place.create("t", STRICT)
    quarantine = {"bad-records": "quarantine", "quarantine-path": str(place.folder / "q")}
    report = place.run("append", "t", source=parquet(folder_of(place, a=small(1, 3))), options=quarantine)
    assert (ways, report.metrics["quarantined-records"], report.metrics["added-records"]) == ([DIRECT], 0, 2)


@pytest.mark.parametrize(
    ("rows", "says"),
    [(small(1, extra=[5]), "'extra' is not a column"), (small(1).select(["v"]), "'id' is not in the source")],
    ids=["extra-column", "required-column-missing"],
)
def test_columns_that_do_not_fit_are_refused_alike(place: Place, ways: list[str], rows: pa.Table, says: str) -> None:
    place.create("t", STRICT)
    source = parquet(folder_of(place, a=rows))
    with pytest.raises(SchemaError, match=says) as direct:
        place.run("append", "t", source=source)
    with pytest.raises(SchemaError) as through_spark:
        by_spark(place, "t", source)
    assert (str(direct.value), ways) == (str(through_spark.value), [])


def test_a_missing_column_takes_its_write_default(place: Place, ways: list[str]) -> None:
    defaulted = NestedField(2, "v", STRING, write_default="none given", initial_default="old")
    place.create("t", Schema.of(NestedField(1, "id", LONG), defaulted), **{"format__version": "3"})
    place.run("append", "t", source=parquet(folder_of(place, a=small(1).select(["id"]))))
    assert (ways, place.rows("t")) == ([DIRECT], [{"id": 1, "v": "none given"}])


@pytest.mark.parametrize("order", [UNSORTED, BY_ID], ids=["unsorted", "sorted"])
def test_the_folder_s_value_wins_over_the_file_s(place: Place, ways: list[str], order: SortOrder) -> None:
    """As Spark reads it, whoever does."""
    place.create("t", SCHEMA, order=order)
    folder = place.folder / "in" / "v=eu"
    folder.mkdir(parents=True)
    pq.write_table(small(1, 2), folder / "a.parquet")
    place.run("append", "t", source=parquet(folder.parent))
    assert (ways, [(r["id"], r["v"]) for r in place.rows("t")]) == ([SPARK], [(1, "eu"), (2, "eu")])
    place.run("append", "t", source=parquet(folder))
    assert [r["v"] for r in place.rows("t")] == ["eu", "v1", "eu", "v2"]


def test_merge_schema_adds_columns_directly_too(place: Place, ways: list[str]) -> None:
    place.create("t", SCHEMA)
    place.run("append", "t", source=parquet(folder_of(place, a=small(1, more=[2.5]))), options={"merge-schema": "true"})
    assert (ways, place.rows("t")) == ([DIRECT], [{"id": 1, "v": "v1", "more": 2.5}])


def spoiled(folder: Path) -> None:
    rows = small(*(i * 7919 % 100_003 for i in range(20_000)))
    pq.write_table(rows, folder / "b.parquet", compression="gzip", use_dictionary=False)
    content = bytearray((folder / "b.parquet").read_bytes())
    content[1000:40000] = b"\xff" * 39000
    (folder / "b.parquet").write_bytes(bytes(content))


def test_a_file_with_broken_pages_is_named_and_nothing_is_left(place: Place, ways: list[str]) -> None:
    place.create("t", SCHEMA)
    folder = folder_of(place, a=small(*range(50_000)))
    spoiled(folder)
    codes = set()
    for run in (place.run, lambda _, name, source: by_spark(place, name, source)):
        with pytest.raises(IcebergOpsError, match=r"b\.parquet") as failed:
            run("append", "t", source=parquet(folder))
        codes.add(failed.value.code)
    assert (ways, codes) == ([DIRECT, SPARK], {DataError.code})
    assert not [f for f in place.files_on_disk("t") if f.startswith("data/")]


def test_a_run_repeated_under_its_key_adds_nothing(place: Place, ways: list[str]) -> None:
    place.create("t", SCHEMA)
    source = parquet(folder_of(place, a=small(1, 2)))
    first = place.run("append", "t", source=source, run_key="day-1")
    before = place.files_on_disk("t")
    again = place.run("append", "t", source=source, run_key="day-1")
    assert (first.status, again.status, ways[0]) == ("committed", "already-committed", DIRECT)
    assert {f for f in place.files_on_disk("t") if f.startswith("data/")} == {f for f in before if f.startswith("data/")}
    assert len(place.rows("t")) == 2


def test_a_source_without_rows_commits_nothing(place: Place) -> None:
    place.create("t", SCHEMA)
    assert place.run("append", "t", source=parquet(folder_of(place, a=small()))).status == "nothing-to-do"


def test_overwrite_takes_the_same_way(place: Place, ways: list[str]) -> None:
    place.create("t", SCHEMA)
    folder = folder_of(place, a=small(1, 2))
    place.run("append", "t", source=parquet(folder))
    place.run("overwrite", "t", source=parquet(folder), where="id < 5")
    assert (ways, [r["id"] for r in place.rows("t")]) == ([DIRECT, DIRECT], [1, 2])


OF_THE_PROGRAM = {
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
}


@pytest.mark.parametrize("name", OF_THE_PROGRAM)
def test_a_setting_of_the_program_changes_neither_what_is_read_nor_who_reads_it(place: Place, ways: list[str], name: str) -> None:
    """A job has its own settings of what a source reads."""
    place.create("t", SCHEMA)
    place.session.conf.set(name, OF_THE_PROGRAM[name])
    try:
        place.run("append", "t", source=parquet(folder_of(place, a=small(1))))
    finally:
        place.session.conf.unset(name)
    assert (ways, place.rows("t")) == ([DIRECT], [{"id": 1, "v": "v1"}])


def test_a_program_that_ignores_corrupt_files_does_not_make_a_job_ignore_them(place: Place, ways: list[str]) -> None:
    place.create("t", SCHEMA)
    folder = folder_of(place, a=small(1))
    spoiled(folder)
    place.session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        for run in (place.run, lambda _, name, source: by_spark(place, name, source)):
            with pytest.raises(DataError, match=r"b\.parquet"):
                run("append", "t", source=parquet(folder))
    finally:
        place.session.conf.unset("spark.sql.files.ignoreCorruptFiles")
    assert (ways, place.rows("t")) == ([DIRECT, SPARK], [])
