"""A writer refuses rows that Arrow accepts but no table can hold, as bad data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyroaring import BitMap64

from iceberg_ops.data.reading.json_rows import json_lines
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.data.writing.delete_files import ascending, write_deletion_vectors, write_position_deletes
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import CorruptTableError, DataError
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import STRING, NestedField, StructType, list_of
from tests.data.files import new_io, read, write, write_context

TEXT = Schema.of(NestedField(1, "s", STRING))
REQUIRED = Schema.of(NestedField(1, "s", STRING, True))
NO_UTF8 = pa.array([b"a", b"\xff"]).view(pa.string())


def batch(array: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([array], names=["s"])


def with_null_entry(*indices: int | None) -> pa.RecordBatch:
    return batch(pa.DictionaryArray.from_arrays(pa.array(indices, pa.int8()), pa.array(["x", None])))


def test_a_null_among_the_values_of_a_dictionary_is_a_null() -> None:
    with pytest.raises(DataError, match="column s is required, but 1 of 2 rows have no value"):
        conform(with_null_entry(0, 1), REQUIRED)
    io = new_io()
    writer = PartitionedWriter(write_context(TEXT), io, operation_id="op")
    writer.write(with_null_entry(0, 1, None))
    (file,) = writer.close()
    assert read([file], TEXT, io) == [("x",), (None,), (None,)]
    assert file.null_value_counts == {1: 2}
    assert conform(with_null_entry(0, 0), REQUIRED).to_pylist() == [{"s": "x"}] * 2, "a null that no row has is nobody's"


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("array", [NO_UTF8, NO_UTF8.dictionary_encode(), NO_UTF8.cast(pa.large_binary()).view(pa.large_string())])
def test_text_that_is_no_utf_8_is_bad_data(array: pa.Array, keep: bool) -> None:
    with pytest.raises(DataError, match=r"column s.*UTF"):
        conform(batch(array), TEXT, keep_dictionaries=keep)


def test_so_it_is_inside_structs_and_lists() -> None:
    schema = Schema.of(NestedField(1, "s", list_of(2, StructType((NestedField(3, "t", STRING),)))))
    structs = pa.StructArray.from_arrays([NO_UTF8], names=["t"])
    with pytest.raises(DataError, match=r"column s.*UTF"):
        conform(batch(pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), structs)), schema)


def test_text_of_a_file_that_is_no_utf_8_is_a_damaged_table() -> None:
    with pytest.raises(CorruptTableError, match="column s"):
        json_lines(batch(NO_UTF8), TEXT)


WRONG: list[Any] = [[-1], [0, -5, 3], np.array([2**63], np.uint64), [2**63], BitMap64([1, 2**63]), np.array([-1])]


@pytest.mark.parametrize("positions", WRONG)
@pytest.mark.parametrize("version", [2, 3])
def test_positions_that_no_row_has_are_bad_data(version: int, positions: Any) -> None:
    io, context = new_io(), write_context(TEXT, version=version)
    (file,) = write(context, io, [("a",)])
    make = write_position_deletes if version == 2 else write_deletion_vectors
    with pytest.raises(DataError, match=r"row position .* is outside"):
        make(io, context, {file: positions}, operation_id="op")


@pytest.mark.parametrize("positions", [[3, 1, 3], np.array([3, 1], np.uint8), BitMap64([1, 3]), iter((3, 1)), {1, 3}])
def test_positions_come_in_order_from_anything(positions: Any) -> None:
    assert ascending(positions).tolist() == [1, 3]
    assert ascending([]).tolist() == []
    assert ascending([2**63 - 1]).tolist() == [2**63 - 1]
