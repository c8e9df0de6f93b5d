"""Columns of Avro data files whose names become equal when Avro's forbidden letters are replaced."""

from __future__ import annotations

import pytest

from iceberg_ops.serde.avro.avro_names import record_names
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import INT, STRING, NestedField, StructType, list_of, map_of
from tests.data.files import new_io, read, write, write_context

AVRO = {"write.format.default": "avro"}
PAIRS = [("1", "_1"), ("_1", "1"), ("é", "_xE9"), ("a b", "a_x20b"), ("x", "X"), ("", "_")]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_columns_whose_sanitized_names_are_alike_keep_their_own_values(first: str, second: str) -> None:
    inner = StructType((NestedField(11, first, INT), NestedField(12, second, STRING)))
    other = StructType((NestedField(21, first, INT), NestedField(22, second, STRING)))
    third = StructType((NestedField(31, first, INT), NestedField(32, second, STRING)))
    schema = Schema.of(
        NestedField(1, first, INT),
        NestedField(2, second, INT),
        NestedField(3, "s", inner),
        NestedField(4, "l", list_of(5, other)),
        NestedField(6, "m", map_of(7, INT, 8, third)),
    )
    rows = [(1, 2, (3, "a"), [(4, "b"), (5, None)], [(1, (6, "c"))]), (None, 7, None, None, [(2, None)])]
    io = new_io()
    files = write(write_context(schema, properties=AVRO), io, rows)
    assert read(files, schema, io) == rows
    assert read(files, schema, io, columns=[second]) == [(2,), (7,)]


def test_a_name_made_distinct_is_not_another_columns_name() -> None:
    fields = [NestedField(1, "_1_3", INT), NestedField(2, "1", INT), NestedField(3, "_1", INT), NestedField(4, "_1_3_3", INT)]
    names = record_names(fields)
    assert names[:2] == ("_1_3", "_1")
    assert len(set(names)) == len(names)
