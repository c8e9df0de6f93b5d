"""Columns whose names mean something elsewhere: dots and quotes, names of Spark's, of Iceberg's, and of columns that jobs add."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.actions.dispatch import run_job
from iceberg_ops.config.job_spec import JobSpec, MergeClause, RowChange, Source
from iceberg_ops.errors import DataError, UnsupportedError
from iceberg_ops.spec.partitioning import UNPARTITIONED, PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY
from iceberg_ops.spec.types import LONG, STRING, NestedField, StructType
from tests.spark.conftest import Place

NAMES = [
    *("a.b", "tick`s", "sp ace", "ünï", "Target", "source", "_metadata", "_corrupt_record", "_change", "_bad"),
    *("_clause", "_in_target", "_deletes", "_order", "_rank", "_of_key"),
]
INNER = StructType((NestedField(41, "x.y", LONG), NestedField(42, "q`q", STRING)))
ODD = Schema.of(
    NestedField(1, "id", LONG),
    *[NestedField(2 + i, name, STRING) for i, name in enumerate(NAMES)],
    NestedField(40, "s.t", INNER),
)
BY_DOTTED = PartitionSpec(1, (PartitionField((2,), 1000, IDENTITY, "p"),))


def _rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": i, **{n: f"{n} {i}" for n in NAMES}, "s.t": {"x.y": i, "q`q": f"q{i}"}} for i in ids]


def _given(rows: list[dict[str, Any]]) -> pa.Table:
    inner = pa.struct([("x.y", pa.int64()), ("q`q", pa.string())])
    return pa.Table.from_pylist(rows, pa.schema([("id", pa.int64()), *[(n, pa.string()) for n in NAMES], ("s.t", inner)]))


@pytest.mark.parametrize("spec", [UNPARTITIONED, BY_DOTTED], ids=["unpartitioned", "by-a.b"])
def test_every_row_operation_keeps_the_values_of_columns_with_odd_names(place: Place, version: str, spec: PartitionSpec) -> None:
    place.create("odd", ODD, spec, format__version=version)
    place.append("odd", _given(_rows(1, 2, 3)), options={"write-tasks": "1"})
    assert place.rows("odd") == _rows(1, 2, 3)
    change = RowChange(mode="merge-on-read", set={"tick`s": "`a.b` || _change", "s.t.x.y": "77"})
    place.run("update", "odd", where="`a.b` = 'a.b 2' AND target._metadata = '_metadata 2'", change=change)
    second = _rows(2)[0] | {"tick`s": "a.b 2_change 2", "s.t": {"x.y": 77, "q`q": "q2"}}
    assert place.rows("odd") == [_rows(1)[0], second, _rows(3)[0]]
    clauses = [
        MergeClause(
            when="matched", condition="target._clause = '_clause 3'", action="update", assignments={"_bad": "source._in_target"}
        ),
        MergeClause(when="not-matched", action="insert"),
    ]
    place.merge("odd", place.parquet(_given(_rows(3, 4))), "target.`tick``s` = source.`tick``s`", clauses, "copy-on-write")
    third = _rows(3)[0] | {"_bad": "_in_target 3"}
    assert place.rows("odd") == [_rows(1)[0], second, third, *_rows(4)]
    place.run(
        "delete", "odd", where="`tick``s` = 'tick`s 4' AND _corrupt_record IS NOT NULL", change=RowChange(mode="merge-on-read")
    )
    place.run("upsert", "odd", source=place.parquet(_given(_rows(1, 2))), options={"upsert-keys": "id,a.b", "order-by": "_order"})
    assert place.rows("odd") == [*_rows(1, 2), third]


@pytest.mark.parametrize("name", ["_pos", "_file", "_Row_Id"])
def test_a_column_named_like_a_metadata_column_is_never_taken_for_it(place: Place, name: str) -> None:
    place.create("reserved", Schema.of(NestedField(1, "id", LONG), NestedField(2, name, LONG)))
    source = place.parquet(pa.table({"id": [1, 2, 3], name: [2, 1, 0]}))
    run_job(JobSpec(job="append", table="test.db.reserved", catalog=place.config, source=source, lane="local"))
    with pytest.raises(UnsupportedError, match=f"column '{name}' in a Spark job.* rename it"):
        place.run("delete", "reserved", where="id = 1")
    with pytest.raises(UnsupportedError, match=f"column '{name}' in a Spark job.* rename it"):
        place.run("append", "reserved", source=source)
    assert [r["id"] for r in place.rows("reserved")] == [1, 2, 3]


def test_a_name_of_the_callers_for_what_does_not_parse_hides_no_bad_record(place: Place) -> None:
    place.create("text", Schema.of(NestedField(1, "id", LONG), NestedField(2, "_corrupt_record", STRING)))
    (place.folder / "a.json").write_text('{"id": 1, "_corrupt_record": "fine"}\n{"id": "no number"}\n')
    options = {"columnNameOfCorruptRecord": "other"}
    with pytest.raises(DataError, match="does not parse as the table's columns"):
        place.run("append", "text", source=Source(format="json", paths=[str(place.folder / "a.json")], options=options))
    (place.folder / "a.json").write_text('{"id": 1, "_corrupt_record": "fine"}\n')
    place.run("append", "text", source=Source(format="json", paths=[str(place.folder / "a.json")]))
    assert place.rows("text") == [{"id": 1, "_corrupt_record": "fine"}]
