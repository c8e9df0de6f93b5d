"""Tables that another engine replaces again and again, by columns of one name and drawn types, so that former schemas are current
again: main and every tag have exactly their rows, and partition values are those of the rows."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.types import DATE, INT, LONG, STRING, TIMESTAMP, IcebergType
from tests.actions.rows_place import RowsPlace
from tests.actions.test_replaced_columns import BY_K, CENTS, FINER, OF_KEY, VALUES, rows_of, schema
from tests.commit.scenarios import Replaced
from tests.generated.drawing import Draw, for_each_seed, missing

KIND = "replaced tables"
TYPES: list[IcebergType] = [INT, LONG, DATE, TIMESTAMP, STRING, CENTS, FINER]
STEPS = [
    "append",
    "upsert",
    "replace",
    "replace",
    "tag",
    "convert_equality_deletes",
    "rewrite_manifests",
    "compute_partition_stats",
]


def test_rows_and_partition_values_are_those_of_the_columns_they_were_written_for(tmp_path: Path) -> None:
    for_each_seed(KIND, 40, lambda draw: one_table(draw, tmp_path / str(draw.seed)))
    assert missing(KIND, {"v2", "v3", "former schema", "tag of other types", "upsert"}) == set()


def one_table(drawn: Draw, folder: Path) -> None:
    folder.mkdir()
    place, version = RowsPlace.at(folder), drawn.choice(["2", "3"])
    types = drawn.choice([[INT, LONG], *2 * [[DATE, TIMESTAMP]], drawn.sample(TYPES, 3)])
    spec, now = drawn.choice([PartitionSpec(), BY_K, BY_K]), drawn.choice(types)
    place.create(schema(now), spec, format__version=version)
    drawn.note(f"v{version}")
    live: list[int] = []
    tags: dict[str, tuple[IcebergType, list[int]]] = {}
    for number in range(1, drawn.randint(6, 14)):
        step = drawn.choice(STEPS)
        if step == "append":
            place.run("append", source=rows_of(place, now, number))
            live.append(number)
        elif step == "upsert" and not (version == "3" and now == TIMESTAMP and spec.fields):  # may be a promoted date: refused
            place.run("upsert", source=rows_of(place, now, number, *live[:1]), options=OF_KEY)
            live.append(number)
            drawn.note("upsert")
        elif step == "replace":
            now, live = drawn.choice(types), []
            commit(place.catalog, place.table(), Replaced(schema=schema(now), is_empty=True))
            latest = max(place.table().metadata.schemas_by_id)
            drawn.note(*(["former schema"] if place.table().metadata.current_schema_id != latest else []))
        elif step == "tag" and place.table().metadata.current_snapshot_id is not None:
            commit(place.catalog, place.table(), SetRef(ref=f"t{number}", type="tag"))
            tags[f"t{number}"] = now, list(live)
        elif step not in ("upsert", "tag"):
            place.run(step)
        check(place, spec, now, live, Scan())
        for tag, (type_, ids) in tags.items():
            check(place, spec, type_, ids, Scan(ref=tag))
            drawn.note(*(["tag of other types"] if type_ != now else []))


def check(place: RowsPlace, spec: PartitionSpec, type_: IcebergType, ids: list[int], scan: Scan) -> None:
    found = scan_table(place.table(), scan, columns=["id", "k", *(["_partition"] if spec.fields else [])]).to_pylist()
    assert sorted((r["id"], r["k"]) for r in found) == [(i, VALUES[type_][1][i % 2]) for i in sorted(ids)]
    for r in found if spec.fields else ():
        assert text(r["_partition"]["p"]) == text(r["k"])


def text(value: Any) -> str:
    """A date that the table's present columns have as a timestamp is the same value."""
    return str(value) if isinstance(value, Decimal) else str(value).removesuffix(" 00:00:00")
