"""A struct that is null has no parts, not even required ones."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import BOOLEAN, INT, LONG, STRING, IcebergType, NestedField, StructType, list_of, map_of
from tests.data.files import new_io, read, write, write_context

PART = NestedField(3, "part", StructType((NestedField(4, "flags", list_of(5, BOOLEAN)),)), required=True)
SCHEMA = Schema.of(NestedField(1, "whole", StructType((NestedField(2, "flag", BOOLEAN), PART))))


@pytest.mark.parametrize("form", ["parquet", "avro"])
def test_a_null_struct_with_a_required_part_comes_back_null(form: str) -> None:
    io = new_io()
    rows = [(None,), ((True, ([False, None],)),), (None,)]
    files = write(write_context(SCHEMA, properties={"write.format.default": form}), io, rows)
    assert read(files, SCHEMA, io) == rows


INNER = StructType((NestedField(3, "c", STRING),))
FILTERED = Schema.of(
    NestedField(9, "id", LONG), NestedField(1, "st", StructType((NestedField(2, "b", INNER), NestedField(4, "a", LONG))))
)
PRESENT: list[tuple[int, Any]] = [(1, None), (2, (None, None)), (3, ((None,), None)), (4, ((None,), 4)), (5, (("x",), None))]


@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.parametrize(
    ("where", "ids"),
    [
        ("st IS NULL", [1]),
        ("st IS NOT NULL", [2, 3, 4, 5]),
        ("st.b IS NULL", [1, 2]),
        ("st.b IS NOT NULL", [3, 4, 5]),
        ("st.b.c IS NULL", [1, 2, 3, 4]),
        ("st.a IS NOT NULL", [4]),
        ("NOT (st IS NULL OR st.b IS NULL)", [3, 4, 5]),
    ],
)
def test_a_filter_tells_a_null_struct_from_one_with_null_parts(form: str, where: str, ids: list[int]) -> None:
    io = new_io()
    files = write(write_context(FILTERED, properties={"write.format.default": form}), io, PRESENT)
    found = read(files, FILTERED, io, where=bind(FILTERED, parse_where(where)))
    assert [row[0] for row in found] == ids


KEPT = [
    map_of(20, STRING, 21, INT),
    map_of(20, STRING, 21, StructType((NestedField(22, "m", map_of(23, INT, 24, INT)),))),
    list_of(20, map_of(21, STRING, 22, INT)),
    list_of(20, StructType((NestedField(21, "x", INT), NestedField(22, "y", INT)))),
    StructType((NestedField(20, "m", map_of(21, STRING, 22, list_of(23, INT))),)),
]


@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.parametrize("kept", KEPT, ids=str)
def test_nulls_of_a_struct_are_read_where_no_part_that_the_file_has_is_asked_for(form: str, kept: IcebergType) -> None:
    """Some part of it is read all the same, whatever its parts are."""
    old, new = NestedField(11, "old", kept), NestedField(12, "new", INT)
    before = Schema.of(NestedField(1, "id", INT), NestedField(2, "st", StructType((old,))))
    after = Schema.of(NestedField(1, "id", INT), NestedField(2, "st", StructType((old, new))))
    io = new_io()
    files = write(write_context(before, properties={"write.format.default": form}), io, [(1, (None,)), (2, None)])
    where = bind(after, parse_where("st.new IS NULL"))
    assert read(files, after, io, where=where, columns=["id"]) == [(1,), (2,)]
    without = Schema.of(NestedField(1, "id", INT), NestedField(2, "st", StructType((new,))))
    assert read(files, without, io) == [(1, (None,)), (2, None)]
