"""Metrics of written Parquet files (MANIFEST-28..35, MANIFEST-53, MANIFEST-54, BIN-01, BIN-02): counts,
bounds, modes, NaN, -0.0."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from iceberg_ops.data.arrow.arrow_schema import arrow_type
from iceberg_ops.data.writing.conform import conform
from iceberg_ops.data.writing.writer import PartitionedWriter
from iceberg_ops.errors import DataError
from iceberg_ops.spec.content_files import DataFile
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    UUID,
    DecimalType,
    FixedType,
    IcebergType,
    NestedField,
    StructType,
    list_of,
    map_of,
)
from iceberg_ops.spec.values import from_bytes
from tests.data.files import batch_of, new_io, write, write_context

NAN = float("nan")


def metrics(type_: IcebergType, values: list[Any], **properties: str) -> DataFile:
    named = {f"write.metadata.metrics.{k.replace('_', '.')}": v for k, v in properties.items()}
    (file,) = write(write_context(Schema.of(NestedField(1, "v", type_)), properties=named), new_io(), [(v,) for v in values])
    return file


def bounds(type_: IcebergType, file: DataFile, field_id: int = 1) -> tuple[Any, Any]:
    lower, upper = (file.lower_bounds or {}).get(field_id), (file.upper_bounds or {}).get(field_id)
    return (None if lower is None else from_bytes(type_, lower), None if upper is None else from_bytes(type_, upper))


BOUNDS: list[tuple[IcebergType, list[Any], Any, Any]] = [
    (INT, [3, None, -5], -5, 3),
    (LONG, [2**40, -(2**40)], -(2**40), 2**40),
    (BOOLEAN, [True, False], False, True),
    (DATE, [-3, 9], -3, 9),
    (TIMESTAMP, [-62_135_596_800_000_001, 5], -62_135_596_800_000_001, 5),
    (DOUBLE, [1.5, NAN, -2.5, None], -2.5, 1.5),
    (DOUBLE, [NAN, NAN, None], None, None),
    (INT, [None, None], None, None),
    (DecimalType(precision=9, scale=2), [Decimal("1.50"), Decimal("-3.25")], Decimal("-3.25"), Decimal("1.50")),
    (DecimalType(precision=30, scale=2), [Decimal("1.50"), Decimal("-3.25")], Decimal("-3.25"), Decimal("1.50")),
    (STRING, ["b", "a", None], "a", "b"),
    (STRING, ["a" * 20], "a" * 16, "a" * 15 + "b"),
    (STRING, ["\U0010ffff" * 17], "\U0010ffff" * 16, None),
    (BINARY, [b"\xff" * 17], b"\xff" * 16, None),
    (FixedType(length=2), [b"\x00\x01", b"\xff\x00"], b"\x00\x01", b"\xff\x00"),
    (STRING, ["z" * 9000, "y"], "y", "z" * 15 + "{"),
]


@pytest.mark.parametrize(("type_", "values", "low", "high"), BOUNDS)
def test_bounds_hold_every_value_and_are_cut_so_that_they_still_do(
    type_: IcebergType, values: list[Any], low: Any, high: Any
) -> None:
    assert bounds(type_, metrics(type_, values)) == (low, high)


def test_zeros_of_both_signs_lie_between_the_bounds() -> None:
    for values in ([0.0], [-0.0], [0.0, -0.0]):
        low, high = bounds(DOUBLE, metrics(DOUBLE, values))
        assert (str(low), str(high)) == ("-0.0", "0.0")


def test_counts_tell_nulls_and_nans_apart() -> None:
    file = metrics(DOUBLE, [1.0, None, NAN, NAN])
    assert (file.value_counts, file.null_value_counts, file.nan_value_counts) == ({1: 4}, {1: 1}, {1: 2})
    assert file.record_count == 4
    assert (file.column_sizes or {})[1] > 0


@pytest.mark.parametrize(
    ("mode", "counted", "bound"),
    [("none", False, None), ("counts", True, None), ("truncate(3)", True, "abc"), ("full", True, "abcdefghijklmnopqrstu")],
)
def test_the_metrics_mode_decides_what_is_recorded(mode: str, counted: bool, bound: str | None) -> None:
    for properties in ({"default": mode}, {"default": "none", "column_v": mode}):
        file = metrics(STRING, ["abcdefghijklmnopqrstu"], **properties)
        assert (file.value_counts == {1: 1}) is counted
        assert bounds(STRING, file)[0] == bound


def test_fields_of_structs_have_bounds_and_elements_of_lists_have_counts_only() -> None:
    inner = StructType((NestedField(3, "x", INT), NestedField(4, "u", UUID)))
    schema = Schema.of(NestedField(1, "l", list_of(2, INT)), NestedField(5, "s", inner))
    (file,) = write(write_context(schema), new_io(), [([1, 2], (7, None)), (None, None)])
    assert bounds(INT, file, 3) == (7, 7)
    assert set(file.lower_bounds or {}) == {3}
    assert (file.value_counts or {})[2] == 3
    assert (file.null_value_counts or {})[3] == 1


@pytest.mark.parametrize("long_at", range(4))
@pytest.mark.parametrize("type_", [STRING, BINARY], ids=str)
@pytest.mark.parametrize("shape", ["plain", "in a struct", "in structs"])
def test_text_too_long_for_statistics_is_bounded_with_all_that_is_beside_it(shape: str, type_: IcebergType, long_at: int) -> None:
    """MANIFEST-53: rows come in batches, and one of them has a text that Arrow keeps no statistics for."""
    texts = ["b", "a", "d", "c"]
    texts[long_at] = "bb" + "x" * 5000
    values = [t if type_ == STRING else t.encode() for t in texts]
    leaf, wrap = NestedField(5, "t", type_), (lambda v: v)
    if shape != "plain":
        leaf, wrap = NestedField(4, "s", StructType((leaf,))), (lambda v: (v,))
    if shape == "in structs":
        leaf, wrap = NestedField(3, "o", StructType((leaf,))), (lambda v: ((v,),))
    context = write_context(Schema.of(leaf), properties={"write.metadata.metrics.default": "full"})
    writer = PartitionedWriter(context, new_io(), operation_id="op")
    for value in (*values, None):
        writer.write(batch_of(context.file_schema, [(None if value is None else wrap(value),)]))
    (file,) = writer.close()
    assert bounds(type_, file, 5) == (min(values), max(values))


@pytest.mark.parametrize("type_", [STRING, BINARY])
def test_values_of_a_dictionary_that_no_row_has_are_not_written(type_: IcebergType) -> None:
    """Rows that a delete or another partition has taken leave their values in a batch's dictionary. Arrow takes them for bounds if
    a row is NULL."""
    values = ["a", "m", "z"] if type_ == STRING else [b"a", b"m", b"z"]
    schema, io = Schema.of(NestedField(1, "v", type_)), new_io()
    texts = pa.array(values, arrow_type(type_))
    writer = PartitionedWriter(write_context(schema, properties={"write.metadata.metrics.default": "full"}), io, operation_id="op")
    for used in ([1, None, 2, 1], [1, 2, 2, 1], [None, None, None, None]):
        batch = pa.DictionaryArray.from_arrays(pa.array(used, pa.int32()), texts)
        writer.write(pa.RecordBatch.from_arrays([batch], ["v"]))
    (file,) = writer.close()
    assert bounds(type_, file) == (values[1], values[2])
    stored = pq.read_table(pa.BufferReader(io.read(file.file_path)), read_dictionary=["v"]).column("v")
    assert [sorted(chunk.dictionary.to_pylist()) for chunk in stored.chunks] == [values[1:]]
    assert stored.to_pylist() == [values[n] if n else None for n in (1, 0, 2, 1, 1, 2, 2, 1, 0, 0, 0, 0)]


def test_rows_that_do_not_fit_are_refused() -> None:
    required = Schema.of(NestedField(1, "v", INT, True))
    with pytest.raises(DataError, match="v is required"):
        conform(batch_of(Schema.of(NestedField(1, "v", INT)), [(None,)]), required)
    with pytest.raises(DataError, match="not in the table"):
        conform(batch_of(Schema.of(NestedField(9, "other", INT)), [(1,)]), required)
    with pytest.raises(DataError, match="outside"):
        conform(batch_of(Schema.of(NestedField(1, "v", LONG)), [(2**40,)]), required)
    filled = conform(
        batch_of(Schema.of(NestedField(1, "v", INT)), [(1,)]),
        Schema.of(*required.fields, NestedField(2, "d", INT, write_default=4)),
    )
    assert filled.column(1).to_pylist() == [4]


def test_nans_inside_maps_are_those_of_the_rows_that_are_written() -> None:
    schema = Schema.of(NestedField(1, "m", map_of(2, STRING, 3, DOUBLE)))
    io = new_io()
    batch = batch_of(schema, [([("a", NAN)],), ([("b", 1.0), ("c", NAN)],), (None,), ([("d", NAN)],)])
    writer = PartitionedWriter(write_context(schema), io, operation_id="op")
    writer.write(batch.slice(1, 2))
    (file,) = writer.close()
    assert file.nan_value_counts == {3: 1}
