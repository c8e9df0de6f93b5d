"""Upsert leaves exactly the last row of every key, whatever the table held, in v2 and v3."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.metadata_updates import UpdateSpec
from iceberg_ops.config.job_spec import Source
from iceberg_ops.errors import DataError, OptionError, SchemaError, UnsupportedError, WhereError
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.spec_evolution import SpecEvolution
from iceberg_ops.spec.transforms import IDENTITY, bucket
from iceberg_ops.spec.types import DOUBLE, INT, LONG, STRING, NestedField
from iceberg_ops.table.manifests import entries_of, manifests_of
from tests.spark.conftest import Place

pytestmark = pytest.mark.spark

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
TYPES = {"region": pa.string(), "id": pa.int64(), "name": pa.string(), "score": pa.float64()}
Model = dict[tuple[str, int], dict[str, Any]]


def row(region: str, key: int, name: str | None = "n", score: float | None = None) -> dict[str, Any]:
    return {"region": region, "id": key, "name": name, "score": score}


def source(place: Place, rows: list[dict[str, Any]], **more: pa.DataType) -> Source:
    return place.parquet(pa.Table.from_pylist(rows, pa.schema(list((TYPES | more).items()))), f"source-{random.random()}.parquet")


def contents(place: Place, name: str = "t") -> Model:
    rows = place.rows(name)
    found = {(r["region"], r["id"]): r for r in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def delete_files(place: Place) -> list[FileContent]:
    table = place.table("t")
    head = table.metadata.branch_head("main")
    assert head is not None
    contents = [e.data_file.content for m in manifests_of(table, head) for e in entries_of(table, m)]
    return [c for c in contents if c is not FileContent.DATA]


@pytest.mark.parametrize("spec", [UNPARTITIONED, BY_REGION, BY_BUCKET], ids=["unpartitioned", "by-region", "by-bucket"])
def test_many_upserts_agree_with_a_dictionary(place: Place, version: str, spec: PartitionSpec) -> None:
    place.create("t", SCHEMA, spec, **{"format__version": version})
    rng = random.Random(7)
    model: Model = {}
    for round_ in range(5):
        rows = {}
        for _ in range(40):
            key = (rng.choice("abc"), rng.randrange(30))
            rows[key] = {**row(*key, name=f"r{round_}", score=rng.choice([None, 1.0, 2.5])), "op": rng.choice("IUUD")}
        report = place.run(
            "upsert",
            "t",
            source=source(place, list(rows.values()), op=pa.string()),
            options={"delete-when": "op = 'D'", "source-only-columns": "op"},
        )
        for key, r in rows.items():
            model.pop(key, None)
            if r["op"] != "D":
                model[key] = {k: v for k, v in r.items() if k != "op"}
        assert contents(place) == model
        assert report.metrics["upserted-keys"] == len(rows)
    assert set(delete_files(place)) == {FileContent.EQUALITY_DELETES}


def test_keys_in_an_older_partition_spec_are_found(place: Place) -> None:
    place.create("t", SCHEMA, BY_REGION)
    place.run("upsert", "t", source=source(place, [row("a", 1), row("b", 2)]))
    table = place.table("t")
    evolution = SpecEvolution.of_table(table.metadata)
    evolution.add_field("id", bucket(4))
    commit(place.catalog, table, UpdateSpec(spec=evolution.apply()))
    place.run("upsert", "t", source=source(place, [row("a", 1, "later"), row("c", 3)]))
    place.run("upsert", "t", source=source(place, [row("a", 1, "last"), row("b", 2, "last")]))
    assert contents(place) == {
        ("a", 1): row("a", 1, "last"), ("b", 2): row("b", 2, "last"), ("c", 3): row("c", 3)
    }  # fmt: skip


def test_a_row_that_only_deletes_needs_its_key_and_nothing_else(place: Place) -> None:
    place.create("t", SCHEMA)
    place.run("upsert", "t", source=source(place, [row("a", 1), row("a", 2)]))
    gone = [{**row("a", 1, None), "op": "D"}]
    options = {"delete-when": "op = 'D'", "source-only-columns": "op"}
    place.run("upsert", "t", source=source(place, gone, op=pa.string()), options=options)
    assert set(contents(place)) == {("a", 2)}
    with pytest.raises(DataError, match="'name' is required"):
        place.run("upsert", "t", source=source(place, [{**row("a", 2, None), "op": "U"}], op=pa.string()), options=options)


def test_the_last_row_of_a_key_counts_where_there_is_an_order(place: Place) -> None:
    place.create("t", SCHEMA)
    rows = [{**row("a", 1, f"v{at}"), "at": at} for at in (3, 9, 5)] + [{**row("a", 2), "at": None}]
    place.run("upsert", "t", source=source(place, rows, at=pa.int64()), options={"order-by": "at", "source-only-columns": "at"})
    assert contents(place)["a", 1]["name"] == "v9"
    assert ("a", 2) in contents(place)


def test_text_that_nobody_gave_a_type_tells_no_last_row(place: Place) -> None:
    place.create("t", SCHEMA)
    (place.folder / "in" / "hour=9").mkdir(parents=True)
    (place.folder / "in" / "hour=9" / "a.csv").write_text("region,id,name,seq\na,1,old,9\na,1,new,10\n")
    options = {"order-by": "seq", "source-only-columns": "seq,hour"}
    plain = Source(format="csv", paths=[str(place.folder / "in")])
    typed = Source(format="csv", paths=[str(place.folder / "in")], options={"inferSchema": "true"})
    with pytest.raises(OptionError, match=r"no column 'seq'.*'9' is greater than '10': set the source option inferSchema = true"):
        place.run("upsert", "t", source=plain, options=options)
    with pytest.raises(OptionError, match="no column 'hour', and its values are text in names of folders"):
        place.run("upsert", "t", source=typed, options={**options, "order-by": "hour"})
    place.run("upsert", "t", source=typed, options=options)
    assert contents(place)["a", 1]["name"] == "new"


def test_two_rows_of_one_key_that_nothing_tells_apart_are_an_error_and_nothing_is_left(place: Place) -> None:
    place.create("t", SCHEMA)
    twice = [row("a", 1, "x"), row("a", 1, "y"), row("b", 1)]
    with pytest.raises(DataError, match=r"2 source rows of key \(a, 1\)"):
        place.run("upsert", "t", source=source(place, twice))
    tied = [{**r, "at": 5} for r in twice]
    with pytest.raises(DataError, match="with the same greatest 'at'"):
        place.run("upsert", "t", source=source(place, tied, at=pa.int64()), options={"order-by": "at", "source-only-columns": "at"})
    assert not [f for f in place.files_on_disk("t") if f.startswith("data/")]


def test_upserts_repeat_under_a_run_key_and_meet_other_deletes(place: Place, version: str) -> None:
    place.create("t", SCHEMA, **{"format__version": version})
    rows = [row("a", i, score=float(i)) for i in range(10)]
    place.run("upsert", "t", source=source(place, rows))
    place.run("delete", "t", where="id < 3")
    one = {"source": source(place, [row("a", 1, "back"), row("a", 5, "new")]), "run_key": "k"}
    assert [place.run("upsert", "t", **one).status for _ in range(2)] == ["committed", "already-committed"]
    converted = place.run("convert_equality_deletes", "t")
    assert converted.metrics["deleted-positions-count"] == 1
    assert contents(place) == {("a", i): row("a", i, score=float(i)) for i in (3, 4, 6, 7, 8, 9)} | {
        ("a", 1): row("a", 1, "back"), ("a", 5): row("a", 5, "new")
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "properties", "options", "error", "says"),
    [
        (UNPARTITIONED, {"format__version": "1"}, {}, UnsupportedError, "v1"),
        (BY_NAME, {}, {}, OptionError, "comes from column 'name', which is not a key"),
        (UNPARTITIONED, {}, {"upsert-keys": "score"}, SchemaError, "cannot be a key"),
        (UNPARTITIONED, {}, {"upsert-keys": "nope"}, SchemaError, "not a column"),
        (UNPARTITIONED, {}, {"source-only-columns": "nope"}, OptionError, "not a column of the source"),
        (UNPARTITIONED, {}, {"order-by": "nope"}, OptionError, "nope"),
        (UNPARTITIONED, {}, {"order-by": "_iceberg_ops_deletes"}, OptionError, "not a column of the source"),
        (UNPARTITIONED, {}, {"delete-when": "nope = 1"}, OptionError, "nope"),
        (UNPARTITIONED, {}, {"delete-when": "nope ("}, OptionError, "nope"),
        (UNPARTITIONED, {}, {"delete-when": "rand() < 0.5"}, WhereError, "not deterministic"),
        (UNPARTITIONED, {}, {"delete-when": "uuid() LIKE '%a%'"}, WhereError, "not deterministic"),
        (UNPARTITIONED, {}, {"delete-when": "id = (SELECT max(id) FROM target)"}, WhereError, "subquery"),
        (UNPARTITIONED, {}, {"delete-when": "id IN (SELECT id FROM target)"}, WhereError, "subquery"),
        (UNPARTITIONED, {}, {"delete-when": "id"}, OptionError, "BOOLEAN|boolean"),
    ],
)
def test_what_can_not_be_upserted_is_refused(
    place: Place, spec: PartitionSpec, properties: dict[str, str], options: dict[str, str], error: type[Exception], says: str
) -> None:
    place.create("t", SCHEMA, spec, **properties)
    with pytest.raises(error, match=says):
        place.run("upsert", "t", source=source(place, [row("a", 1)]), options=options)


def test_rows_are_not_ordered_by_a_map(place: Place) -> None:
    place.create("t", SCHEMA)
    rows = Source(format="sql", query="SELECT region, id, name, score, map(id, 1) AS m FROM target")
    with pytest.raises(OptionError, match="order-by = 'm': rows cannot be ordered by a column of type map<"):
        place.run("upsert", "t", source=rows, options={"order-by": "m", "source-only-columns": "m"})


def test_a_table_without_identifier_fields_needs_upsert_keys(place: Place) -> None:
    place.create("t", Schema.of(NestedField(1, "k", INT), NestedField(2, "v", STRING)))
    rows = Source(format="sql", query="SELECT * FROM VALUES (1, 'a'), (CAST(NULL AS INT), 'b') AS s(k, v)")
    with pytest.raises(OptionError, match="needs upsert-keys"):
        place.run("upsert", "t", source=rows)
    for _ in range(2):
        place.run("upsert", "t", source=rows, options={"upsert-keys": "k"})
    assert [(r["k"], r["v"]) for r in place.rows("t")] == [(1, "a"), (None, "b")]
