"""Partition values that another writer's promotion changed: no row is missed because of them, even after the old schemas are
gone."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import MergeClause
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import UnsupportedError
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.scan.planning import Scan, plan
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.promotion import FirstSchemas, first_schemas
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.schema_evolution import SchemaEvolution
from iceberg_ops.spec.transforms import IDENTITY, Transform, bucket, truncate
from iceberg_ops.spec.types import DATE, INT, LONG, STRING, TIMESTAMP, IcebergType, NestedField, PrimitiveType
from iceberg_ops.spec.updates import RemoveSchemas
from tests.actions.rows_place import RowsPlace

LEAST = -(2**31)
NEWEST_ONLY = {"older-than": "2100-01-01T00:00:00Z", "retain-last": "1", "clean-expired-metadata": "true"}
ARROW = {INT: pa.int32(), LONG: pa.int64(), DATE: pa.date32(), TIMESTAMP: pa.timestamp("us")}
DAYS = [dt.date(2020, 1, day) for day in (1, 2, 3, 4)]
AT_2 = "k = timestamp '2020-01-02 00:00:00'"


def at(day: dt.date) -> dt.datetime:
    return dt.datetime(day.year, day.month, day.day)


def place_of(tmp_path: Path, transform: Transform, type_: PrimitiveType, keys: Sequence[object]) -> RowsPlace:
    """A v3 table with a row for each key, in the type that the column begins with."""
    place = RowsPlace.at(tmp_path)
    spec = PartitionSpec(0, (PartitionField((1,), 1000, transform, "p"),))
    place.create(Schema.of(NestedField(1, "k", type_), NestedField(2, "v", STRING)), spec, format__version="3")
    append(place, type_, keys, "old")
    return place


def append(place: RowsPlace, type_: IcebergType, keys: Sequence[object], v: str) -> None:
    schema = pa.schema({"k": ARROW[type_], "v": pa.string()})  # type: ignore[index]
    place.run("append", source=place.source([{"k": k, "v": v} for k in keys], schema))


def upsert(place: RowsPlace, type_: IcebergType, keys: Sequence[object]) -> None:
    schema = pa.schema({"k": ARROW[type_], "v": pa.string()})  # type: ignore[index]
    place.run("upsert", source=place.source([{"k": k, "v": "new"} for k in keys], schema), options={"upsert-keys": "k"})


def evolve(place: RowsPlace, *, to: IcebergType | None = None, adding: str | None = None) -> None:
    """As another writer does it, regardless of partition values."""
    table = place.table()
    steps = SchemaEvolution(table.metadata.schema, table.metadata.last_column_id, format_version=3)
    if to is not None:
        steps = steps.update_type("k", to)
    if adding is not None:
        steps = steps.add_column(adding, INT)
    place.set_schema(steps.apply())


def forget_old_schemas(place: RowsPlace) -> None:
    """As another engine cleans metadata."""
    table = place.table()
    gone = tuple(s.schema_id for s in table.metadata.schemas if s.schema_id != table.metadata.current_schema_id)
    place.catalog.commit_table(table, (), (RemoveSchemas(gone),))


def schema_ids(place: RowsPlace) -> list[int]:
    return [s.schema_id for s in place.table().metadata.schemas]


OLD_AND_NEW = [
    pytest.param(truncate(10), INT, LONG, [LEAST, 5], [LEAST], id="int under truncate"),
    pytest.param(truncate(2**31 - 1), INT, LONG, [100, 5], [100], id="int under the widest truncate"),
    pytest.param(bucket(16), DATE, TIMESTAMP, DAYS, [at(d) for d in DAYS], id="date under bucket"),
    pytest.param(IDENTITY, DATE, TIMESTAMP, DAYS, [at(d) for d in DAYS], id="date under identity"),
]


@pytest.mark.parametrize("who", ["our expiry", "another engine"])
@pytest.mark.parametrize(("transform", "old", "new", "keys", "again"), OLD_AND_NEW)
def test_an_upsert_after_a_promotion_is_refused_also_once_old_schemas_are_cleaned(
    tmp_path: Path,
    transform: Transform,
    old: PrimitiveType,
    new: PrimitiveType,
    keys: Sequence[object],
    again: Sequence[object],
    who: str,
) -> None:
    place = place_of(tmp_path, transform, old, keys)
    evolve(place, to=new)
    append(place, new, [2_000_000_000 if new == LONG else dt.datetime(2022, 1, 1)], "later")
    place.run("expire_snapshots", options=NEWEST_ONLY)
    if who == "another engine":
        forget_old_schemas(place)
    with pytest.raises(UnsupportedError, match=r"upsert into test\.db\.t, because another writer .*use a merge"):
        upsert(place, new, again)
    assert sorted(r["v"] for r in place.rows()) == ["later", *["old"] * len(keys)]


def test_an_upsert_is_not_refused_where_no_row_lies_in_the_partition_that_wraps(tmp_path: Path) -> None:
    place = place_of(tmp_path, truncate(10), INT, [LEAST + 8, 5])
    evolve(place, to=LONG)
    upsert(place, LONG, [LEAST + 8, LEAST])
    assert [(r["k"], r["v"]) for r in place.rows()] == [(LEAST + 8, "new"), (LEAST, "new"), (5, "old")]


def test_the_schemas_that_a_column_began_with_are_its_first_and_the_one_before() -> None:
    k, v = NestedField(1, "k", TIMESTAMP), NestedField(2, "v", STRING)
    born_later = [replace(Schema.of(v), schema_id=3), replace(Schema.of(v, k), schema_id=4), replace(Schema.of(k), schema_id=5)]
    assert first_schemas(born_later, 1) == FirstSchemas(frozenset({3, 4}), True)
    assert first_schemas(born_later[1:], 1) == FirstSchemas(frozenset({4}), False)
    assert first_schemas([replace(Schema.of(k), schema_id=0)], 1) == FirstSchemas(frozenset({0}), True)
    assert first_schemas([], 1) == FirstSchemas(frozenset(), False)


def test_a_column_that_always_held_timestamps_takes_upserts_after_our_expiry(tmp_path: Path) -> None:
    """The expiry keeps the schemas that show it."""
    place = RowsPlace.at(tmp_path)
    spec = PartitionSpec(0, (PartitionField((1,), 1000, bucket(16), "p"),))
    place.create(Schema.of(NestedField(1, "k", TIMESTAMP), NestedField(2, "v", STRING)), spec, format__version="3")
    for name in ("a", "b"):
        append(place, TIMESTAMP, [at(DAYS[0])], "old")
        evolve(place, adding=name)
    append(place, TIMESTAMP, [at(DAYS[1])], "old")
    place.run("expire_snapshots", options=NEWEST_ONLY)
    assert schema_ids(place) == [0, 2]
    upsert(place, TIMESTAMP, [at(DAYS[0])])
    assert [r["v"] for r in place.rows()] == ["new", "old"]
    assert len(plan(place.table(), Scan(where=parse_where(AT_2))).tasks) == 1, "buckets prune"


@pytest.mark.parametrize("is_forgotten", [False, True])
@pytest.mark.parametrize("transform", [bucket(16), IDENTITY], ids=str)
def test_rows_of_promoted_dates_are_found(tmp_path: Path, transform: Transform, is_forgotten: bool) -> None:
    place = place_of(tmp_path, transform, DATE, DAYS)
    evolve(place, to=TIMESTAMP)
    if is_forgotten:
        forget_old_schemas(place)
    for where in (AT_2, f"{AT_2} OR k = timestamp '2029-01-01 00:00:00'", "k IN (timestamp '2020-01-02 00:00:00')"):
        assert scan_table(place.table(), Scan(where=parse_where(where))).num_rows == 1, where
    not_2 = parse_where("k <> timestamp '2020-01-02 00:00:00'")
    assert scan_table(place.table(), Scan(where=not_2)).num_rows == 3
    assert place.run("delete", where=AT_2).status == "committed"
    assert [r["k"].day for r in place.rows()] == [1, 3, 4]


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_a_merge_finds_the_rows_of_promoted_dates(tmp_path: Path, mode: str) -> None:
    place = place_of(tmp_path, bucket(16), DATE, DAYS)
    evolve(place, to=TIMESTAMP)
    source = place.source([{"k": at(DAYS[1]), "v": "new"}], pa.schema({"k": pa.timestamp("us"), "v": pa.string()}))
    clauses = (MergeClause(when="matched", action="update"), MergeClause(when="not-matched", action="insert"))
    place.merge(mode, source, "target.k = source.k", *clauses)
    assert [r["v"] for r in place.rows()] == ["old", "new", "old", "old"]
