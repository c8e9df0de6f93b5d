"""Fields of type unknown inside structs, lists and maps, which Arrow's casts truncate (TYPE-37)."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from iceberg_ops.data.arrow.arrow_values import values_of
from iceberg_ops.data.arrow.nested_nulls import map_entries
from iceberg_ops.data.arrow.plain_types import as_lists
from iceberg_ops.data.reading.json_rows import json_lines
from iceberg_ops.data.writing.conform import check_required, conform
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import LONG, STRING, UNKNOWN, IcebergType, NestedField, StructType, list_of, map_of
from tests.data.files import batch_of, new_io, read, write, write_context

ID = NestedField(1, "id", LONG)
INNER = StructType((NestedField(3, "a", LONG), NestedField(4, "u", UNKNOWN)))
NESTED: list[tuple[IcebergType, list[Any]]] = [
    (INNER, [(1, None), None, (2, None), (3, None)]),
    (StructType((NestedField(5, "deep", INNER), NestedField(6, "b", LONG))), [((1, None), 2), (None, 3), None, ((4, None), None)]),
    (list_of(7, INNER), [[(1, None)], [(2, None), None, (3, None)], [], None]),
    (map_of(8, STRING, 9, INNER), [[("a", (1, None)), ("b", None), ("c", (2, None))], None, [], [("d", (3, None))]]),
]


@pytest.mark.parametrize("form", ["parquet", "avro"])
@pytest.mark.parametrize(("type_", "values"), NESTED, ids=lambda v: str(v) if isinstance(v, IcebergType) else "")
def test_many_rows_come_back_as_they_were(form: str, type_: IcebergType, values: list[Any]) -> None:
    """A writer takes a slice of its rows at a time."""
    schema, io = Schema.of(ID, NestedField(2, "n", type_)), new_io()
    rows = [(i, values[i % 4]) for i in range(5000)]
    files = write(write_context(schema, properties={"write.format.default": form}), io, rows)
    assert read(files, schema, io) == rows
    assert read(files, schema, io, batch_rows=7) == rows


@pytest.mark.parametrize(("type_", "values"), [*NESTED, (list_of(7, UNKNOWN), [[None] * 3, None, [], [None]])])
def test_values_of_a_slice_are_its_own(type_: IcebergType, values: list[Any]) -> None:
    schema = Schema.of(NestedField(2, "n", type_))
    batch = batch_of(schema, [(v,) for v in values])
    for start, size in [(0, 4), (1, 3), (1, 2), (2, 1), (3, 1), (4, 0)]:
        part = batch.slice(start, size)
        assert values_of(type_, part.column(0)) == values[start : start + size]
        assert len([json.loads(line) for line in json_lines(part, schema).splitlines()]) == size
        check_required(part, schema)
        assert values_of(type_, conform(part, schema).column(0)) == values[start : start + size]


def test_entries_of_maps_are_those_of_the_slice_and_of_present_maps() -> None:
    offsets, is_null = pa.array([0, 1, 3, 4], pa.int32()), pa.array([False, True, False])
    hidden = pa.MapArray.from_arrays(offsets, list("abcd"), [1, 2, 3, 4], mask=is_null)
    assert map_entries(hidden).to_pylist() == [{"key": "a", "value": 1}, {"key": "d", "value": 4}]
    assert map_entries(hidden.slice(1)).to_pylist() == [{"key": "d", "value": 4}]
    assert as_lists(hidden.slice(2)).to_pylist() == [[{"key": "d", "value": 4}]]
