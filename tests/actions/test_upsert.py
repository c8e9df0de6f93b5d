"""Upsert on lane local leaves exactly the last row of every key, whatever the table held, and refuses unsupported cases by name."""

from __future__ import annotations

import json
import random
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSpec
from iceberg_ops.config.job_spec import Source
from iceberg_ops.data.writing.upsert_keys import UpsertKeys
from iceberg_ops.errors import DataError, OptionError, SchemaError, UnsupportedError
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import IDENTITY, bucket
from iceberg_ops.spec.types import DOUBLE, LONG, STRING, UNKNOWN, VARIANT, GeometryType, IcebergType, NestedField, list_of, map_of
from iceberg_ops.table.manifests import entries_of, manifests_of
from tests.actions.rows_place import RowsPlace

SCHEMA = Schema.of(
    NestedField(1, "region", STRING, required=True),
    NestedField(2, "id", LONG, required=True),
    NestedField(3, "name", STRING, required=True),
    NestedField(4, "score", DOUBLE),
    identifier_field_ids=(1, 2),
)
BY_REGION = PartitionSpec(1, (PartitionField((1,), 1000, IDENTITY, "region"),))
BY_BUCKET = PartitionSpec(1, (PartitionField((2,), 1000, bucket(4), "id_bucket"),))
BY_NAME = PartitionSpec(1, (PartitionField((3,), 1000, IDENTITY, "name"),))
TYPES = {"REGION": pa.string(), "id": pa.int32(), "name": pa.string(), "score": pa.float32()}
OF_OPERATION = {"delete-when": "op = 'D'", "source-only-columns": "op"}


def row(region: str, key: int, name: str | None = "n", score: float | None = None, **more: Any) -> dict[str, Any]:
    return {"REGION": region, "id": key, "name": name, "score": score, **more}


def source(place: RowsPlace, rows: list[dict[str, Any]], **more: pa.DataType) -> Source:
    return place.source(rows, pa.schema(list((TYPES | more).items())))


def contents(place: RowsPlace) -> dict[tuple[str, int], tuple[str, float | None]]:
    rows = place.rows()
    found = {(r["region"], r["id"]): (r["name"], r["score"]) for r in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("spec", [UNPARTITIONED, BY_REGION, BY_BUCKET], ids=["unpartitioned", "by-region", "by-bucket"])
def test_many_upserts_agree_with_a_dictionary(place: RowsPlace, version: str, spec: PartitionSpec) -> None:
    place.create(SCHEMA, spec, format__version=version)
    rng = random.Random(7)
    model: dict[tuple[str, int], tuple[str, float | None]] = {}
    for round_ in range(5):
        rows = {}
        for _ in range(40):
            key = (rng.choice("abc"), rng.randrange(30))
            rows[key] = row(*key, f"r{round_}", rng.choice([None, 1.0, 2.5]), op=rng.choice("IUUD"))
        report = place.run("upsert", source=source(place, list(rows.values()), op=pa.string()), options=OF_OPERATION)
        for key, r in rows.items():
            model.pop(key, None)
            if r["op"] != "D":
                model[key] = (r["name"], r["score"])
        assert contents(place) == model
        assert report.metrics["upserted-keys"] == len(rows)
    table = place.table()
    head = table.metadata.branch_head("main")
    assert head is not None
    found = {e.data_file.content for m in manifests_of(table, head) for e in entries_of(table, m)}
    assert found == {FileContent.DATA, FileContent.EQUALITY_DELETES}


def test_keys_in_an_older_partition_spec_are_found(place: RowsPlace) -> None:
    place.create(SCHEMA, BY_REGION)
    place.run("upsert", source=source(place, [row("a", 1), row("b", 2)]))
    table = place.table()
    evolution = SpecEvolution.of_table(table.metadata)
    evolution.add_field("id", bucket(4))
    commit(place.catalog, table, UpdateSpec(spec=evolution.apply()))
    place.run("upsert", source=source(place, [row("a", 1, "later"), row("c", 3)]))
    place.run("upsert", source=source(place, [row("a", 1, "last"), row("b", 2, "last")]))
    assert contents(place) == {("a", 1): ("last", None), ("b", 2): ("last", None), ("c", 3): ("n", None)}


def test_a_row_that_only_deletes_needs_its_key_and_nothing_else(place: RowsPlace) -> None:
    place.create(SCHEMA)
    place.run("upsert", source=source(place, [row("a", 1), row("a", 2)]))
    before = place.data_on_disk()
    with pytest.raises(DataError, match=r"column 'name' is required, but the row of key \(a, 2\) would have no value: .*\.parquet"):
        place.run("upsert", source=source(place, [row("a", 2, None, op="U")], op=pa.string()), options=OF_OPERATION)
    assert place.data_on_disk() == before
    place.run("upsert", source=source(place, [row("a", 1, None, op="D")], op=pa.string()), options=OF_OPERATION)
    assert set(contents(place)) == {("a", 2)}


@pytest.mark.parametrize(
    ("values", "type_", "wins"),
    [
        ([3, 9, 5], pa.int16(), 1),
        ([None, -9, None], pa.int64(), 1),
        (["a", "Z", "é"], pa.string(), 2),
        ([b"\x7f", b"\x80", b""], pa.binary(), 1),
        ([True, False, None], pa.bool_(), 0),
        ([5, 7, 7_000_000], pa.timestamp("us", "UTC"), 2),
    ],
)
def test_the_greatest_row_of_a_key_counts(place: RowsPlace, values: list[Any], type_: pa.DataType, wins: int) -> None:
    place.create(SCHEMA)
    rows = [row("a", 1, f"v{i}", at=at) for i, at in enumerate(values)] + [row("a", 2, at=None)]
    place.run("upsert", source=source(place, rows, at=type_), options={"order-by": "AT", "source-only-columns": "at"})
    assert contents(place) == {("a", 1): (f"v{wins}", None), ("a", 2): ("n", None)}


@pytest.mark.parametrize(
    "type_", [VARIANT, GeometryType(), map_of(3, STRING, 4, LONG), list_of(3, map_of(4, STRING, 5, LONG))], ids=str
)
def test_rows_are_ordered_by_no_column_whose_values_have_no_order(place: RowsPlace, type_: IcebergType) -> None:
    schema = Schema.of(NestedField(1, "k", LONG), NestedField(2, "v", type_))
    for name in ("t", "other"):
        place.create(schema, name=name, format__version="3")
    with pytest.raises(OptionError, match=f"order-by = 'V': rows cannot be ordered by a column of type {type_}"):
        place.run("upsert", source=Source(format="table", table="test.db.other"), options={"upsert-keys": "k", "order-by": "V"})


def test_two_rows_of_one_key_that_nothing_tells_apart_are_an_error_and_nothing_is_left(place: RowsPlace) -> None:
    place.create(SCHEMA)
    twice = [row("a", 1, "x"), row("a", 1, "y"), row("b", 1)]
    with pytest.raises(DataError, match=r"2 source rows of key \(a, 1\) \(order-by says which"):
        place.run("upsert", source=source(place, twice))
    tied = [{**r, "at": at} for r, at in zip([*twice, row("a", 1)], (5, 5, 5, 4), strict=True)]
    with pytest.raises(DataError, match=r"2 source rows of key \(a, 1\) with the same greatest 'at'"):
        place.run("upsert", source=source(place, tied, at=pa.int64()), options={"order-by": "at", "source-only-columns": "at"})
    assert place.data_on_disk() == set()


def test_null_keys_are_keys_and_the_rows_of_another_table_are_a_source(place: RowsPlace) -> None:
    schema = Schema.of(NestedField(1, "k", LONG), NestedField(2, "v", STRING))
    place.create(schema)
    place.create(schema, name="other")
    rows: list[dict[str, Any]] = [{"k": 1, "v": "a"}, {"k": None, "v": "b"}]
    types = pa.schema({"k": pa.int64(), "v": pa.string()})
    place.run("append", name="other", source=place.source(rows, types))
    for _ in range(2):
        place.run("upsert", source=Source(format="table", table="test.db.other"), options={"upsert-keys": "K"})
    assert place.rows() == rows
    with pytest.raises(DataError, match=r"key \(NULL\)"):
        place.run("upsert", source=place.source([rows[1], rows[1]], types), options={"upsert-keys": "k"})


def test_an_upsert_is_done_once_per_run_key_and_an_empty_source_is_nothing(place: RowsPlace) -> None:
    place.create(SCHEMA)
    one: dict[str, Any] = {"source": source(place, [row("a", 1)]), "run_key": "k"}
    assert [place.run("upsert", **one).status for _ in range(2)] == ["committed", "already-committed"]
    assert place.run("upsert", source=source(place, [])).status == "nothing-to-do"


def test_a_required_column_must_be_in_the_source_also_where_rows_only_delete(place: RowsPlace) -> None:
    place.create(SCHEMA)
    gone = place.source([{"region": "a", "id": 1}], pa.schema({"region": pa.string(), "id": pa.int64()}))
    with pytest.raises(SchemaError, match="required column 'name' is not in the source"):
        place.run("upsert", source=gone, options={"delete-when": "true"})


@pytest.mark.parametrize("type_", [UNKNOWN, VARIANT, GeometryType(), DOUBLE])
def test_a_column_without_one_stored_exact_value_is_no_key(place: RowsPlace, type_: IcebergType) -> None:
    """A delete file would lack an unknown column, and the table could not be read."""
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "k", type_))
    place.create(schema, format__version="3")
    place.create(schema, name="from", format__version="3")
    with pytest.raises(SchemaError, match=f"'k' of type {type_} cannot be a key"):
        place.run("upsert", source=Source(format="table", table="test.db.from"), options={"upsert-keys": "id,k"})


def test_what_others_commit_meanwhile_is_neither_lost_nor_a_conflict(place: RowsPlace) -> None:
    place.create(SCHEMA)
    place.run("upsert", source=source(place, [row("a", 1), row("a", 2)]))
    other = source(place, [row("a", 2, "other"), row("a", 3, "other")])
    place.run("upsert", lambda: place.run("upsert", source=other), source=source(place, [row("a", 1, "mine"), row("a", 2, "mine")]))
    assert contents(place) == {("a", 1): ("mine", None), ("a", 2): ("mine", None), ("a", 3): ("other", None)}


def test_a_failure_at_the_end_leaves_no_file(place: RowsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: UpsertKeys) -> None:
        raise OSError("disk full")

    place.create(SCHEMA)
    monkeypatch.setattr(UpsertKeys, "close", fails)
    with pytest.raises(OSError, match="disk full"):
        place.run("upsert", source=source(place, [row("a", 1)]))
    assert place.data_on_disk() == set()


IN_ORDER = {
    "csv": "region,id,name,op,seq\na,1,old,U,9\na,1,new,U,10\na,2,old,U,9\na,2,gone,D,10\n",
    "json": "".join(
        json.dumps({"region": "a", "id": key, "name": name, "op": op, "seq": seq}) + "\n"
        for key, name, op, seq in [(1, "old", "U", 9), (1, "new", "U", 10), (2, "old", "U", 9), (2, "gone", "D", 10)]
    ),
}
BY_SEQ = {"order-by": "SEQ", "delete-when": "op = 'D'", "source-only-columns": "op,seq"}


def in_order(place: RowsPlace, form: str, options: dict[str, str]) -> Source:
    path = place.folder / f"changes.{form}"
    path.write_text(IN_ORDER[form])
    return Source(format=form, paths=[str(path)], options=options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("form", "options"), [("csv", {"inferSchema": "true"}), ("json", {})], ids=["csv", "json"])
def test_numbers_of_text_that_the_table_does_not_have_tell_the_last_row(
    place: RowsPlace, form: str, options: dict[str, str]
) -> None:
    place.create(SCHEMA)
    place.run("upsert", source=in_order(place, form, options), options=BY_SEQ)
    assert contents(place) == {("a", 1): ("new", None)}


@pytest.mark.parametrize("dry_run", [True, False], ids=["dry run", "run"])
@pytest.mark.parametrize(
    ("form", "options", "says"),
    [("csv", {}, "inferSchema = true"), ("json", {"primitivesAsString": "true"}, "leave out the source option primitivesAsString")],
    ids=["csv", "json"],
)
def test_text_of_which_nobody_says_the_type_tells_no_last_row(
    place: RowsPlace, form: str, options: dict[str, str], says: str, dry_run: bool
) -> None:
    place.create(SCHEMA)
    with pytest.raises(OptionError, match=f"order-by: the table has no column 'SEQ'.*'9' is greater than '10': .*{says}"):
        place.run("upsert", source=in_order(place, form, options), options=BY_SEQ, dry_run=dry_run)


@pytest.mark.parametrize(
    ("spec", "properties", "options", "more", "error", "says"),
    [
        (UNPARTITIONED, {"format__version": "1"}, {}, {}, UnsupportedError, "v1"),
        (BY_NAME, {}, {}, {}, OptionError, "comes from column 'name', which is not a key"),
        (UNPARTITIONED, {}, {"upsert-keys": "score"}, {}, SchemaError, "cannot be a key"),
        (UNPARTITIONED, {}, {"upsert-keys": "nope"}, {}, SchemaError, "not a column"),
        (UNPARTITIONED, {}, {"upsert-keys": "id,ID"}, {}, OptionError, "'ID' names column 'id' a second time"),
        (UNPARTITIONED, {}, {"source-only-columns": "nope"}, {}, OptionError, "not a column of the source"),
        (UNPARTITIONED, {}, {"order-by": "nope"}, {}, OptionError, "nope"),
        (UNPARTITIONED, {}, {"delete-when": "nope = 1"}, {}, OptionError, "nope"),
        (UNPARTITIONED, {}, {"delete-when": "id ="}, {}, OptionError, "delete-when"),
        (UNPARTITIONED, {}, {"delete-when": "hash(id) = 1"}, {}, UnsupportedError, "function hash.*: run it with --lane spark"),
        (UNPARTITIONED, {}, {"order-by": "score"}, {}, UnsupportedError, "of type float: run it with --lane spark$"),
        (UNPARTITIONED, {}, {"write-tasks": "2"}, {}, UnsupportedError, "upsert with write-tasks: run it with --lane spark$"),
        (UNPARTITIONED, {}, {}, {"extra": pa.int64()}, SchemaError, "'extra' is not a column of the table"),
        (UNPARTITIONED, {}, {}, {"score": pa.string()}, UnsupportedError, "as score of type double: run it with --lane spark$"),
        (UNPARTITIONED, {}, {}, {"score": pa.timestamp("ns")}, UnsupportedError, "score of type .*--lane spark$"),
        (
            UNPARTITIONED,
            {},
            {"order-by": "x", "source-only-columns": "x"},
            {"x": pa.uint64()},
            UnsupportedError,
            "x of type uint64",
        ),
    ],
)
def test_what_can_not_be_upserted_is_refused(
    place: RowsPlace,
    spec: PartitionSpec,
    properties: dict[str, str],
    options: dict[str, str],
    more: dict[str, pa.DataType],
    error: type[Exception],
    says: str,
) -> None:
    place.create(SCHEMA, spec, **properties)
    with pytest.raises(error, match=says):
        place.run("upsert", source=source(place, [row("a", 1)], **more), options=options)
    assert place.data_on_disk() == set()


def test_a_key_is_no_column_of_the_source_only(place: RowsPlace) -> None:
    place.create(SCHEMA)
    with pytest.raises(OptionError, match="'id' is a key of the upsert, and a key is stored"):
        place.run("upsert", source=source(place, [row("a", 1)]), options={"source-only-columns": "ID"})
