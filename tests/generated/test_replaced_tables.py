"""Tables that another engine replaces again and again, with columns of one name and generated types, so that former schemas become
current again: main and every tag have exactly their rows, and partition values match the rows. A branch, whose former rows are read
by the present columns, has exactly its rows or is refused, with and without a filter."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from iceberg_ops.commit.loop.committer import commit
from iceberg_ops.commit.operations.refs import SetRef
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import FormerColumnsError, UnsupportedError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression, eq, gt, is_null, lt
from iceberg_ops.scan.planning import Scan
from iceberg_ops.spec.partitioning import PartitionSpec
from iceberg_ops.spec.types import BOOLEAN, DATE, INT, LONG, STRING, TIMESTAMP, TIMESTAMP_NS, IcebergType
from tests.actions.rows_place import RowsPlace
from tests.actions.test_replaced_columns import BY_K, CENTS, FINER, OF_KEY, VALUES, rows_of, schema
from tests.commit.scenarios import Replaced
from tests.generated.drawing import Draw, for_each_seed, missing

KIND = "replaced tables"
TYPES: list[IcebergType] = [INT, LONG, DATE, TIMESTAMP, STRING, CENTS, FINER]
ON_BRANCHES: list[IcebergType] = [*TYPES, TIMESTAMP_NS, BOOLEAN]
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


def test_a_branch_of_a_replaced_table_has_its_rows_or_is_refused(tmp_path: Path) -> None:
    for_each_seed("branches of replaced tables", 40, lambda draw: one_branch(draw, tmp_path / str(draw.seed)))
    wanted = {"rows", "rows of a filter", "rows of other types", "refused", "refused filter", "expired", "merged", "rewritten"}
    assert missing("branches of replaced tables", wanted) == set()


def one_branch(drawn: Draw, folder: Path) -> None:
    """Values of a branch's rows, as they were written; ``made``: the types that the table had at its commits. A job that is refused
    leaves them as they are."""
    folder.mkdir()
    place, types = RowsPlace.at(folder), drawn.choice([[INT, LONG], [DATE, TIMESTAMP], *3 * [drawn.sample(ON_BRANCHES, 2)]])
    spec, now = drawn.choice([PartitionSpec(), BY_K]), drawn.choice(types)
    version, least = drawn.choice(["2", "3"]) if TIMESTAMP_NS not in types else "3", drawn.choice(["2", "100"])
    place.create(schema(now), spec, format__version=version, commit_manifest_min__count__to__merge=least)
    place.run("append", source=rows_of(place, now, 1, 2))
    commit(place.catalog, place.table(), SetRef(ref="b"))
    rows: dict[int, Any] = {i: VALUES[now][1][i % 2] for i in (1, 2)}
    made = {now}
    drawn.note(*(["merged"] if least == "2" else []))
    for number in range(3, drawn.randint(5, 9)):
        step = drawn.choice(["append", "replace", "replace", "expire", "rewrite_data_files", "rewrite_manifests", "delete"])
        if step == "append":
            place.run("append", source=rows_of(place, now, number), branch="b")
            rows[number] = VALUES[now][1][number % 2]
            made.add(now)
        elif step == "replace":
            now = drawn.choice(types)
            commit(place.catalog, place.table(), Replaced(schema=schema(now), is_empty=True))
        elif step == "expire":
            place.run("expire_snapshots", options={"older-than": "0s", "retain-last": "1"})
            drawn.note("expired")
        elif step == "rewrite_manifests":
            place.run(step, branch="b")
            made.add(now)
        elif step == "delete":
            gone = drawn.choice(sorted(rows))
            if not refused(lambda gone=gone: place.run("delete", where=f"id = {gone}", branch="b")):  # type: ignore[misc]
                del rows[gone]
                made.add(now)
        elif not refused(lambda: place.run("rewrite_data_files", options={"rewrite-all": "true"}, branch="b")):
            made = {now}
            drawn.note("rewritten")
        if not rows:
            return
        check_branch(drawn, place, rows, now, is_of_now=made == {now})


def refused(act: Callable[[], object]) -> bool:
    try:
        act()
    except UnsupportedError as e:  # a job's group says why in its text
        if "another engine has replaced the table" in str(e):
            return True
        raise
    return False


def check_branch(drawn: Draw, place: RowsPlace, rows: dict[int, Any], now: IcebergType, *, is_of_now: bool) -> None:
    there = {i: as_now(value) for i, value in rows.items()}
    value = VALUES[now][1][0]
    tests: list[tuple[Expression, Callable[[Any], bool]]] = [
        (eq("k", value), lambda k: bool(k == as_now(value))),
        (lt("k", value), lambda k: bool(k < as_now(value))),
        (gt("k", value), lambda k: bool(k > as_now(value))),
        (is_null("k"), lambda k: False),
    ]
    for where, test in [(ALWAYS_TRUE, lambda k: True), drawn.choice(tests)]:
        of = "" if where is ALWAYS_TRUE else " of a filter"
        try:
            found = scan_table(place.table(), Scan(ref="b", where=where), columns=["id", "k"]).to_pylist()
        except FormerColumnsError:
            assert not is_of_now, f"{rows} are refused for {where}, and all of them are of type {now}"
            drawn.note("refused filter" if of else "refused")
            continue
        assert {r["id"]: as_now(r["k"]) for r in found} == {i: k for i, k in there.items() if test(k)}, f"{rows} as {now}, {where}"
        assert len({r["id"] for r in found}) == len(found)
        drawn.note(f"rows{of}" if is_of_now else "rows of other types")


def as_now(value: Any) -> Any:
    """A date is the timestamp of its midnight, and times of either unit are equal."""
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime(value.year, value.month, value.day)
    return value.to_pydatetime() if hasattr(value, "to_pydatetime") else value


def check(place: RowsPlace, spec: PartitionSpec, type_: IcebergType, ids: list[int], scan: Scan) -> None:
    found = scan_table(place.table(), scan, columns=["id", "k", *(["_partition"] if spec.fields else [])]).to_pylist()
    assert sorted((r["id"], r["k"]) for r in found) == [(i, VALUES[type_][1][i % 2]) for i in sorted(ids)]
    for r in found if spec.fields else ():
        assert text(r["_partition"]["p"]) == text(r["k"])


def text(value: Any) -> str:
    """A date that the table's present columns have as a timestamp is the same value."""
    return str(value) if isinstance(value, Decimal) else str(value).removesuffix(" 00:00:00")
