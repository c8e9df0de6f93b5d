"""Existing Parquet files become a table's: nothing is copied, the rows are correct, and files that do not fit are refused."""

from __future__ import annotations

import os
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.actions.import_shape import shape_of_folder
from iceberg_ops.config.job_spec import CatalogConfig, JobSpec
from iceberg_ops.config.report import ActionReport
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import BadInputError, DataError, OptionError, SchemaError, UnsupportedError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY, bucket
from iceberg_ops.spec.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, DecimalType, NestedField, StructType, list_of
from iceberg_ops.table.table import Table
from tests.builders import sql_catalog

SCHEMA = Schema.of(
    NestedField(1, "id", LONG, required=True),
    NestedField(2, "name", STRING),
    NestedField(3, "score", DOUBLE),
    NestedField(4, "day", DATE),
)
BY_DAY = PartitionSpec(0, (PartitionField((4,), 1000, IDENTITY, "day"),))
ID = {"id": pa.int64(), "name": pa.string(), "score": pa.float64()}


class Place:
    def __init__(self, folder: Path) -> None:
        self.files = folder / "lake"
        self.catalog = sql_catalog(folder)
        self.catalog.create_namespace(("db",))

    def write(self, path: str, rows: list[dict[str, Any]], schema: pa.Schema | None = None, **options: Any) -> None:
        at = self.files / path
        at.parent.mkdir(parents=True, exist_ok=True)
        if schema is None and set(rows[0]) == set(ID):
            schema = pa.schema(ID)
        pq.write_table(pa.Table.from_pylist(rows, schema), at, **options)

    def create(self, schema: Schema = SCHEMA, spec: PartitionSpec = UNPARTITIONED, **properties: str) -> Table:
        return self.catalog.create_table(("db", "t"), schema, spec=spec, properties=properties)

    @property
    def table(self) -> Table:
        return self.catalog.load_table(("db", "t"))

    def add(self, dry_run: bool = False, run_key: str | None = None, **options: str) -> ActionReport:
        named = {"source-path": str(self.files)} | {k.replace("_", "-"): v for k, v in options.items()}
        config = CatalogConfig(name="c", type="sql")
        job = JobSpec(job="add_files", table="c.db.t", catalog=config, options=named, dry_run=dry_run, run_key=run_key)
        return run_job(job, catalog=self.catalog)

    def rows(self, where: str | None = None) -> list[dict[str, Any]]:
        scan = Scan() if where is None else Scan(where=parse_where(where))
        return sorted(scan_table(self.table, scan).to_pylist(), key=lambda r: r["id"])


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def row(key: int, name: str | None = "n", score: float | None = None) -> dict[str, Any]:
    return {"id": key, "name": name, "score": score}


def test_files_in_hive_folders_are_read_in_place_with_their_partition_values(place: Place) -> None:
    place.write("day=2024-01-02/a.parquet", [row(1), row(2, None, 2.5)])
    place.write("day=__HIVE_DEFAULT_PARTITION__/b.parquet", [row(3)])
    place.write("day=2024-01-02/_metadata", [row(9)])
    place.create(spec=BY_DAY)
    planned = place.add(dry_run=True)
    assert (planned.status, planned.metrics["imported-files-count"], place.rows()) == ("planned", 2, [])
    report = place.add(run_key="k")
    assert (report.status, report.metrics["imported-records-count"]) == ("committed", 3)
    assert place.rows() == [
        {**row(1), "day": date(2024, 1, 2)}, {**row(2, None, 2.5), "day": date(2024, 1, 2)}, {**row(3), "day": None}
    ]  # fmt: skip
    assert [t.file_path for t in plan(place.table, Scan()).tasks] == [str(p) for p in sorted(place.files.rglob("*.parquet"))]
    assert len(place.table.metadata.snapshots) == 1
    assert place.add(run_key="k").status == "already-committed"
    with pytest.raises(DataError, match=r"a\.parquet is in table c\.db\.t already"):
        place.add()


def test_files_of_nan_are_in_one_partition(place: Place) -> None:
    schema = {"id": pa.int64(), "name": pa.string()}
    for folder in ("score=NaN/a", "score=NaN/b", "score=0.0/c", "score=-0.0/d"):
        place.write(f"{folder}.parquet", [{"id": 1, "name": "n"}], pa.schema(schema))
    place.create(spec=PartitionSpec(0, (PartitionField((3,), 1000, IDENTITY, "score"),)))
    assert place.add().metrics["imported-partitions-count"] == 3


def test_a_file_is_pruned_by_its_partition_and_its_footer(place: Place) -> None:
    for n in range(4):
        place.write(f"day=2024-01-0{n + 1}/a.parquet", [row(10 * n + i, f"n{n}", float(n)) for i in range(1, 5)])
    place.create(spec=BY_DAY)
    place.add()

    def files(where: str) -> int:
        return len(plan(place.table, Scan(where=parse_where(where))).tasks)

    assert [files(w) for w in ("day = DATE '2024-01-03'", "id = 12", "name = 'n3'", "score < 1.5", "id > 1000")] == [1, 1, 1, 2, 0]
    assert [r["id"] for r in place.rows("score = 2.0")] == [21, 22, 23, 24]


def test_a_column_that_says_another_partition_than_its_folder_is_refused(place: Place) -> None:
    place.create(spec=BY_DAY)
    place.write("day=2026-07-01/a.parquet", [{"id": 1, "day": date(2026, 7, 1)}])
    place.add()
    assert [r["day"] for r in place.rows("day = DATE '2026-07-01'")] == [date(2026, 7, 1)]
    place.write("day=2026-07-02/b.parquet", [{"id": 2, "day": date(2026, 7, 2)}, {"id": 3, "day": date(2026, 7, 1)}])
    with pytest.raises(DataError, match=r"b\.parquet: column 'day' holds 2026-07-01, its folder says 2026-07-02"):
        place.add(partition_filter="day=2026-07-02")
    place.write(
        "day=__HIVE_DEFAULT_PARTITION__/c.parquet", [{"id": 4, "day": None}], pa.schema({"id": pa.int64(), "day": pa.date32()})
    )
    place.add(partition_filter="day=__HIVE_DEFAULT_PARTITION__")
    assert [r["id"] for r in place.rows("day IS NULL")] == [4]


def test_only_one_partition_is_taken_where_asked(place: Place) -> None:
    place.write("day=2024-01-01/a.parquet", [row(1)])
    place.write("day=2024-01-02/a.parquet", [row(2)])
    place.create(spec=BY_DAY)
    place.add(partition_filter="day=2024-01-02")
    assert [r["id"] for r in place.rows()] == [2]


def test_renaming_a_column_afterwards_keeps_the_imported_values(place: Place) -> None:
    from iceberg_ops.commit.loop.committer import commit
    from iceberg_ops.commit.operations.metadata_updates import UpdateSchema
    from iceberg_ops.spec.schema_evolution import SchemaEvolution

    place.write("a.parquet", [row(1, "x")])
    place.create()
    place.add()
    table = place.table
    commit(
        place.catalog, table, UpdateSchema(schema=SchemaEvolution.of_table(table.metadata).rename_column("name", "label").apply())
    )
    assert place.rows()[0]["label"] == "x"


def test_files_of_other_units_and_writers_give_no_wrong_bounds(place: Place) -> None:
    point = StructType((NestedField(8, "x", INT),))
    schema = Schema.of(
        NestedField(1, "id", LONG),
        NestedField(2, "at", TIMESTAMP),
        NestedField(3, "f", DOUBLE),
        NestedField(4, "n", LONG),
        NestedField(5, "price", DecimalType(precision=9, scale=2)),
        NestedField(6, "points", list_of(7, point)),
    )
    arrow = pa.schema(
        {
            "points": pa.list_(pa.struct({"x": pa.int32()})),
            "id": pa.int32(),
            "at": pa.timestamp("ms"),
            "f": pa.float64(),
            "n": pa.int64(),
            "price": pa.decimal128(7, 2),
        }
    )
    rows = [
        {"id": i, "at": datetime(2024, 1, 1 + i), "f": f, "n": 2**32 - 1 - i, "price": Decimal(f"{i}.25"), "points": [{"x": i}]}
        for i, f in enumerate((1.0, float("nan"), -0.0))
    ]
    place.write("a.parquet", rows, arrow, use_dictionary=False)
    place.create(schema)
    place.add()
    (task,) = plan(place.table, Scan()).tasks
    assert set(task.data_file.lower_bounds) == {1, 3, 4, 5}
    for where in ("at = TIMESTAMP_NTZ '2024-01-02 00:00:00'", "n = 4294967294", "price = 1.25", "id = 1"):
        assert [r["id"] for r in place.rows(where)] == [1], where
    assert place.rows()[2]["points"] == [{"x": 2}]


@pytest.mark.parametrize(
    ("path", "arrow", "rows", "error", "says"),
    [
        ("a.parquet", {**ID, "extra": pa.int8()}, [{**row(1), "extra": 1}], SchemaError, "'extra' is not a column of the table"),
        ("a.parquet", {**ID, "id": pa.string()}, [{**row(1), "id": "x"}], SchemaError, "'id' is string, which does not fit"),
        ("a.parquet", {"name": pa.string()}, [{"name": "x"}], SchemaError, "has no column 'id', which is required"),
        ("a.parquet", ID, [row(1), {**row(2), "id": None}], DataError, "column id is required, but 1 of 2 rows have no value"),
        ("sub/a.parquet", ID, [row(1)], DataError, "folder 'sub' is not name=value"),
        ("day=2024-01-01/a.parquet", ID, [row(1)], DataError, "the table is partitioned by nothing"),
        ("_temporary/0/a.parquet", ID, [row(1)], DataError, "half written"),
    ],
)  # fmt: skip
def test_a_file_that_does_not_fit_is_refused_by_name_and_nothing_is_committed(
    place: Place, path: str, arrow: dict[str, pa.DataType], rows: list[dict[str, Any]], error: type[Exception], says: str
) -> None:
    place.write(path, rows, pa.schema(arrow))
    place.create()
    with pytest.raises(error, match=says):
        place.add()
    assert place.table.metadata.snapshots == ()


def test_field_ids_of_another_table_are_not_taken_for_this_ones(place: Place) -> None:
    fields = [pa.field(n, t, metadata={"PARQUET:field_id": str(i)}) for i, (n, t) in zip((1, 3, 2), ID.items(), strict=True)]
    place.write("a.parquet", [row(1)], pa.schema(fields))
    place.create()
    with pytest.raises(SchemaError, match="its ids are another table's"):
        place.add()


def broken(place: Place) -> None:
    place.write("a.parquet", [row(1)])
    (place.files / "b.parquet").write_bytes(b"PAR1 but no footer")


def nothing(place: Place) -> None:
    place.files.mkdir()


@pytest.mark.parametrize(("make", "says"), [(broken, r"b\.parquet is not a whole Parquet file"), (nothing, "no data file")])
def test_a_folder_that_is_not_whole_is_refused(place: Place, make: Any, says: str) -> None:
    make(place)
    place.create()
    with pytest.raises(DataError, match=says):
        place.add()


def test_a_partition_value_of_another_type_and_a_computed_partition_are_refused(place: Place) -> None:
    place.write("day=yesterday/a.parquet", [row(1)])
    place.create(spec=BY_DAY)
    with pytest.raises(DataError, match="day = 'yesterday' is not a valid date"):
        place.add()
    place.catalog.drop_table(("db", "t"))
    place.create(spec=PartitionSpec(0, (PartitionField((1,), 1000, bucket(4), "b"),)))
    with pytest.raises(UnsupportedError, match="identity values only"):
        place.add()


def test_options_are_checked(place: Place) -> None:
    place.create()
    job = JobSpec(job="add_files", table="c.db.t", catalog=CatalogConfig(name="c", type="sql"))
    with pytest.raises(OptionError, match="needs option source-path"):
        run_job(job, catalog=place.catalog)
    with pytest.raises(BadInputError, match="unknown option"):
        place.add(nope="1")


def test_a_folder_says_the_shape_of_its_table(place: Place) -> None:
    place.write("region=eu/day=2024-01-01/code=007/a.parquet", [row(1)])
    place.write("region=us/day=2024-01-02/code=12/a.parquet", [{"id": 2, "note": "x", "score": 1.0}])
    schema, spec = shape_of_folder(LocalFileIO(), str(place.files), 2)
    assert [(f.name, str(f.type)) for f in schema.fields] == [
        ("id", "long"), ("name", "string"), ("score", "double"), ("note", "string"), ("region", "string"), ("day", "date"),
        ("code", "string"),
    ]  # fmt: skip
    assert [f.name for f in spec.fields] == ["region", "day", "code"]
    assert not any(f.required for f in schema.fields)


@pytest.mark.parametrize("link", [os.symlink, os.link], ids=["symbolic", "hard"])
@pytest.mark.parametrize("name", ["0.parquet", "b.parquet"])
@pytest.mark.parametrize("known", [False, True], ids=["both in the folder", "one in the table"])
def test_a_file_with_two_names_is_imported_once(place: Place, link: Any, name: str, known: bool) -> None:
    place.create()
    place.write("a.parquet", [{"id": 1}])
    other = place.files.with_name("other") if known else place.files
    other.mkdir(exist_ok=True)
    if known:
        place.add()
    link(place.files / "a.parquet", other / name)
    with pytest.raises(DataError, match=r"names of one file \(a link\)"):
        place.add(source_path=str(other))
    place.add(source_path=str(other), check_duplicate_files="false")
    assert [row["id"] for row in place.rows()] == [1, 1]


def test_links_to_files_that_are_not_imported_are_files_as_any(place: Place) -> None:
    place.create()
    place.write("../elsewhere/a.parquet", [{"id": 1}])
    place.write("../elsewhere/b.parquet", [{"id": 2}])
    (place.files / "a.parquet").symlink_to(place.files.parent / "elsewhere" / "a.parquet")
    os.link(place.files.parent / "elsewhere" / "b.parquet", place.files / "b.parquet")
    place.add()
    assert [row["id"] for row in place.rows()] == [1, 2]
