"""Shredded variants are reassembled byte for byte as Java writes them; variants that the specification calls invalid are refused
(PARQUET-04, spec of Parquet's "Variant Shredding")."""

from __future__ import annotations

import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.data.arrow import variant_encoding as encoding
from iceberg_ops.data.arrow.variant import read_variant
from iceberg_ops.data.arrow.variant_values import TemporalValue, Variant, decode, names_in
from iceberg_ops.errors import CorruptTableError
from iceberg_ops.io.local import LocalFileIO
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.types import DATE, INT, TIME, TIMESTAMP, TIMESTAMP_NS, TIMESTAMPTZ, TIMESTAMPTZ_NS, VARIANT, NestedField
from tests.data.files import new_io, read, write, write_context
from tests.fixture_paths import requires_fixtures
from tests.golden import golden_files

SCHEMA = Schema.of(NestedField(1, "id", INT, True), NestedField(2, "var", VARIANT))
GOLDEN_CASES = golden_files("variant", "case-*.parquet")
MUST_REJECT = {
    "case-040": "both set",  # an element with value and typed_value
    "case-042": "both set",  # a primitive with value and typed_value
    "case-043-INVALID": "field b is in value and in typed_value",
    "case-084-INVALID": "the group of shredded field d is null",
    "case-087": "value is not an object",
    "case-127": "typed_value is uint32",
    "case-128": "value is not an object",
    "case-137": "typed_value is fixed_size_binary",
}
NO_NAMES = b"\x01\x00\x00"
ABC = b"\x11\x03\x00\x01\x02\x03abc"
ONE = b"\x0c\x01"


def _golden_rows(path: Path) -> list[tuple[Any, ...]]:
    rows = pq.read_metadata(path).num_rows
    file = DataFile(file_path=str(path), file_format=FileFormat.PARQUET, record_count=rows, file_size_in_bytes=path.stat().st_size)
    return read([file], SCHEMA, LocalFileIO())  # type: ignore[arg-type]


@requires_fixtures
@pytest.mark.parametrize("path", [p for p in GOLDEN_CASES if p.stem not in MUST_REJECT], ids=lambda p: p.stem)
def test_javas_shredded_variants_come_back_byte_for_byte(path: Path) -> None:
    rows = _golden_rows(path)
    assert rows
    for number, (_, found) in enumerate(rows):
        expected = path.with_name(f"{path.stem}_row-{number}.variant.bin")
        assert (found is None) == (not expected.exists())
        if found is not None:
            assert found.metadata + found.value == expected.read_bytes()


@requires_fixtures
@pytest.mark.parametrize("path", [p for p in GOLDEN_CASES if p.stem in MUST_REJECT], ids=lambda p: p.stem)
def test_javas_invalid_variants_are_corrupt(path: Path) -> None:
    with pytest.raises(CorruptTableError, match=f"variant column var: .*{MUST_REJECT[path.stem]}"):
        _golden_rows(path)


@requires_fixtures
def test_every_golden_variant_is_a_row_that_was_compared_or_refused() -> None:
    refused = {p for name in MUST_REJECT for p in golden_files("variant", f"{name}_row-*.bin")}
    compared = {
        p for path in GOLDEN_CASES for p in golden_files("variant", f"{path.stem}_row-*.bin") if path.stem not in MUST_REJECT
    }
    assert refused | compared == set(golden_files("variant", "*.bin"))
    assert set(MUST_REJECT) <= {p.stem for p in GOLDEN_CASES}


def _group(value: list[bytes | None], typed: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays([pa.array(value, pa.binary()), typed], ["value", "typed_value"])


def _column(value: list[bytes | None], typed: pa.Array, metadata: bytes = NO_NAMES, mask: pa.Array | None = None) -> pa.StructArray:
    parts = [pa.array([metadata] * len(typed), pa.binary()), pa.array(value, pa.binary()), typed]
    return pa.StructArray.from_arrays(parts, ["metadata", "value", "typed_value"], mask=mask)


def _decoded(column: pa.StructArray) -> list[Any]:
    return [None if row is None else decode(Variant(**row)) for row in read_variant(column, "v").to_pylist()]


UUID = uuid.UUID("f24f9b64-81fa-49d1-b74e-8c09a6e31c56")
PRIMITIVES: list[tuple[str, pa.Array, Any]] = [
    ("boolean", pa.array([False]), False),
    ("int8", pa.array([-3], pa.int8()), -3),
    ("int16", pa.array([-300], pa.int16()), -300),
    ("int32", pa.array([-(2**31)], pa.int32()), -(2**31)),
    ("int64", pa.array([2**63 - 1], pa.int64()), 2**63 - 1),
    ("float", pa.array([1.5], pa.float32()), 1.5),
    ("double", pa.array([-0.1], pa.float64()), -0.1),
    ("decimal4", pa.array([Decimal("-1234.56")], pa.decimal128(9, 2)), Decimal("-1234.56")),
    ("decimal8", pa.array([Decimal("12345678901.5")], pa.decimal128(18, 1)), Decimal("12345678901.5")),
    ("decimal16", pa.array([Decimal("-1" + "0" * 37)], pa.decimal128(38, 0)), Decimal("-1" + "0" * 37)),
    ("date", pa.array([-4438], pa.date32()), TemporalValue(DATE, -4438)),
    ("time", pa.array([5], pa.time64("us")), TemporalValue(TIME, 5)),
    ("timestamptz", pa.array([-7], pa.timestamp("us", "UTC")), TemporalValue(TIMESTAMPTZ, -7)),
    ("timestampntz", pa.array([7], pa.timestamp("us")), TemporalValue(TIMESTAMP, 7)),
    ("timestamptz nanos", pa.array([7], pa.timestamp("ns", "UTC")), TemporalValue(TIMESTAMPTZ_NS, 7)),
    ("timestampntz nanos", pa.array([-7], pa.timestamp("ns")), TemporalValue(TIMESTAMP_NS, -7)),
    ("binary", pa.array([b"\x00\xff"]), b"\x00\xff"),
    ("string", pa.array(["é" * 31]), "é" * 31),
    ("long string", pa.array(["é" * 32]), "é" * 32),
    ("string in a dictionary", pa.array(["a"]).dictionary_encode(), "a"),
    ("uuid", pa.array([UUID.bytes], pa.binary(16)), UUID),
]


@pytest.mark.parametrize(("typed", "shown"), [c[1:] for c in PRIMITIVES], ids=[c[0] for c in PRIMITIVES])
def test_every_type_of_typed_value_is_read(typed: pa.Array, shown: Any) -> None:
    rows = pa.concat_arrays([typed, pa.nulls(1, typed.type), pa.nulls(1, typed.type)])
    found = _decoded(_column([None, ONE, None], rows, mask=pa.array([False, False, True])))
    assert found == [shown, 1, None]


def test_nan_keeps_its_bits_and_zero_its_sign() -> None:
    values = pa.array([0x7FF8000000000001, -(2**63)], pa.int64()).view(pa.float64())
    found = read_variant(_column([None, None], values), "v").field("value").to_pylist()
    assert found == [b"\x1c\x01\x00\x00\x00\x00\x00\xf8\x7f", b"\x1c" + b"\x00" * 7 + b"\x80"]


UNREADABLE = [
    pa.uint8(),
    pa.uint64(),
    pa.float16(),
    pa.date64(),
    pa.time32("ms"),
    pa.timestamp("ms"),
    pa.decimal256(40, 0),
    pa.binary(4),
]


@pytest.mark.parametrize("type_", UNREADABLE, ids=str)
def test_a_type_no_variant_has_is_corrupt(type_: pa.DataType) -> None:
    with pytest.raises(CorruptTableError, match=r"typed_value is .*, which no variant value has"):
        _decoded(_column([ONE], pa.nulls(1, type_)))


def test_objects_of_more_than_255_fields_and_long_values_are_put_together() -> None:
    names = [f"n{i:03}" for i in range(300)]
    content = b"".join(n.encode() for n in names)
    ends = b"".join((4 * i).to_bytes(2, "little") for i in range(301))
    metadata = b"\x41" + (300).to_bytes(2, "little") + ends + content
    assert names_in(metadata) == names
    fields = [_group([None], pa.array(["x" * 300])) for _ in names]
    found = _decoded(_column([None], pa.StructArray.from_arrays(fields, names), metadata))
    assert found == [dict.fromkeys(names, "x" * 300)]


def _fields(**groups: pa.StructArray) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(groups.values()), list(groups))


BROKEN = {
    "a name that is not in the metadata": _column([None], _fields(d=_group([ONE], pa.nulls(1, pa.int32()))), ABC),
    "a field that is not a group": _column([None], pa.StructArray.from_arrays([pa.array([1])], ["a"]), ABC),
    "a field without value and typed_value": _column([None], _fields(a=_fields(b=_group([ONE], pa.array([1])))), ABC),
    "a field with both": _column([None], _fields(a=_group([ONE], pa.array([1]))), ABC),
    "elements that are no groups": _column([None], pa.array([[1]])),
    "an element group that is null": _column(
        [None], pa.ListArray.from_arrays([0, 1], pa.nulls(1, pa.struct({"typed_value": pa.int32()})))
    ),
    "a damaged residual": _column([b"\x02\x09"], _fields(a=_group([None], pa.array([1]))), ABC),
    "damaged metadata": _column([None], _fields(a=_group([None], pa.array([1]))), b"\x11\x03"),
    "no value, typed_value or metadata": pa.StructArray.from_arrays([pa.array([b""])], ["metadata"]),
}


@pytest.mark.parametrize("column", BROKEN.values(), ids=list(BROKEN))
def test_broken_shredding_is_corrupt(column: pa.StructArray) -> None:
    with pytest.raises(CorruptTableError, match="column v: "):
        _decoded(column)


LEAVES = st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1) | st.text(max_size=3)
TREES = st.recursive(
    LEAVES, lambda t: st.lists(t, max_size=3) | st.dictionaries(st.sampled_from("abc"), t, max_size=3), max_leaves=8
)
SHREDDINGS = st.recursive(
    st.sampled_from([None, "int", "text"]),
    lambda t: st.tuples(st.just("list"), t) | st.dictionaries(st.sampled_from("abc"), t, min_size=1, max_size=3),
    max_leaves=4,
)
_TYPES = {"int": (int, pa.int32()), "text": (str, pa.string())}


def _encoded(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        return encoding.NULL if value is None else encoding.primitive(1 if value else 2, b"")
    if isinstance(value, int):
        return encoding.primitive(5, value.to_bytes(4, "little", signed=True))
    if isinstance(value, str):
        return encoding.text(value.encode())
    if isinstance(value, list):
        return encoding.array([_encoded(v) for v in value])
    return encoding.object_({k: _encoded(v) for k, v in value.items()}, {"a": 0, "b": 1, "c": 2})


def _arrow_type(shredding: Any) -> pa.DataType:
    value = pa.field("value", pa.binary())
    if shredding is None:
        return pa.struct([value])
    if isinstance(shredding, str):
        return pa.struct([value, pa.field("typed_value", _TYPES[shredding][1])])
    if isinstance(shredding, tuple):
        return pa.struct([value, pa.field("typed_value", pa.list_(_arrow_type(shredding[1])))])
    return pa.struct([value, pa.field("typed_value", pa.struct({k: _arrow_type(v) for k, v in shredding.items()}))])


MISSING = object()


def _shredded(value: Any, shredding: Any) -> dict[str, Any]:
    """A writer's shredding of one value, as the specification describes it."""
    if value is MISSING:
        return {"value": None, "typed_value": None}
    if isinstance(shredding, str) and type(value) is _TYPES[shredding][0]:
        return {"value": None, "typed_value": value}
    if isinstance(shredding, tuple) and isinstance(value, list):
        return {"value": None, "typed_value": [_shredded(v, shredding[1]) for v in value]}
    if isinstance(shredding, dict) and isinstance(value, dict):
        rest = {k: v for k, v in value.items() if k not in shredding}
        typed = {k: _shredded(value.get(k, MISSING), s) for k, s in shredding.items()}
        return {"value": _encoded(rest) if rest else None, "typed_value": typed}
    return {"value": _encoded(value), "typed_value": None}


@given(st.lists(TREES, min_size=1, max_size=4), SHREDDINGS)
def test_what_a_writer_shreds_is_put_together_again(values: list[Any], shredding: Any) -> None:
    groups = pa.array([_shredded(v, shredding) for v in values], _arrow_type(shredding))
    names = [f.name for f in groups.type]
    column = pa.StructArray.from_arrays([pa.array([ABC] * len(values)), *groups.flatten()], ["metadata", *names])
    found = read_variant(column, "v").field("value").to_pylist()
    assert found == [_encoded(v) for v in values]


@requires_fixtures
def test_a_rewrite_writes_shredded_variants_unshredded() -> None:
    (path,) = golden_files("variant", "case-083.parquet")
    rows = _golden_rows(path)
    io = new_io()
    assert read(write(write_context(SCHEMA), io, rows), SCHEMA, io) == rows
