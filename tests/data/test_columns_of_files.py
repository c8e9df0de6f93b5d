"""Columns of files are found by field id, whatever their names: renamed, swapped, alike, with dots, at any depth."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import orc

from iceberg_ops.data.arrow.arrow_schema import FIELD_ID, schema_of_arrow
from iceberg_ops.data.columns.file_columns import ORC_ID
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression, eq
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.name_mapping import MappedField, NameMapping
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, NestedField, StructType, list_of, map_of
from tests.data.files import new_io

FORMATS = [FileFormat.PARQUET, FileFormat.ORC]
"""Avro forbids two fields of one name, and its names have no dots."""


def _field(name: str, type_: pa.DataType, field_id: int | None) -> pa.Field:
    ids = None if field_id is None else {FIELD_ID: str(field_id), ORC_ID: str(field_id)}
    return pa.field(name, type_, metadata=ids)


def _file(form: FileFormat, fields: list[pa.Field], columns: list[list[Any]]) -> tuple[bytes, int]:
    arrays = [pa.array(values, f.type) for f, values in zip(fields, columns, strict=True)]
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields))
    sink = io.BytesIO()
    (pq.write_table if form is FileFormat.PARQUET else orc.write_table)(table, sink)
    return sink.getvalue(), table.num_rows


def _rows(
    form: FileFormat,
    fields: list[pa.Field],
    values: list[list[Any]],
    schema: Schema,
    columns: list[str] | None = None,
    mapping: NameMapping | None = None,
    where: Expression = ALWAYS_TRUE,
) -> list[dict[str, Any]]:
    data, rows = _file(form, fields, values)
    store, path = new_io(), f"memory://t/f.{form.value}"
    store.write(path, data)
    file = DataFile(file_path=path, file_format=form, record_count=rows, file_size_in_bytes=len(data))
    context = ReadContext(table_schema=schema, projected=schema, name_mapping=mapping)
    context = context if columns is None else context.select(columns)
    task = FileScanTask(data_file=file, sequence_number=1, residual=where)
    return [row for b in read_task(task, context, store) for row in b.to_pylist()]


THREE = Schema.of(*(NestedField(i, name, LONG) for i, name in ((1, "a"), (2, "b"), (3, "c"))))


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("names", [("x", "x", "y"), ("b", "a", "c"), ("a.b", "a", "b"), ("a", "a.b", "a.b.c"), ("x", "x", "x")])
@pytest.mark.parametrize("asked", [["a"], ["b"], ["b", "c"], ["c", "a"], ["a", "b", "c"]])
def test_columns_are_told_apart_by_id_whatever_their_names(form: FileFormat, names: tuple[str, ...], asked: list[str]) -> None:
    fields = [_field(name, pa.int64(), i) for i, name in enumerate(names, 1)]
    expected = {"a": 1, "b": 2, "c": 3}
    found = _rows(form, fields, [[1], [2], [3]], THREE, asked)
    assert found == [{name: expected[name] for name in asked}]


NESTED = Schema.of(
    NestedField(1, "id", LONG),
    NestedField(2, "s", StructType((NestedField(3, "a", LONG), NestedField(4, "b", LONG)))),
    NestedField(5, "l", list_of(6, StructType((NestedField(7, "a", LONG), NestedField(8, "b", LONG))))),
)


@pytest.mark.parametrize("names", [("x", "x"), ("b", "a"), ("a", "b")])
@pytest.mark.parametrize("left", ["a", "b", "ab"])
def test_fields_inside_structs_and_lists_are_told_apart_by_id_too(names: tuple[str, str], left: str) -> None:
    """Also where only some of them are still in the table: ORC files hold no two of one name inside a struct."""
    inside = [_field(name, pa.int64(), i) for i, name in zip((3, 4), names, strict=True)]
    elements = [_field(name, pa.int64(), i) for i, name in zip((7, 8), names, strict=True)]
    fields = [
        _field("id", pa.int64(), 1),
        _field("s", pa.struct(inside), 2),
        _field("l", pa.list_(_field("element", pa.struct(elements), 6)), 5),
    ]
    pair = pa.StructArray.from_arrays([pa.array([30]), pa.array([40])], fields=inside)
    other = pa.StructArray.from_arrays([pa.array([70]), pa.array([80])], fields=elements)
    lists = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), other, type=fields[2].type)
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pair, lists], schema=pa.schema(fields)), sink)
    store = new_io()
    store.write("memory://t/f", sink.getvalue())
    file = DataFile(file_path="memory://t/f", file_format=FileFormat.PARQUET, record_count=1, file_size_in_bytes=1)
    kept = [
        tuple(f for f in s if f.name in left) for s in (NESTED.fields[1].type.fields, NESTED.fields[2].type.element.type.fields)
    ]  # type: ignore[attr-defined]
    schema = Schema.of(
        NestedField(2, "s", StructType(kept[0])), NestedField(5, "l", list_of(6, StructType(kept[1]))), NestedField(1, "id", LONG)
    )
    context = ReadContext(table_schema=schema, projected=schema)
    found = [row for b in read_task(FileScanTask(data_file=file, sequence_number=1), context, store) for row in b.to_pylist()]
    values, more = {"a": 30, "b": 40}, {"a": 70, "b": 80}
    assert found == [{"s": {n: values[n] for n in left}, "l": [{n: more[n] for n in left}], "id": 1}]


@pytest.mark.parametrize("form", FORMATS, ids=str)
@pytest.mark.parametrize("names", [("A", "a"), ("a", "A")])
def test_of_two_names_that_differ_in_case_the_exact_one_is_the_field(form: FileFormat, names: tuple[str, str]) -> None:
    """NAMEMAP-07"""
    fields = [_field(name, pa.int64(), None) for name in names]
    mapping = NameMapping((MappedField(("a",), 1),))
    found = _rows(form, fields, [[1], [2]], Schema.of(NestedField(1, "a", LONG)), mapping=mapping)
    assert found == [{"a": 1 + names.index("a")}]


PAIR = pa.struct([("p", pa.int64()), ("q", pa.int64())])
STORED_AS_SEVERAL = {
    "list view": pa.array([[{"p": 10, "q": 20}], []], pa.list_view(PAIR)),
    "large list view": pa.array([[{"p": 10, "q": 20}], []], pa.large_list_view(PAIR)),
    "extension": pa.ExtensionArray.from_storage(pa.opaque(PAIR, "x", "y"), pa.array([{"p": 1, "q": 2}, None], PAIR)),
}


@pytest.mark.parametrize("kind", STORED_AS_SEVERAL)
@pytest.mark.parametrize("asked", [["b"], ["a", "b"]])
def test_a_column_of_a_type_that_no_table_has_does_not_move_the_others(kind: str, asked: list[str]) -> None:
    other = STORED_AS_SEVERAL[kind]
    fields = [_field("x", other.type, 50), _field("a", pa.int64(), 1), _field("b", pa.int64(), 2)]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([other, pa.array([1, 2]), pa.array([100, 200])], schema=pa.schema(fields)), sink)
    store = new_io()
    store.write("memory://t/f.parquet", sink.getvalue())
    schema = Schema.of(NestedField(1, "a", LONG), NestedField(2, "b", LONG))
    size = len(sink.getvalue())
    file = DataFile(file_path="memory://t/f.parquet", file_format=FileFormat.PARQUET, record_count=2, file_size_in_bytes=size)
    context = ReadContext(table_schema=schema, projected=schema).select(asked)
    found = [row for b in read_task(FileScanTask(data_file=file, sequence_number=1), context, store) for row in b.to_pylist()]
    assert found == [{name: values[name] for name in asked} for values in ({"a": 1, "b": 100}, {"a": 2, "b": 200})]


SHAPES = {
    "list": (pa.list_(pa.int64()), list_of(2, LONG)),
    "map": (pa.map_(pa.int64(), pa.int64()), map_of(3, LONG, 4, LONG)),
    "struct": (pa.struct([("a", pa.int64())]), StructType((NestedField(5, "a", LONG),))),
    "long": (pa.int64(), LONG),
}


@pytest.mark.parametrize("stored", SHAPES)
@pytest.mark.parametrize("wanted", SHAPES)
def test_a_column_of_another_shape_is_a_damaged_table(stored: str, wanted: str) -> None:
    if stored == wanted:
        return
    schema = Schema.of(NestedField(1, "x", SHAPES[wanted][1]))
    with pytest.raises(CorruptTableError, match=r"column x: the file stores .*, which cannot be read as"):
        _rows(FileFormat.PARQUET, [_field("x", SHAPES[stored][0], 1)], [[None, None]], schema)


NO_LIST = pa.list_view(pa.int64())
LISTS = [[1, None], None, [], [3, 4]]
OWN = {
    "list view": (pa.array(LISTS, NO_LIST), list_of(2, LONG), LISTS),
    "large list view": (pa.array(LISTS, pa.large_list_view(pa.int64())), list_of(2, LONG), LISTS),
    "large list": (pa.array(LISTS, pa.large_list(pa.int64())), list_of(2, LONG), LISTS),
    "list of list views": (pa.array([LISTS, None], pa.list_(NO_LIST)), list_of(2, list_of(3, LONG)), [LISTS, None]),
    "map to list views": (
        pa.array([[("k", [1])], None, [("k", None)]], pa.map_(pa.string(), NO_LIST)),
        map_of(2, STRING, 3, list_of(4, LONG)),
        [[("k", [1])], None, [("k", None)]],
    ),
    "extension over a list": (
        pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int64(), [1]), pa.array([[1], [2]], pa.list_(pa.int64(), 1))),
        list_of(2, LONG),
        [[1], [2]],
    ),
    "extension over a struct": (
        STORED_AS_SEVERAL["extension"],
        StructType((NestedField(2, "p", LONG), NestedField(3, "q", LONG))),
        [{"p": 1, "q": 2}, None],
    ),
}


@pytest.mark.parametrize("kind", OWN)
def test_a_column_that_only_a_note_for_arrow_gives_another_type_is_the_tables_column(kind: str) -> None:
    array, type_, expected = OWN[kind]
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": array, "id": list(range(len(array)))}), sink)
    store = new_io()
    store.write("memory://t/f.parquet", sink.getvalue())
    file = DataFile(file_path="memory://t/f.parquet", file_format=FileFormat.PARQUET, record_count=1, file_size_in_bytes=1)
    schema = Schema.of(NestedField(1, "x", type_), NestedField(9, "id", LONG))
    context = ReadContext(table_schema=schema, projected=schema)
    found = [row for b in read_task(FileScanTask(data_file=file, sequence_number=1), context, store) for row in b.to_pylist()]
    assert found == [{"x": x, "id": n} for n, x in enumerate(expected)]
    assert conform(pa.record_batch({"x": array, "id": list(range(len(array)))}), schema).to_pylist() == found
    assert schema_of_arrow(pa.schema([pa.field("x", array.type)])).fields[0].type.is_nested


@pytest.mark.parametrize("form", FORMATS, ids=str)
def test_a_mapping_gives_swapped_and_renamed_columns_their_ids(form: FileFormat) -> None:
    mapping = NameMapping((MappedField(("b",), 1), MappedField(("a", "old"), 2), MappedField(("c.d",), 3)))
    fields = [_field(name, pa.int64(), None) for name in ("c.d", "b", "old", "c")]
    found = _rows(form, fields, [[3], [1], [2], [9]], THREE, ["b", "c", "a"], mapping)
    assert found == [{"b": 2, "c": 3, "a": 1}]


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_names_in_any_order_give_each_id_its_own_values(data: st.DataObject) -> None:
    form = data.draw(st.sampled_from(FORMATS))
    ids = data.draw(st.permutations([1, 2, 3, 4, 5]))
    fields = [_field(data.draw(st.sampled_from(["a", "b", "A", "a.b", "b.a", "x"])), pa.int64(), i) for i in ids]
    asked = data.draw(st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, unique=True))
    where = data.draw(st.sampled_from([ALWAYS_TRUE, eq("a", 1), eq("b", 2), eq("c", 7)]))
    found = _rows(form, fields, [[i] for i in ids], THREE, asked, where=where)
    wanted = {"a": 1, "b": 2, "c": 3}
    assert found == ([] if where == eq("c", 7) else [{name: wanted[name] for name in asked}])
