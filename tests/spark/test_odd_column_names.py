"""Columns whose names have a meaning elsewhere: dots and quotes, names of Spark, of Iceberg, and of columns that jobs add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.config.job_spec import MergeClause, RowChange, Source
from iceberg_ops.errors import DataError
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


METADATA_NAMES = [
    *("_pos", "_FILE", "_partition", "_spec_id", "_deleted", "_change_type", "_commit_snapshot_id", "_metadata", "_row_id"),
]
READERS = ("spark", "arrow")


def _schema(names: Sequence[str]) -> Schema:
    return Schema.of(NestedField(1, "id", LONG), *[NestedField(2 + at, name, LONG) for at, name in enumerate(names)])


def _named(names: Sequence[str], values: Mapping[int, int]) -> list[dict[str, int]]:
    """Rows by id: their value in the first named column, a hundred more in each that follows."""
    return [{"id": i, **{name: 100 * at + value for at, name in enumerate(names)}} for i, value in values.items()]


def _is(names: Sequence[str], value: int) -> str:
    """The condition that every named column holds what it does in the row of that value."""
    return " AND ".join(f"{name} = {100 * at + value}" for at, name in enumerate(names))


@pytest.mark.parametrize("reader", READERS)
def test_columns_named_like_metadata_columns_are_never_taken_for_them(place: Place, mode: str, version: str, reader: str) -> None:
    names = METADATA_NAMES[:-1]
    place.create("named", _schema(names), format__version=version)
    place.fill("named", pa.Table.from_pylist(_named(names, {1: 4, 2: 3, 3: 2, 4: 1, 5: 0})))
    if reader == "arrow":  # files with deletes are not left to Spark's own reader
        place.run("delete", "named", where=_is(names, 0), change=RowChange(mode="merge-on-read"))
    else:
        place.run("delete", "named", where=f"({_is(names, 0)}) OR id = 77", change=RowChange(mode="copy-on-write"))
    assert place.rows("named") == _named(names, {1: 4, 2: 3, 3: 2, 4: 1})
    change = RowChange(mode=mode, set={name: f"target.{name} + 30" for name in names})  # type: ignore[arg-type]
    place.run("update", "named", where=f"{_is(names, 3)} AND id = 2", change=change)
    assert place.rows("named") == _named(names, {1: 4, 2: 33, 3: 2, 4: 1})
    update = MergeClause(
        when="matched",
        condition=" AND ".join(f"target.{name} > source.{name}" for name in names),
        action="update",
        assignments={name: f"source.{name}" for name in names},
    )
    source = place.parquet(pa.Table.from_pylist(_named(names, {1: 0, 3: 77, 9: 5})))
    place.merge("named", source, "target.id = source.id", [update, MergeClause(when="not-matched", action="insert")], mode)
    assert place.rows("named") == _named(names, {1: 0, 2: 33, 3: 2, 4: 1, 9: 5})


@pytest.mark.parametrize("name", METADATA_NAMES[:-1])
def test_each_of_them_alone_chooses_rows_as_the_column_that_it_is(place: Place, name: str) -> None:
    """In one condition with others it may be a column, and by itself be taken for what it is named like."""
    place.create("named", _schema([name]))
    place.fill("named", pa.Table.from_pylist(_named([name], {1: 4, 2: 3, 3: 2, 4: 1, 5: 0})))
    place.run("delete", "named", where=f"{name} = 0", change=RowChange(mode="merge-on-read"))
    place.run("update", "named", where=f"{name} = 3", change=RowChange(mode="copy-on-write", set={name: f"{name} * 10"}))
    assert place.rows("named") == _named([name], {1: 4, 2: 30, 3: 2, 4: 1})


def test_rows_are_written_to_a_table_whose_columns_are_named_like_metadata_columns(place: Place) -> None:
    names = METADATA_NAMES
    place.create("named", _schema(names))
    place.fill("named", pa.Table.from_pylist(_named(names, {1: 1, 2: 0})))
    options = {"upsert-keys": "id", "delete-when": _is(names, 7)}
    place.run("upsert", "named", source=place.parquet(pa.Table.from_pylist(_named(names, {2: 5, 1: 7}))), options=options)
    assert place.rows("named") == _named(names, {2: 5})
    columns = ", ".join(names)
    query = f"SELECT id + 1 AS id, {columns} FROM test.db.named UNION ALL SELECT id, {columns} FROM target"
    place.run("append", "named", source=Source(format="sql", query=query))
    assert place.rows("named") == [*_named(names, {2: 5}), *_named(names, {2: 5}), *_named(names, {3: 5})]
    place.run("overwrite", "named", source=place.parquet(pa.Table.from_pylist(_named(names, {8: 9}))), where=_is(names, 5))
    assert place.rows("named") == _named(names, {8: 9})


def test_a_name_of_the_callers_for_what_does_not_parse_hides_no_bad_record(place: Place) -> None:
    place.create("text", Schema.of(NestedField(1, "id", LONG), NestedField(2, "_corrupt_record", STRING)))
    (place.folder / "a.json").write_text('{"id": 1, "_corrupt_record": "fine"}\n{"id": "no number"}\n')
    options = {"columnNameOfCorruptRecord": "other"}
    with pytest.raises(DataError, match="column 'id': 'no number' is not a valid long"):
        place.run("append", "text", source=Source(format="json", paths=[str(place.folder / "a.json")], options=options))
    (place.folder / "a.json").write_text('{"id": 1, "_corrupt_record": "fine"}\n')
    place.run("append", "text", source=Source(format="json", paths=[str(place.folder / "a.json")]))
    assert place.rows("text") == [{"id": 1, "_corrupt_record": "fine"}]
