"""Whatever the schema, values and predicate: files keep rows, filters and transforms agree with the scalar ones.

Covers PART-01, XFORM-10..18, SCAN-07, DEFAULT-03, TYPE-31, BIN-01.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.data.arrow.arrow_values import array_of, values_of
from iceberg_ops.data.columns.partition_values import transformed
from iceberg_ops.data.columns.row_filter import matching
from iceberg_ops.errors import DataError, UnsupportedError
from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.ordering import order_key
from iceberg_ops.expressions.predicates import Literal, Not, Op, Predicate, Reference, TransformTerm, and_, or_
from iceberg_ops.expressions.row_evaluator import row_filter
from iceberg_ops.expressions.where import parse_where
from iceberg_ops.spec.metadata_columns import LAST_UPDATED_SEQUENCE_NUMBER, ROW_ID
from iceberg_ops.spec.partition_keys import value_identity
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transform_functions import apply, in_order
from iceberg_ops.spec.transforms import truncate
from iceberg_ops.spec.types import (
    BINARY,
    INT,
    LONG,
    STRING,
    UNKNOWN,
    DecimalType,
    IcebergType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    child_fields,
)
from iceberg_ops.spec.values import from_bytes
from tests import strategies
from tests.data.files import new_io, read, write, write_context

FEW = settings(max_examples=40, deadline=None)


def same(a: Any, b: Any) -> bool:
    """Equal, NaN included; containers by their items."""
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return (math.isnan(a) and math.isnan(b)) or a.hex() == b.hex()
    return bool(a == b) and type(a) is type(b)


def rows_for(schema: Schema) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    row = st.tuples(*(strategies.values(f.type) if f.required else st.none() | strategies.values(f.type) for f in schema.fields))
    return st.lists(row, min_size=1, max_size=6)


LINEAGE_NAMES = {ROW_ID.name, LAST_UPDATED_SEQUENCE_NUMBER.name}


def holds_nothing(f: NestedField) -> bool:
    """Whether the field is, or holds, a struct, list or map in which something is not stored."""
    children = child_fields(f.type)
    empty = not f.type.is_primitive and (not children or any(c.type == UNKNOWN for c in children))
    return empty or any(map(holds_nothing, children))


def nothing_stored(schema: Schema) -> bool:
    return all(f.type == UNKNOWN for f in schema.fields)


def has_maps(type_: IcebergType) -> bool:
    return isinstance(type_, MapType) or any(has_maps(f.type) for f in child_fields(type_))


@pytest.mark.parametrize("form", ["parquet", "avro"])
@FEW
@given(st.data())
def test_rows_of_any_schema_come_back(form: str, data: st.DataObject) -> None:
    schema = data.draw(strategies.schemas(unknown=True))
    rows = data.draw(rows_for(schema))
    if form == "avro" and any(has_maps(f.type) for f in schema.fields):
        return  # Avro's own maps hold a string key once; generated ones may repeat it
    io = new_io()
    try:
        files = write(write_context(schema, properties={"write.format.default": form}), io, rows)
    except UnsupportedError:  # a place for nothing, or a name that row lineage has: refused, not lost
        assert any(map(holds_nothing, schema.fields)) or {f.name for f in schema.fields} & LINEAGE_NAMES or nothing_stored(schema)
        return
    assert same(read(files, schema, io), rows)


@FEW
@given(st.data())
def test_every_row_lies_in_its_partition_and_in_its_bounds(data: st.DataObject) -> None:
    schema = data.draw(strategies.schemas())
    spec = data.draw(strategies.partition_specs(schema))
    rows = data.draw(rows_for(schema))
    io = new_io()
    try:
        files = write(write_context(schema, spec=spec), io, rows)
    except DataError:  # truncating the least decimal of a precision leaves it: refused, not cut
        return
    assert sum(f.record_count for f in files) == len(rows)
    places = {f.field_id: i for i, f in enumerate(schema.fields)}
    for file in files:
        for row in read([file], schema, io, spec=spec):
            for f, value in zip(spec.fields, file.partition, strict=True):
                source = schema.field(f.source_id)
                wanted = apply(f.transform, source.type, row[places[f.source_id]])
                assert value_identity(wanted) == value_identity(value)
            for f in schema.fields:
                value = row[places[f.field_id]]
                if value is None or (isinstance(value, float) and math.isnan(value)) or not f.type.is_primitive:
                    continue
                if (lower := (file.lower_bounds or {}).get(f.field_id)) is not None:
                    assert key(from_bytes(f.type, lower)) <= key(value)
                if (upper := (file.upper_bounds or {}).get(f.field_id)) is not None:
                    assert key(value) <= key(from_bytes(f.type, upper))


def key(value: Any) -> Any:
    return order_key(value)


@FEW
@given(st.data())
def test_vectorised_transforms_give_the_scalar_values(data: st.DataObject) -> None:
    type_ = data.draw(strategies.primitive_types())
    if isinstance(type_, PrimitiveType) and type_.name in ("unknown", "variant", "geometry", "geography"):
        return
    transform = data.draw(strategies.transforms_for(type_))
    given_values = data.draw(st.lists(st.none() | strategies.values(type_), max_size=8))
    wanted = [apply(transform, type_, v) for v in given_values]
    if any(isinstance(v, Decimal) and len(v.as_tuple().digits) > type_.precision for v in wanted):
        # Truncating the least values of a precision leaves it: refused, never cut.
        with pytest.raises(DataError, match="lies outside"):
            transformed(transform, type_, array_of(type_, given_values))
        return
    found = values_of(transform.result_type(type_), transformed(transform, type_, array_of(type_, given_values)))
    assert same(found, wanted)


@pytest.mark.parametrize("precision", [3, 38])
@pytest.mark.parametrize(
    "where", ["{t} <= {low}", "{t} > {low}", "{t} IN ({low}, 0)", "NOT ({t} = 0)", "{t} IS NULL", "{t} IS NOT NULL"]
)
def test_a_filter_truncates_the_least_decimals_of_a_precision(precision: int, where: str) -> None:
    schema = Schema.of(NestedField(1, "d", DecimalType(precision=precision, scale=0)))
    top = 10**precision - 1
    text = where.format(t="system.truncate(100, d)", low=-(10 ** (precision - 1)))
    bound = bind(schema, parse_where(text))
    values: list[Decimal | None] = [Decimal(-top), Decimal(-top), None, Decimal(-(10 ** (precision - 1))), Decimal(5), Decimal(top)]
    array = array_of(schema.fields[0].type, values)
    judge = row_filter(bound)
    for column in (array, array.dictionary_encode()):
        assert matching(bound, {1: column}, len(values)).to_pylist() == [judge((v,)) for v in values]


@pytest.mark.parametrize(("type_", "bits"), [(INT, 32), (LONG, 64)])
def test_what_is_truncated_below_the_least_integer_wraps_around(type_: PrimitiveType, bits: int) -> None:
    least = -(1 << (bits - 1))
    found = values_of(type_, transformed(truncate(10), type_, array_of(type_, [least, least + 8, None, 5])))
    assert found == [least - least % 10 + (1 << bits), least + 8, None, 0]


COMPARISONS = [Op.LT, Op.LT_EQ, Op.GT, Op.GT_EQ, Op.EQ, Op.NOT_EQ, Op.IN, Op.NOT_IN, Op.IS_NULL, Op.NOT_NULL]


def truncations_for(name: str, type_: PrimitiveType) -> st.SearchStrategy[Predicate]:
    """``system.truncate(W, column)`` beside literals that lie below its range, too."""
    widths = st.sampled_from([3, 10, 1000, 2**31 - 1])

    def build(width: int, op: Op, sources: list[Any]) -> Predicate:
        images = tuple(literal_of(in_order(truncate(width), type_, v), type_) for v in sources)
        return Predicate(op, TransformTerm(truncate(width), Reference(name)), images if op.is_set else images[:1])

    ops = st.sampled_from([op for op in COMPARISONS if not op.is_unary])
    return st.builds(build, widths, ops, st.lists(strategies.values(type_), min_size=1, max_size=4))


def literal_of(value: int, type_: PrimitiveType) -> Literal:
    """As SQL has it: a number beyond the longs is a decimal."""
    if type_ == INT or value >= -(2**63):
        return Literal(value, LONG)
    return Literal(Decimal(value), DecimalType(precision=19, scale=0))


def leaves_for(name: str, type_: PrimitiveType) -> st.SearchStrategy[Predicate]:
    literal = strategies.values(type_).map(lambda v: Literal(v, type_))
    ops = [*COMPARISONS, *([Op.IS_NAN, Op.NOT_NAN] if type_.name in ("float", "double") else [])]
    if type_ in (STRING, BINARY):
        ops += [Op.STARTS_WITH, Op.NOT_STARTS_WITH]

    def build(op: Op) -> st.SearchStrategy[Predicate]:
        count = (0, 0) if op.is_unary else (2, 4) if op.is_set else (1, 1)
        literals = st.lists(literal, min_size=count[0], max_size=count[1])
        return literals.map(lambda found: Predicate(op, Reference(name), tuple(found)))

    return st.sampled_from(ops).flatmap(build)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_filters_on_columns_agree_with_the_scalar_evaluator(data: st.DataObject) -> None:
    types = [data.draw(st.sampled_from([INT, LONG]) | strategies.primitive_types(v3=False)) for _ in range(2)]
    schema = Schema.of(*(NestedField(i + 1, f"c{i}", t) for i, t in enumerate(types)))
    leaf = st.one_of(*(leaves_for(f"c{i}", t) for i, t in enumerate(types) if isinstance(t, PrimitiveType)))
    whole = [truncations_for(f"c{i}", t) for i, t in enumerate(types) if t in (INT, LONG)]
    leaf = leaf | st.one_of(*whole) if whole else leaf
    tree = st.recursive(
        leaf, lambda inner: st.builds(and_, inner, inner) | st.builds(or_, inner, inner) | inner.map(Not), max_leaves=4
    )
    bound = bind(schema, data.draw(tree))
    rows = data.draw(rows_for(schema))
    columns = {f.field_id: array_of(f.type, [row[i] for row in rows]) for i, f in enumerate(schema.fields)}
    found = np.asarray(matching(bound, columns, len(rows))).tolist()
    judge = row_filter(bound)
    assert found == [judge(row) for row in rows]


ESCAPED, PLAIN, ENDS = (st.sampled_from(of) for of in (("\\\\", "\\%", "\\_"), ("a", "b", "_", "\n", "%"), ("%", "")))
PATTERNS = st.tuples(ENDS, st.lists(ESCAPED | PLAIN, max_size=3).map("".join), ENDS).map("".join)


@given(st.lists(st.text("ab%_\\\n", max_size=6), max_size=4), PATTERNS)
def test_like_on_columns_agrees_with_the_scalar_evaluator(texts: list[str], pattern: str) -> None:
    texts = [*texts, re.sub(r"\\(.)|%", r"\1", pattern)]  # matches: no character for each %, the character itself for each _
    schema = Schema.of(NestedField(1, "s", STRING))
    bound = bind(schema, Predicate(Op.LIKE, Reference("s"), (Literal(pattern, STRING),)))
    found = np.asarray(matching(bound, {1: array_of(STRING, texts)}, len(texts))).tolist()
    judge = row_filter(bound)
    assert found == [judge((text,)) for text in texts], f"{pattern!r} of {texts}"


def test_a_filter_reads_through_structs() -> None:
    inner = StructType((NestedField(2, "x", STRING),))
    schema = Schema.of(NestedField(1, "s", inner), NestedField(3, "id", STRING))
    io = new_io()
    files = write(write_context(schema), io, [(("a",), "1"), (None, "2"), ((None,), "3")])
    where = bind(schema, Predicate(Op.IS_NULL, Reference("s.x")))
    assert read(files, schema, io, where=where, columns=["id"]) == [("2",), ("3",)]
