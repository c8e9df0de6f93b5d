"""Row operations of lane local leave the same tables as the Spark jobs: generated statements, each run by both on the same rows.

A refusal of lane local by name is not a difference; everything else must be equal: the rows, the row ids of existing rows (v3), the
counts of the report, the equality deletes, or the class of the error. ``ICEBERG_OPS_STATEMENTS`` sets the number of each kind (12).
"""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange
from iceberg_ops.data.reading.reader import scan_table
from iceberg_ops.errors import IcebergOpsError, UnsupportedError
from iceberg_ops.spec.content_files import FileContent
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY, bucket
from iceberg_ops.spec.types import BOOLEAN, DATE, DOUBLE, FLOAT, INT, LONG, STRING, TIMESTAMPTZ, DecimalType, NestedField
from iceberg_ops.table.manifests import entries_of, manifests_of
from tests.spark.conftest import Place

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

ON_A_TABLE = 4
SEEDS = -(-int(os.environ.get("ICEBERG_OPS_STATEMENTS", "12")) // ON_A_TABLE)
SCHEMA = Schema.of(
    NestedField(1, "g", STRING), NestedField(2, "k", LONG), NestedField(3, "i", INT), NestedField(4, "d", DOUBLE),
    NestedField(5, "f", FLOAT), NestedField(6, "x", DecimalType(precision=9, scale=2)), NestedField(7, "s", STRING, True),
    NestedField(8, "day", DATE), NestedField(9, "at", TIMESTAMPTZ), NestedField(10, "b", BOOLEAN),
)  # fmt: skip
TYPES = {"g": pa.string(), "k": pa.int64(), "i": pa.int32(), "d": pa.float64(), "f": pa.float32(), "x": pa.decimal128(9, 2),
         "s": pa.string(), "day": pa.date32(), "at": pa.timestamp("us", "UTC"), "b": pa.bool_()}  # fmt: skip
SPECS = {
    "whole": UNPARTITIONED,
    "by g": PartitionSpec(1, (PartitionField((1,), 1000, IDENTITY, "g"),)),
    "by bucket of k": PartitionSpec(1, (PartitionField((2,), 1000, bucket(3), "k_bucket"),)),
}
CONDITIONS = (
    "k > 4", "i = 1 OR d > 0", "NOT (i = 1)", "d = 0", "d = double('NaN')", "d < 0.5", "f >= 0.1", "x BETWEEN -1 AND 2.5", "b",
    "s LIKE 'a%'", "s IN ('a', '', NULL)", "g <=> NULL", "day >= DATE '2024-02-29'", "at < TIMESTAMP '2024-03-01 00:00:00'",
    "NOT b OR i IS NULL", "i NOT IN (0, 2)", "s = 'é' AND k IS NOT NULL", "g < 'b'", "x = 1.5", "isnan(d) OR d > 1e10",
    "true", "k IS NULL", "upper(s) = 'A'", "k % 2 = 0", "coalesce(i , -1) < k", "x * 2 > 1", "year(at) = 2024 AND length(s) > 0",
    "CASE WHEN b THEN i = 1 ELSE d > 0 END", "s || g = 'aa'", "if(b , k , i) IN (0, 1, 7)", "i <> 0 AND 4 / i > 2",
    "date_trunc('day', at) = TIMESTAMP '2024-02-29 00:00:00'", "datediff(day , DATE '2024-01-01') > 30", "substr(s , 2) = 'b'",
)  # fmt: skip
SETS = {
    "g": ("'a'", "s", "NULL", "g", "'q'"), "k": ("7", "NULL", "k", "-1L", "k + 1", "i", "CAST(x AS BIGINT)"),
    "i": ("0", "NULL", "2147483648", "17L", "k", "length(s)", "k % 2"),
    "d": ("1", "0.1", "1e300", "NULL", "d", "0.30000000000000004", "d * 2", "- d", "-0.0D", "i / 2", "f", "round(d , 1)"),
    "f": ("0.1", "16777217", "2", "NULL"), "x": ("1.005", "-2.345", "3", "NULL", "99999999", "x * 1.1BD", "x + i"),
    "s": ("'z'", "g", "NULL", "12", "true", "'it''s'", "upper(s)", "coalesce(g , s) || 'x'"),
    "day": ("DATE '2020-02-29'", "NULL", "day + 1", "CAST(at AS DATE)"),
    "at": ("at", "NULL", "TIMESTAMP '2021-01-01 00:00:00.5'", "date_trunc('month', at)"),
    "b": ("true", "NULL", "b", "NOT b", "i > 1"),
}  # fmt: skip
ONS = (
    "target.k = source.k", "target.g = source.g AND target.k = source.k", "source.k = target.i",
    "target.s = source.s AND target.i > 0", "target.x = source.x", "target.day = source.day AND source.i IS NOT NULL",
    "target.b = source.b AND target.k = source.k", "target.at = source.at",
)  # fmt: skip


def values(rng: random.Random, rows: int, keys: int) -> list[dict[str, Any]]:
    def row() -> dict[str, Any]:
        return {
            "g": rng.choice(["a", "b", "", None, "B"]),
            "k": rng.choice([None, *range(keys)]),
            "i": rng.choice([0, 1, 2, None, -(2**31)]),
            "d": rng.choice([0.0, -0.0, float("nan"), 1.5, -1.0, None, 1e300]),
            "f": rng.choice([0.1, 0.0, -2.0, None]),
            "x": rng.choice([Decimal("1.50"), Decimal("-0.01"), Decimal("3.00"), None]),
            "s": rng.choice(["a", "", "é", "ab", "Z"]),
            "day": rng.choice([None, date(2024, 2, 29), date(1969, 12, 31)]),
            "at": rng.choice([None, datetime(2024, 2, 29, tzinfo=UTC) + timedelta(microseconds=rng.randrange(3))]),
            "b": rng.choice([True, False, None]),
        }

    return [row() for _ in range(rows)]


def condition(rng: random.Random, side: str = "") -> str:
    """One or two conditions on one side."""
    texts = rng.sample(CONDITIONS, rng.choice([1, 1, 2]))
    found = f" {rng.choice(['AND', 'OR'])} ".join(f"({t})" for t in texts)
    return qualified(found, side) if side else found


def qualified(text: str, side: str) -> str:
    """Every column of the condition with its side before it."""
    words = text.replace("(", "( ").replace(")", " )").split(" ")
    return " ".join(f"{side}.{w}" if w in TYPES else w for w in words)


def update(rng: random.Random) -> dict[str, Any]:
    columns = rng.sample(list(SETS), rng.choice([1, 2, 3]))
    where = rng.choice([None, condition(rng), condition(rng), condition(rng, "target")])
    return {"where": where, "change": RowChange(set={c: rng.choice(SETS[c]) for c in columns})}


def merge(rng: random.Random) -> dict[str, Any]:
    clauses: list[MergeClause] = []
    for _ in range(rng.choice([1, 2, 3, 4])):
        when: Any = rng.choice(["matched", "matched", "not-matched", "not-matched-by-source"])
        sides = {"matched": ["target", "source"], "not-matched": ["source"], "not-matched-by-source": ["target"]}[when]
        asked = rng.choice([None, *sides, "both"])
        if asked == "both":
            asked = None if len(sides) == 1 else f"({condition(rng, 'target')}) AND ({condition(rng, 'source')})"
        elif asked is not None:
            asked = condition(rng, asked)
        action: Any = "insert" if when == "not-matched" else rng.choice(["update", "update", "delete"])
        given: dict[str, str] | None = None
        if action != "delete" and (when == "not-matched-by-source" or rng.random() < 0.6):
            own = "source" if when == "not-matched" else "target"
            given = {c: qualified(rng.choice(SETS[c]), own) for c in rng.sample(list(SETS), 3)}
            if when != "not-matched-by-source":
                given |= {c: f"source.{c}" for c in rng.sample(list(TYPES), 2)} | ({"s": "source.s"} if action == "insert" else {})
        clauses.append(MergeClause(when=when, action=action, condition=asked, assignments=given))
    return {"change": RowChange(on=rng.choice(ONS), clauses=clauses)}


def matching_once(rows: list[dict[str, Any]], on: str) -> list[dict[str, Any]]:
    """One of the rows for each key of the source that ``on`` names."""
    keys = [a or b for a, b in re.findall(r"= source\.(\w+)|source\.(\w+) = target", on)]
    return list({tuple(row[k] for k in keys): row for row in rows}.values())


def upsert(rng: random.Random, spec: str) -> dict[str, Any]:
    keys = {"whole": ["k", "g,k", "day", "s,b"], "by g": ["g", "G,k", "g,x"], "by bucket of k": ["k", "k,at"]}[spec]
    options = {"upsert-keys": rng.choice(keys)}
    if rng.random() < 0.8:
        options["order-by"] = rng.choice(["n", "n", "n", "s", "at"])
    if rng.random() < 0.5:
        options["delete-when"] = condition(rng)
    return {"options": options | {"source-only-columns": "n"}}


def outcome(place: Place, name: str, lane: str, job: str, parts: dict[str, Any], known: int) -> Any:
    """The class of the error; else what the table and the report are, comparable: row ids from ``known`` on, which are given in
    no order, left out."""
    spec = JobSpec(job=job, table=f"test.db.{name}", catalog=place.config, **parts)
    before = place.table(name).metadata
    try:
        report = run_job(replace(spec, lane="local")) if lane == "local" else place.run(job, name, **parts)
    except IcebergOpsError as e:
        assert place.table(name).metadata.last_sequence_number == before.last_sequence_number
        is_refused = isinstance(e, UnsupportedError) and ": run it with --lane spark" in str(e)
        return "refused" if is_refused else type(e).__name__
    names = [*TYPES, *(["_row_id"] if before.format_version >= 3 else [])]
    rows = Counter(
        repr([v if n != "_row_id" or v < known else "new" for n, v in r.items()])
        for r in scan_table(place.table(name), columns=names).to_pylist()
    )
    counts = {n: v for n, v in report.metrics.items() if n in ("deleted-records", "added-records", "upserted-keys")}
    return report.status, counts, rows, equality_deletes(place, name)


def equality_deletes(place: Place, name: str) -> Counter[Any]:
    table = place.table(name)
    head = table.metadata.branch_head("main")
    entries = [e.data_file for m in manifests_of(table, head) for e in entries_of(table, m)] if head else []
    found = [f for f in entries if f.content is FileContent.EQUALITY_DELETES]
    return Counter((f.spec_id, f.partition, f.equality_ids, f.record_count) for f in found)


def two_tables(place: Place, rng: random.Random, version: str, mode: str, kind: str) -> int:
    """``ours`` and ``sparks``, of the same files and deletes; their next row id."""
    properties: dict[str, Any] = {"format__version": version, "write_update_mode": mode, "write_merge_mode": mode}
    files = [pa.Table.from_pylist(values(rng, 12, 14), pa.schema(list(TYPES.items()))) for _ in range(3)]
    for name in ("ours", "sparks"):
        place.create(name, SCHEMA, SPECS[kind], **properties)
        for i, rows in enumerate(files):
            source = place.parquet(rows, f"{i}.parquet")
            run_job(JobSpec(job="append", table=f"test.db.{name}", catalog=place.config, source=source))
        run_job(JobSpec(job="delete", table=f"test.db.{name}", catalog=place.config, where="i = 2 AND s = 'a'"))
    return place.table("ours").metadata.next_row_id or 0


@pytest.mark.parametrize("job", ["update", "merge", "upsert"])
@pytest.mark.parametrize("seed", range(SEEDS))
def test_generated_statements(place: Place, job: str, seed: int) -> None:
    rng = random.Random(f"{job} {seed}")
    version, kind, mode = rng.choice(["2", "3"]), rng.choice(list(SPECS)), rng.choice(["copy-on-write", "merge-on-read"])
    known, refused = two_tables(place, rng, version, mode, kind), 0
    for round_ in range(ON_A_TABLE):
        parts = update(rng) if job == "update" else merge(rng) if job == "merge" else upsert(rng, kind)
        if job != "update":
            made, types = values(rng, rng.choice([3, 8]), 18), pa.schema(list(TYPES.items()))
            if job == "merge" and rng.random() < 0.8:
                made = matching_once(made, parts["change"].on)
            if job == "upsert":
                made, types = [{**r, "n": rng.randrange(99)} for r in made], types.append(pa.field("n", pa.int32()))
            parts["source"] = place.parquet(pa.Table.from_pylist(made, types), f"source-{round_}.parquet")
        ours = outcome(place, "ours", "local", job, parts, known)
        if ours == "refused":
            refused += 1
            continue
        assert ours == outcome(place, "sparks", "spark", job, parts, known), (version, kind, mode, parts)
    assert refused <= 2


ADD = MergeClause(when="not-matched", action="insert")


@pytest.mark.parametrize(
    ("where", "change"),
    [
        ("k = 77", RowChange(set={"i": "2147483648"})),
        ("k = 77", RowChange(set={"s": "NULL"})),
        (None, RowChange(set={"i": "2147483648"})),
        (None, RowChange(set={"x": "9999999.995"})),
        (None, RowChange(set={"x": "0.005", "f": "9007199254740993L", "d": "9007199254740993L"})),
        (None, RowChange(on="target.k = source.k AND source.k = 77", clauses=[
            MergeClause(when="matched", action="update", assignments={"i": "2147483648", "s": "NULL"}),
        ])),
        (None, RowChange(on="target.k = source.k AND source.s <> 'no'", clauses=[
            MergeClause(when="not-matched", action="insert", condition="source.s = 'none'", assignments={"k": "source.k"}), ADD,
        ])),
        (None, RowChange(on="target.K = SOURCE.k", clauses=[
            MergeClause(when="not-matched", action="insert", assignments={"k": "source.k"}),
        ])),
    ],
)  # fmt: skip
def test_values_that_do_not_fit(place: Place, where: str | None, change: RowChange) -> None:
    rng = random.Random(11)
    known = two_tables(place, rng, "3", "merge-on-read", "whole")
    job: str = "update" if change.set else "merge"
    parts: dict[str, Any] = {"where": where, "change": change}
    if job == "merge":
        rows = matching_once(values(rng, 30, 40), "target.k = source.k")
        parts["source"] = place.parquet(pa.Table.from_pylist(rows, pa.schema(list(TYPES.items()))), "source.parquet")
    ours = outcome(place, "ours", "local", job, parts, known)
    assert ours == outcome(place, "sparks", "spark", job, parts, known)
