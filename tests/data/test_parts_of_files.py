"""Parts of files and skipped row groups: every row is read once whatever the split, no matching row is skipped, and positions count
physical rows (SCAN-06, SCAN-07, SCAN-16)."""

from __future__ import annotations

import contextlib
import io
import itertools
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from iceberg_ops.data.arrow.arrow_schema import stored_schema
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.formats.orc_stripes import parse_stripes
from iceberg_ops.data.reading.reader import ReadCounts, read_task
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, And, Expression, Op, Predicate, Reference, TransformTerm, leaves
from iceberg_ops.io.memory import MemoryFileIO
from iceberg_ops.scan.tasks import DeleteFile, FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileContent, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DOUBLE, INT, LONG, STRING, TIMESTAMP, DecimalType, IcebergType, NestedField
from tests.data.files import batch_of, new_io, write, write_context
from tests.expressions.oracle import truth
from tests.expressions.test_no_row_is_lost import ALL, SCHEMA, as_tuple, expressions, rows

IDS = Schema.of(NestedField(1, "id", LONG), NestedField(2, "s", STRING))
ROWS = 400


def _file(store: MemoryFileIO, data: bytes, form: FileFormat, count: int) -> DataFile:
    store.write("memory://f", data)
    return DataFile(file_path="memory://f", file_format=form, record_count=count, file_size_in_bytes=len(data))


def _task_rows(
    store: MemoryFileIO, file: DataFile, schema: Schema, columns: Sequence[str], *, where: Expression = ALWAYS_TRUE, **part: Any
) -> tuple[list[dict[str, Any]], ReadCounts]:
    context = ReadContext(table_schema=schema, projected=schema).select(columns)
    counts = ReadCounts()
    task = FileScanTask(file, 1, residual=where, **part)
    batches = read_task(task, context, store, batch_rows=64, counts=counts)
    return [row for batch in batches for row in batch.to_pylist()], counts


def _orc() -> bytes:
    sink = io.BytesIO()
    fields = [
        pa.field(f.name, t, metadata={"iceberg.id": str(f.field_id)})
        for f, t in zip(IDS.fields, (pa.int64(), pa.string()), strict=True)
    ]
    writer = orc.ORCWriter(sink, stripe_size=1024, batch_size=50)
    for start in range(0, ROWS, 50):
        values = range(start, start + 50)
        writer.write(pa.table([list(values), [f"row {v}" * 5 for v in values]], schema=pa.schema(fields)))
    writer.close()
    return sink.getvalue()


def _parquet() -> bytes:
    sink = pa.BufferOutputStream()
    table = pa.Table.from_batches([batch_of(IDS, [(i, f"row {i}" * 5) for i in range(ROWS)])])
    pq.write_table(table.cast(stored_schema(IDS)), sink, row_group_size=50)
    return sink.getvalue().to_pybytes()


def _avro() -> bytes:
    store = new_io()
    context = write_context(IDS, properties={"write.format.default": "avro"})
    (file,) = write(context, store, [(i, f"row {i}" * 50) for i in range(ROWS)])
    return store.read(file.file_path)


FILES = {FileFormat.ORC: _orc(), FileFormat.PARQUET: _parquet(), FileFormat.AVRO: _avro()}


@pytest.mark.parametrize("form", FILES)
@given(data=st.data())
def test_parts_that_cover_a_file_read_every_row_once_at_its_position(form: FileFormat, data: st.DataObject) -> None:
    content = FILES[form]
    cuts = sorted(data.draw(st.sets(st.integers(1, len(content) - 1), max_size=6)))
    columns = data.draw(st.sampled_from([["id", "_pos"], ["_pos"], ["s", "_pos", "id"]]))
    store = new_io()
    file = _file(store, content, form, ROWS)
    bounds = [0, *cuts, len(content)]
    found = []
    for start, end in itertools.pairwise(bounds):
        found += _task_rows(store, file, IDS, columns, start=start, length=end - start)[0]
    assert [row["_pos"] for row in found] == list(range(ROWS))
    if "id" in columns:
        assert [row["id"] for row in found] == list(range(ROWS))


def test_an_orc_file_of_many_stripes_is_cut_between_them() -> None:
    stripes = parse_stripes(orc.ORCFile(io.BytesIO(FILES[FileFormat.ORC])).reader.serialized_file_tail(), "f")
    assert len(stripes) == 8
    store = new_io()
    file = _file(store, FILES[FileFormat.ORC], FileFormat.ORC, ROWS)
    third = stripes[2]
    (found, counts) = _task_rows(store, file, IDS, ["id"], start=third.offset, length=1)
    assert [row["id"] for row in found] == list(range(third.first_row, third.first_row + third.rows))
    assert counts.physical == third.rows


@given(st.binary(max_size=40))
def test_any_file_tail_is_read_or_corrupt(tail: bytes) -> None:
    with contextlib.suppress(CorruptTableError):
        assert all(s.rows >= 0 for s in parse_stripes(tail, "f"))


@settings(deadline=None, max_examples=60)
@given(data=st.data())
def test_no_matching_row_is_skipped_and_positions_stay(data: st.DataObject) -> None:
    """Random rows in random row groups under random filters, with and without statistics, position deletes besides."""
    names = data.draw(st.lists(st.sampled_from(sorted(ALL)), min_size=1, max_size=3, unique=True))
    found = [row for _ in range(data.draw(st.integers(1, 3))) for row in data.draw(rows(names))]
    where = data.draw(expressions(names))
    assume(not any(isinstance(leaf, Predicate) and isinstance(leaf.term, TransformTerm) for leaf in leaves(where)))
    deleted = data.draw(st.sets(st.integers(0, len(found) - 1), max_size=2))
    sink = pa.BufferOutputStream()
    table = pa.Table.from_batches([batch_of(SCHEMA, [as_tuple(row) for row in found])])
    statistics = data.draw(st.sampled_from([True, False, names[:1]]))
    stored = stored_schema(SCHEMA)
    pq.write_table(
        table.cast(stored), sink, row_group_size=data.draw(st.integers(1, 6)), write_statistics=statistics, store_schema=False
    )
    store = new_io()
    file = _file(store, sink.getvalue().to_pybytes(), FileFormat.PARQUET, len(found))
    read, _ = _task_rows(store, file, SCHEMA, ["_pos"], where=where, deletes=_deletes(store, deleted))
    assert [row["_pos"] for row in read] == [
        i for i, row in enumerate(found) if i not in deleted and truth(where, row, SCHEMA) is True
    ]


def _deletes(store: MemoryFileIO, positions: set[int]) -> tuple[DeleteFile, ...]:
    if not positions:
        return ()
    ids = {"file_path": "2147483546", "pos": "2147483545"}
    types = {"file_path": pa.string(), "pos": pa.int64()}
    schema = pa.schema([pa.field(n, types[n], metadata={"PARQUET:field_id": i}) for n, i in ids.items()])
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([["memory://f"] * len(positions), sorted(positions)], schema=schema), sink)
    store.write("memory://d", sink.getvalue().to_pybytes())
    file = DataFile(
        content=FileContent.POSITION_DELETES, file_path="memory://d", file_format=FileFormat.PARQUET,
        record_count=len(positions), file_size_in_bytes=1,
    )  # fmt: skip
    return (DeleteFile(file, 2),)


def _groups(type_: IcebergType, groups: list[list[Any]], **options: Any) -> tuple[MemoryFileIO, DataFile, Schema]:
    """A file with one row group for each list."""
    schema = Schema.of(NestedField(1, "v", type_))
    sink = pa.BufferOutputStream()
    writer = pq.ParquetWriter(sink, options.pop("stored", stored_schema(schema)), store_schema=False, **options)
    for values in groups:
        writer.write_table(pa.Table.from_batches([batch_of(schema, [(v,) for v in values])]).cast(writer.schema))
    writer.close()
    store = new_io()
    return store, _file(store, sink.getvalue().to_pybytes(), FileFormat.PARQUET, sum(map(len, groups))), schema


def _where(op: Op, *literals: Any) -> Expression:
    return Predicate(op, Reference("v"), literals)


SKIPS: dict[str, tuple[IcebergType, list[list[Any]], Expression, int, list[int]]] = {
    "a range": (LONG, [[1, 2], [3, 4], [5, 6]], And(_where(Op.GT, 2), _where(Op.LT, 5)), 2, [2, 3]),
    "groups around a gap": (LONG, [[1, 2], [3, 4], [1, 6]], _where(Op.LT, 3), 4, [0, 1, 4]),
    "nothing": (LONG, [[1, 2], [3, 4]], _where(Op.GT, 9), 0, []),
    "text": (STRING, [["a", "b"], ["x", "y"]], _where(Op.STARTS_WITH, "x"), 2, [2]),
    "nulls": (LONG, [[None, None], [1, 2]], _where(Op.GT, 0), 2, [2, 3]),
    "null wanted": (LONG, [[None, 3], [1, 2]], _where(Op.IS_NULL), 2, [0]),
    "NaN is above everything": (DOUBLE, [[1.0, math.nan], [1.0, 2.0]], _where(Op.GT, 5.0), 4, [1]),
    "zeros are equal": (DOUBLE, [[0.0, -1.0], [7.0, 8.0]], _where(Op.EQ, -0.0), 2, [0]),
    "timestamps": (TIMESTAMP, [[1, 2], [3, 4]], _where(Op.GT_EQ, 3), 2, [2, 3]),
}


@pytest.mark.parametrize(("type_", "groups", "where", "looked_at", "positions"), SKIPS.values(), ids=list(SKIPS))
def test_row_groups_are_skipped_by_their_statistics(
    type_: IcebergType, groups: list[list[Any]], where: Expression, looked_at: int, positions: list[int]
) -> None:
    store, file, schema = _groups(type_, groups)
    found, counts = _task_rows(store, file, schema, ["_pos"], where=where)
    assert [row["_pos"] for row in found] == positions
    assert counts.physical == looked_at


UNKNOWN_STATISTICS: dict[str, tuple[IcebergType, list[Any], pa.Schema | None, dict[str, Any]]] = {
    "no statistics": (LONG, [1, 2], None, {"write_statistics": False}),
    "milliseconds": (
        TIMESTAMP,
        [1_000_000, 2_000_000],
        pa.schema([pa.field("v", pa.timestamp("ms"), metadata={"PARQUET:field_id": "1"})]),
        {},
    ),
}


@pytest.mark.parametrize(("type_", "values", "stored", "options"), UNKNOWN_STATISTICS.values(), ids=list(UNKNOWN_STATISTICS))
def test_without_statistics_to_trust_every_row_group_is_read(
    type_: IcebergType, values: list[Any], stored: pa.Schema | None, options: dict[str, Any]
) -> None:
    more = {**options, **({} if stored is None else {"stored": stored})}
    store, file, schema = _groups(type_, [values], **more)
    for value in values:
        found, counts = _task_rows(store, file, schema, ["_pos"], where=_where(Op.EQ, value))
        assert len(found) == 1
        assert counts.physical == 2


def test_a_promoted_column_is_compared_in_its_new_type() -> None:
    store, file, _ = _groups(INT, [[1, 2], [3, 4]])
    wide = Schema.of(NestedField(1, "v", LONG))
    found, counts = _task_rows(store, file, wide, ["_pos"], where=_where(Op.GT, 2**31))
    assert (found, counts.physical) == ([], 0)
    found, counts = _task_rows(store, file, wide, ["_pos"], where=_where(Op.LT_EQ, 2))
    assert ([row["_pos"] for row in found], counts.physical) == ([0, 1], 2)


def test_a_column_that_the_file_lacks_rules_nothing_out() -> None:
    store, file, _ = _groups(LONG, [[1], [2]])
    schema = Schema.of(NestedField(1, "v", LONG), NestedField(2, "w", LONG, initial_default=5))
    found, _ = _task_rows(store, file, schema, ["_pos"], where=Predicate(Op.EQ, Reference("w"), (5,)))
    assert [row["_pos"] for row in found] == [0, 1]


@pytest.mark.parametrize("keep", [False, True], ids=["plain", "dictionaries kept"])
def test_text_in_dictionaries_is_filtered_there_and_comes_out_as_asked(keep: bool) -> None:
    """Chunks with and without a dictionary in one file, nulls and an equal filter besides."""
    schema = Schema.of(NestedField(1, "v", STRING))
    for dictionary in (True, False, ["v"]):
        store = new_io()
        sink = pa.BufferOutputStream()
        rows = [None if i % 7 == 0 else f"text {i % 5}" for i in range(600)]
        table = pa.Table.from_batches([batch_of(schema, [(v,) for v in rows])]).cast(stored_schema(schema))
        pq.write_table(table, sink, row_group_size=250, use_dictionary=dictionary, store_schema=False)
        file = _file(store, sink.getvalue().to_pybytes(), FileFormat.PARQUET, len(rows))
        context = ReadContext(table_schema=schema, projected=schema)
        task = FileScanTask(file, 1, residual=_where(Op.IN, "text 1", "text 3", "text 9"), deletes=_deletes(store, {1, 3}))
        batches = list(read_task(task, context, store, batch_rows=100, keep_dictionaries=keep, read_ahead=keep))
        found = [v for batch in batches for v in batch.column(0).to_pylist()]
        assert found == [v for i, v in enumerate(rows) if v in ("text 1", "text 3") and i not in (1, 3)]
        if not keep:
            assert {batch.schema.field(0).type for batch in batches} == {pa.string()}
        if keep:
            assert pa.types.is_dictionary(batches[0].schema.field(0).type) is (dictionary is not False)


def test_a_scan_given_up_early_closes_its_file() -> None:
    store = new_io()
    file = _file(store, FILES[FileFormat.PARQUET], FileFormat.PARQUET, ROWS)
    context = ReadContext(table_schema=IDS, projected=IDS)
    batches = read_task(FileScanTask(file, 1), context, store, batch_rows=10, read_ahead=True)
    assert next(batches).num_rows == 10
    batches.close()
    assert list(batches) == []


@pytest.mark.parametrize(("writer", "looked_at"), [("parquet-mr version 1.8.1", 4), ("parquet-mr version 1.10.1", 2)])
def test_decimal_statistics_of_old_writers_rule_nothing_out(writer: str, looked_at: int) -> None:
    """parquet-mr compared the bytes of decimals as signed numbers before 1.10 (PARQUET-1025)."""
    low, high = [Decimal("1.00"), Decimal("2.00")], [Decimal("7.00"), Decimal("8.00")]
    store, file, schema = _groups(DecimalType(precision=9, scale=2), [low, high])
    data = store.read(file.file_path)
    made_by = pq.read_metadata(pa.BufferReader(data)).created_by.encode()
    assert data.count(made_by) == 1
    old = new_io()
    file = _file(old, data.replace(made_by, writer.encode().ljust(len(made_by))), FileFormat.PARQUET, 4)
    found, counts = _task_rows(old, file, schema, ["_pos"], where=_where(Op.GT, Decimal("5.00")))
    assert [row["_pos"] for row in found] == [2, 3]
    assert counts.physical == looked_at
