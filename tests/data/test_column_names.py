"""Columns are found by name in a file without field ids: an exact name wins, and two columns never become one (NAMEMAP-01)."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from iceberg_ops.data.columns.file_columns import ColumnIds, find_column
from iceberg_ops.data.columns.read_context import ReadContext
from iceberg_ops.data.reading.reader import read_task
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import ALWAYS_TRUE, Expression, eq
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.name_mapping import MappedField, NameMapping, create_name_mapping
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, NestedField, StructType, list_of
from tests.data.files import new_io, rows_of

A, B = NestedField(1, "a", LONG), NestedField(2, "b", LONG)
SCHEMA = Schema.of(A, B)
FORMS = pytest.mark.parametrize("form", ["parquet", "orc"])


def read(
    table: pa.Table,
    form: str = "parquet",
    schema: Schema = SCHEMA,
    mapping: NameMapping | None = None,
    columns: list[str] | None = None,
    where: Expression = ALWAYS_TRUE,
) -> list[tuple[Any, ...]]:
    io, sink = new_io(), pa.BufferOutputStream()
    (pq if form == "parquet" else orc).write_table(table, sink)
    io.write("memory://f", sink.getvalue().to_pybytes())
    file = DataFile(file_path="memory://f", file_format=FileFormat(form), record_count=table.num_rows, file_size_in_bytes=1)
    context = ReadContext(
        table_schema=schema, projected=schema, schemas=(schema,), specs={}, name_mapping=mapping or create_name_mapping(schema)
    )
    context = context if columns is None else context.select(columns)
    return rows_of(context.projected, read_task(FileScanTask(file, 1, residual=where), context, io))


def table(*names: str) -> pa.Table:
    """Columns of one row, each with its place as value."""
    return pa.Table.from_arrays([pa.array([place]) for place in range(len(names))], names=list(names))


@FORMS
@pytest.mark.parametrize(("names", "row"), [(("A", "a", "b"), (1, 2)), (("a", "A", "B"), (0, 2)), (("B", "A"), (1, 0))])
def test_an_exact_name_wins_wherever_it_stands(form: str, names: tuple[str, ...], row: tuple[int, int]) -> None:
    assert read(table(*names), form) == [row]
    assert read(table(*names), form, where=bind(SCHEMA, eq("a", row[0]))) == [row]
    assert read(table(*names), form, where=bind(SCHEMA, eq("a", 9))) == []


@FORMS
def test_so_it_does_inside_structs_and_lists(form: str) -> None:
    inner = StructType((NestedField(3, "a", LONG),))
    schema = Schema.of(A, NestedField(2, "s", inner), NestedField(4, "l", list_of(5, StructType((NestedField(6, "a", LONG),)))))
    rows = pa.table({"a": [1], "s": [{"A": 2, "a": 3}], "l": [[{"A": 4, "a": 5}]]})
    assert read(rows, form, schema) == [(1, (3,), [(5,)])]


@FORMS
def test_two_columns_that_differ_from_one_name_by_case_are_refused_where_the_column_is_read(form: str) -> None:
    schema = Schema.of(NestedField(1, "ab", LONG), B)
    with pytest.raises(CorruptTableError, match="'Ab' and 'AB' are both the field with id 1"):
        read(table("Ab", "AB", "b"), form, schema)
    assert read(table("Ab", "AB", "b"), form, schema, columns=["b"]) == [(2,)]


@FORMS
def test_two_names_of_one_field_in_one_file_are_refused_where_the_column_is_read(form: str) -> None:
    mapping = NameMapping((MappedField(("a", "old"), 1), MappedField(("b",), 2)))
    assert read(table("old", "b"), form, mapping=mapping) == [(0, 1)]
    with pytest.raises(CorruptTableError, match="'old' and 'a' are both the field with id 1"):
        read(table("old", "a", "b"), form, mapping=mapping)
    assert read(table("old", "a", "b"), form, mapping=mapping, columns=["b"]) == [(2,)]


def test_a_field_id_that_two_columns_carry_is_refused() -> None:
    columns = [pa.field(name, pa.int64(), metadata={"PARQUET:field_id": "1"}) for name in ("a", "x")]
    with pytest.raises(CorruptTableError, match="'a' and 'x' are both the field with id 1"):
        read(pa.Table.from_arrays([pa.array([1]), pa.array([2])], schema=pa.schema(columns)))


@pytest.mark.parametrize("names", [("A", "a", "b"), ("a", "A", "b")])
def test_rows_with_a_second_column_of_a_name_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match="column 'A' is not in the table"):
        conform(table(*names).to_batches()[0], SCHEMA)


@pytest.mark.parametrize("names", [("a", "a", "b"), ("B", "a", "B")])
def test_rows_with_a_name_twice_are_refused(names: tuple[str, ...]) -> None:
    with pytest.raises(DataError, match="are both the field with id"):
        conform(table(*names).to_batches()[0], SCHEMA)


def test_so_are_structs_with_a_second_field_of_a_name() -> None:
    schema = Schema.of(NestedField(1, "s", StructType((NestedField(2, "a", LONG),))))
    with pytest.raises(DataError, match=r"s\.A' is not in the table"):
        conform(pa.record_batch({"s": [{"A": 1, "a": 2}]}), schema)
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(DataError, match="are both the field with id"):
        conform(pa.RecordBatch.from_arrays([twice], names=["s"]), schema)


def test_whatever_names_stand_beside_each_other_in_any_order() -> None:
    """The exact name, else the only one that differs by case, else nothing; several are refused."""
    schema = Schema.of(NestedField(1, "ab", LONG), NestedField(2, "c", LONG))
    ids = ColumnIds(create_name_mapping(schema), schema)
    names = ("ab", "Ab", "aB", "c", "C")
    for given in (order for n in range(1, 6) for order in itertools.permutations(names, n)):
        columns = ids.columns(pa.schema([(name, pa.int64()) for name in given]))
        for f in schema.fields:
            alike = [name for name in given if name.lower() == f.name]
            meant = [f.name] if f.name in alike else alike
            if len(meant) > 1:
                with pytest.raises(CorruptTableError, match="are both the field"):
                    find_column(columns, f.field_id)
            else:
                found = find_column(columns, f.field_id)
                assert [given[found.index]] == meant if found is not None else not meant, given
