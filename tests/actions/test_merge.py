"""Merge on lane local: each row meets the clause that SQL defines, in every mode and format, and ambiguous cases are refused."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions.local import source_in_memory
from iceberg_ops.config.job_spec import MergeClause, Source
from iceberg_ops.errors import DataError, IcebergOpsError, OptionError, SchemaError, UnsupportedError, WhereError
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import DOUBLE, INT, LONG, STRING, NestedField
from tests.actions.rows_place import RowsPlace

SCHEMA = Schema.of(
    NestedField(1, "region", STRING), NestedField(2, "id", LONG), NestedField(3, "name", STRING, True), NestedField(4, "n", INT)
)
BY_REGION = PartitionSpec(1, (PartitionField((1,), 1000, IDENTITY, "region"),))
ROWS = pa.schema({"region": pa.string(), "id": pa.int64(), "name": pa.string(), "n": pa.int32()})
ON = "target.id = source.id AND source.Region = target.region"
WAYS = [("1", "copy-on-write"), ("2", "copy-on-write"), ("3", "copy-on-write"), ("2", "merge-on-read"), ("3", "merge-on-read")]
Row = dict[str, Any]
Key = tuple[str | None, int | None]


def when(kind: str, action: str, condition: str | None = None, **assignments: str) -> MergeClause:
    return MergeClause(when=kind, action=action, condition=condition, assignments=assignments or None)  # type: ignore[arg-type]


def row(region: str | None, id_: int | None, name: str | None = "n", n: int | None = None, **more: Any) -> Row:
    return {"region": region, "id": id_, "name": name, "n": n, **more}


def source(place: RowsPlace, rows: list[Row], **more: pa.DataType) -> Source:
    types = {**dict(zip(ROWS.names, ROWS.types, strict=True)), **more}
    return place.source(rows, pa.schema(list(types.items())))


def fill(place: RowsPlace, *files: list[Row]) -> None:
    for rows in files:
        place.run("append", source=place.source(rows, ROWS))


UPSERT = (when("matched", "update"), when("not-matched", "insert"))
CLAUSES = (
    when("matched", "delete", "source.op = 'D'"),
    when("matched", "update", "target.n > 1 AND source.op = 'U'", n="source.n", name="source.name"),
    when("matched", "update", "n2 > 8", n="NULL"),
    when("not-matched", "insert", "source.op <> 'D' AND n2 IS NOT NULL"),
    when("not-matched", "insert", "source.op = 'U'", id="source.id", name="'late'", region="region2"),
    when("not-matched-by-source", "delete", "target.region = 'c' AND target.name <> 'x'"),
    when("not-matched-by-source", "update", "target.n = 2", n="-2", region="target.name"),
)


def expected(target: list[Row], changes: list[Row]) -> list[Row]:
    """What ``CLAUSES`` make of the rows, said once more in Python."""
    found, met = [], set()
    by_key = {(c["region"], c["id"]): c for c in changes if None not in (c["region"], c["id"])}
    for t in target:
        key = (t["region"], t["id"])
        if (c := by_key.get(key)) is not None:
            met.add(key)
            if c["op"] == "D":
                continue
            if t["n"] is not None and t["n"] > 1 and c["op"] == "U":
                t = {**t, "n": c["n"], "name": c["name"]}
            elif c["n2"] is not None and c["n2"] > 8:
                t = {**t, "n": None}
        elif t["region"] == "c" and t["name"] != "x":
            continue
        elif t["n"] == 2:
            t = {**t, "n": -2, "region": t["name"]}
        found.append(t)
    for c in changes:
        if (c["region"], c["id"]) in met:
            continue
        if c["op"] not in ("D", None) and c["n2"] is not None:
            found.append({k: c[k] for k in ROWS.names})
        elif c["op"] == "U":
            found.append(row(c["region2"], c["id"], "late"))
    return sorted(found, key=lambda r: [(v is None, str(v)) for v in r.values()])


@pytest.mark.parametrize("spec", [UNPARTITIONED, BY_REGION], ids=["whole", "by region"])
@pytest.mark.parametrize(("version", "mode"), WAYS, ids=[" ".join(way) for way in WAYS])
def test_the_first_clause_that_fits_applies(place: RowsPlace, version: str, mode: str, spec: PartitionSpec) -> None:
    place.create(SCHEMA, spec, format__version=version)
    rng = random.Random(f"{version}{mode}{spec.spec_id}")
    region = ["a", "b", "c"]

    def name() -> str:
        return rng.choice("xyz")

    rows = [row(rng.choice([*region, None]) if spec is UNPARTITIONED else rng.choice(region), i % 25 or None, name(), i % 4 or None)
            for i in range(90)]  # fmt: skip
    fill(place, rows[:40], rows[40:70], rows[70:])
    for _ in range(3):
        changes = {
            (rng.choice(region), rng.choice([None, *range(30)])): (rng.choice(["D", "U", "I", None]), rng.choice([None, 3, 9]))
            for _ in range(40)
        }
        made = [row(r, i, name(), rng.choice([None, 1, 2, 5]), op=op, n2=n2, region2=r) for (r, i), (op, n2) in changes.items()]
        before = place.rows()
        given = source(place, made, op=pa.string(), n2=pa.int16(), region2=pa.string(), id=pa.int32())
        place.merge(mode, given, ON, *CLAUSES)
        assert place.rows() == expected(before, made)


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_changed_rows_keep_their_ids_and_new_ones_get_their_own(place: RowsPlace, mode: str) -> None:
    place.create(SCHEMA, format__version="3")
    fill(place, [row("a", i) for i in range(5)], [row("b", i) for i in range(5)])
    lineage = ["region", "id", "n", "_row_id", "_last_updated_sequence_number"]
    before = {(r["region"], r["id"]): tuple(r.values())[2:] for r in place.rows(columns=lineage)}
    next_id = place.table().metadata.next_row_id or 0
    place.merge(mode, source(place, [row("a", 3, n=7), row("c", 1, n=7), row("c", 2, n=7)]), ON, *UPSERT)
    number = place.table().metadata.last_sequence_number
    after = {(r["region"], r["id"]): tuple(r.values())[2:] for r in place.rows(columns=lineage)}
    new = {key: after.pop(key) for key in list(after) if key[0] == "c"}
    assert after == before | {("a", 3): (7, before["a", 3][1], number)}
    assert {(n, at) for n, _, at in new.values()} == {(7, number)}
    assert len({i for _, i, _ in new.values()}) == 2
    assert min(i for _, i, _ in new.values()) >= next_id


@pytest.mark.parametrize(
    ("clauses", "is_error"),
    [
        ((when("matched", "update"),), True),
        ((when("matched", "delete", "source.n = 5"),), True),
        ((when("matched", "delete"), when("not-matched", "insert")), False),
        ((when("not-matched", "insert"), when("not-matched-by-source", "delete")), False),
    ],
    ids=["update", "a condition that holds for none", "only an unconditional delete", "no matched clause"],
)
def test_two_source_rows_for_one_target_row(place: RowsPlace, clauses: tuple[MergeClause, ...], is_error: bool) -> None:
    place.create(SCHEMA)
    fill(place, [row("a", 1), row("a", 2)])
    before = place.data_on_disk()
    twice = source(place, [row("a", 1, n=8), row("a", 1, n=9), row("b", 1)])
    for mode in ("merge-on-read", "copy-on-write"):
        if is_error:
            with pytest.raises(DataError, match="merge: 1 more source rows match target rows that another"):
                place.merge(mode, twice, ON, *clauses)
            assert place.data_on_disk() == before
    if not is_error:
        place.merge("merge-on-read", twice, ON, *clauses)
        kept = [("a", 1)] if clauses[0].when == "not-matched" else [("a", 2)]
        assert [(r["region"], r["id"]) for r in place.rows()] == [*kept, ("b", 1)]


def test_conditions_of_on_decide_what_matches(place: RowsPlace) -> None:
    place.create(SCHEMA)
    fill(place, [row("a", 1, n=1), row("b", 1, n=5), row("a", None, n=9)])
    changes = source(place, [row("x", 1, "new", 3), row("y", 1, "off", 0), row("z", None, "null", 1)])
    on = "(source.id = target.id AND target.n BETWEEN 0 AND 4) AND source.n > 0 AND NOT target.region LIKE 'q%'"
    place.merge("copy-on-write", changes, on, when("matched", "update", name="source.name"), when("not-matched", "insert"),
                when("not-matched-by-source", "update", n="0"))  # fmt: skip
    assert [tuple(r.values()) for r in place.rows()] == [
        ("a", 1, "new", 1), ("a", None, "n", 0), ("b", 1, "n", 0), ("y", 1, "off", 0), ("z", None, "null", 1)
    ]  # fmt: skip


def test_a_source_row_that_on_rules_out_is_inserted_though_another_matches(place: RowsPlace) -> None:
    place.create(SCHEMA)
    fill(place, [row("a", 1), row("a", 2)])
    changes = source(place, [row("b", 1, n=1), row("b", 2, n=0)])
    place.merge("merge-on-read", changes, "target.id = source.id AND source.n > 0", when("matched", "delete"), UPSERT[1])
    assert [(r["region"], r["id"]) for r in place.rows()] == [("a", 2), ("b", 2)]


def test_an_empty_table_and_an_empty_source(place: RowsPlace) -> None:
    place.create(SCHEMA)
    for mode in ("merge-on-read", "copy-on-write"):
        assert place.merge(mode, source(place, []), ON, *UPSERT).status == "nothing-to-do"
    place.merge("merge-on-read", source(place, [row("a", 1), row("a", None)]), ON, *UPSERT)
    place.merge("copy-on-write", source(place, [row("a", None)]), ON, *UPSERT)
    assert [r["id"] for r in place.rows()] == [1, None, None]
    report = place.merge("copy-on-write", source(place, []), ON, *UPSERT, when("not-matched-by-source", "delete"))
    assert (place.rows(), report.metrics["deleted-records"]) == ([], 3)


def test_an_insert_stores_write_defaults_where_it_leaves_columns_out(place: RowsPlace) -> None:
    schema = Schema.of(NestedField(1, "id", LONG), NestedField(2, "s", STRING, write_default="d"), NestedField(3, "n", INT))
    place.create(schema, format__version="3")
    ids = place.source([{"id": 1}], pa.schema({"id": pa.int64()}))
    place.merge("merge-on-read", ids, "target.id = source.id", when("not-matched", "insert", id="source.id"))
    assert place.rows() == [{"id": 1, "s": "d", "n": None}]
    place.update("merge-on-read", {"s": "NULL", "n": "4"})
    place.update("merge-on-read", {"s": "DEFAULT", "n": "default"})
    assert place.rows() == [{"id": 1, "s": "d", "n": None}]


def test_a_required_column_without_a_value_is_named_with_its_row_and_nothing_is_left(place: RowsPlace) -> None:
    place.create(SCHEMA)
    fill(place, [row("a", 1), row("a", 2)])
    before = place.data_on_disk()
    changes = source(place, [row("a", 2, None), row("b", 1)])
    with pytest.raises(DataError, match=r"column 'name' is required, but the row at position 1 of .* would have no value"):
        place.merge("copy-on-write", changes, ON, when("matched", "update"))
    with pytest.raises(DataError, match=r"column 'name' is required, but row 1 of source .* would have no value"):
        place.merge("merge-on-read", changes, ON, when("not-matched", "insert", id="source.id"))
    assert place.data_on_disk() == before
    place.merge("copy-on-write", changes, ON, when("matched", "delete"), when("not-matched", "insert", "source.id = 7", n="1"))
    assert [r["id"] for r in place.rows()] == [1]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_rows_that_came_meanwhile_are_met_and_not_inserted_twice(place: RowsPlace, mode: str) -> None:
    place.create(SCHEMA, commit_retry_min__wait__ms="1")
    fill(place, [row("a", 1)])
    changes = source(place, [row("a", 1, "new"), row("a", 2, "new")])
    report = place.merge(mode, changes, ON, *UPSERT, others=(lambda: fill(place, [row("a", 2, "old")]),))
    assert report.metrics["evaluations-count"] == 2
    assert [(r["id"], r["name"]) for r in place.rows()] == [(1, "new"), (2, "new")]


PLAIN = (when("matched", "update"),)


@pytest.mark.parametrize(
    ("on", "clauses", "more", "error", "says"),
    [
        ("", PLAIN, {}, OptionError, "on is empty"),
        (ON, (), {}, OptionError, "at least one WHEN"),
        (ON, (when("matched", "insert"),), {}, OptionError, "WHEN MATCHED cannot INSERT"),
        ("true", PLAIN, {}, UnsupportedError, "ON true, without an equality .*--lane spark$"),
        ("target.n > 1", PLAIN, {}, UnsupportedError, "--lane spark$"),
        ("target.id = source.id OR target.n = source.n", PLAIN, {}, UnsupportedError, "--lane spark$"),
        ("target.id <=> source.id", PLAIN, {}, UnsupportedError, "--lane spark$"),
        ("target.id = source.id + 1", PLAIN, {}, UnsupportedError, "--lane spark$"),
        (
            "target.id = source.id AND target.n < source.n",
            PLAIN,
            {},
            UnsupportedError,
            r"target.n < source.n.*--lane spark$",
        ),
        ("target.id = source.id AND rand() > 0.5", PLAIN, {}, UnsupportedError, "function rand.*--lane spark"),
        ("target.id = source.id AND target.n IN (SELECT 1)", PLAIN, {}, UnsupportedError, "a subquery.*--lane spark"),
        (
            "target.id = source.id",
            PLAIN,
            {"id": pa.float64()},
            UnsupportedError,
            "of types long and double,.*--lane spark$",
        ),
        ("target.id = source.x", PLAIN, {"x": pa.uint64()}, UnsupportedError, "x of type uint64.*--lane spark$"),
        ("id = source.id", PLAIN, {}, WhereError, "'id' is a column of both, target and source"),
        ("target.id = source.nope", PLAIN, {}, WhereError, "'nope' is not a column"),
        ("target.id = ", PLAIN, {}, WhereError, "cannot parse"),
        (
            ON,
            (when("matched", "update", "target.n < source.n"),),
            {},
            UnsupportedError,
            "WHEN clause 1 target.n < source.n: .*spark$",
        ),
        (
            ON,
            (when("matched", "update", n="source.n + 1"),),
            {},
            UnsupportedError,
            r"SET n = source.n \+ 1.*--lane spark$",
        ),
        (
            ON,
            (when("matched", "update", n="source.x"),),
            {"x": pa.int64()},
            UnsupportedError,
            "x of type long as n .*--lane spark$",
        ),
        (ON, (when("not-matched", "insert", n="target.n"),), {}, WhereError, "names a column of the target, which"),
        (ON, (when("not-matched", "insert", "target.n = 1"),), {}, WhereError, "names a column of the target, which"),
        (
            ON,
            (when("not-matched-by-source", "update", n="source.n"),),
            {},
            WhereError,
            "names a column of the source, which",
        ),
        (
            ON,
            PLAIN,
            {"n": pa.string()},
            UnsupportedError,
            "source column n of type string as n of type int.*--lane spark$",
        ),
        (ON, (when("matched", "update", n="'1'"),), {}, SchemaError, "string cannot be stored as int"),
        (ON, (when("matched", "update", n="2147483648"),), {}, DataError, "column 'n': 2147483648 does not fit int"),
        (ON, (when("matched", "update", "source.nope = 1"),), {}, WhereError, "nope"),
        (ON, PLAIN, {"target": pa.int32()}, UnsupportedError, "with a column that is called target.*--lane spark$"),
    ],
)
def test_what_can_not_be_is_refused_and_leaves_nothing(
    place: RowsPlace,
    on: str,
    clauses: tuple[MergeClause, ...],
    more: dict[str, pa.DataType],
    error: type[IcebergOpsError],
    says: str,
) -> None:
    place.create(SCHEMA)
    fill(place, [row("a", 1)])
    before = place.data_on_disk()
    with pytest.raises(error, match=says):
        place.merge("merge-on-read", source(place, [row("a", 1)] if "n" not in more else [], **more), on, *clauses)
    assert place.data_on_disk() == before


def test_a_source_must_be_there_and_hold_what_star_needs(place: RowsPlace) -> None:
    place.create(SCHEMA)
    ids = place.source([{"id": 1}], pa.schema({"id": pa.int64()}))
    with pytest.raises(OptionError, match=r"update \* needs every table column in the source; it lacks region, name, n"):
        place.merge("copy-on-write", ids, "target.id = source.id", when("matched", "update"))
    with pytest.raises(OptionError, match="is the target"):
        place.merge("copy-on-write", Source(format="table", table="test.db.t"), ON, *UPSERT)
    with pytest.raises(DataError, match="there is no such path"):
        place.merge("copy-on-write", Source(format="parquet", paths=[str(place.folder / "nothing")]), ON, *UPSERT)
    two = Source(format="parquet", paths=[*ids.paths, *source(place, []).paths])
    with pytest.raises(UnsupportedError, match=r"of different columns .*.*--lane spark$"):
        place.merge("copy-on-write", two, ON, *UPSERT)


def test_a_source_that_memory_should_not_hold_is_refused(place: RowsPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    place.create(SCHEMA)
    monkeypatch.setattr(source_in_memory, "MOST_BYTES", 100)
    with pytest.raises(UnsupportedError, match=r"a source of more than 0 MiB .*: run it with --lane spark$"):
        place.merge("copy-on-write", source(place, [row("a", i) for i in range(20)]), ON, *UPSERT)
    assert place.data_on_disk() == set()


def test_another_table_is_a_source_at_any_of_its_snapshots(place: RowsPlace) -> None:
    place.create(SCHEMA)
    place.create(Schema.of(*SCHEMA.fields, NestedField(5, "x", DOUBLE)), name="other")
    rows = [row("a", 1, "one", x=0.5)]
    types = pa.schema([*ROWS, ("x", pa.float64())])
    place.run("append", name="other", source=place.source(rows, types))
    first = place.table("other").metadata.current_snapshot_id
    place.run("append", name="other", source=place.source([row("a", 1, "two", x=0.5)], types))
    for snapshot in (first, None):
        other = Source(format="table", table="test.db.other", snapshot_id=snapshot)
        if snapshot is None:
            with pytest.raises(DataError, match="1 more source rows"):
                place.merge("merge-on-read", other, ON, *UPSERT)
        else:
            place.merge("merge-on-read", other, ON, *UPSERT, when("not-matched-by-source", "delete"))
    assert place.rows() == [row("a", 1, "one")]
