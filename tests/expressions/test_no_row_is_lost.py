"""The property that matters most: pruning never loses a matching row, proving never claims a row that does not match.

Requirements: SCAN-03, SCAN-04, SCAN-05, SCAN-06, SCAN-07, SCAN-08, MANIFEST-53, MANIFEST-54, MANIFEST-55, MLIST-15, MLIST-23,
MLIST-25, BIN-05, SCHEMA-10, TYPE-35, PART-09, PART-11, XFORM-10 to XFORM-18.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID as Uuid

from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.evaluators import (
    manifest_may_match,
    metrics_all_match,
    metrics_may_match,
    partition_matches,
    residual,
    row_filter,
)
from iceberg_ops.expressions.predicates import And, Expression, Not, Op, Or, Predicate, Reference, TransformTerm
from iceberg_ops.expressions.projection import project_inclusive, project_strict
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transform_functions import apply
from iceberg_ops.spec.transforms import Transform, truncate
from iceberg_ops.spec.types import (
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIME,
    TIMESTAMP,
    TIMESTAMP_NS,
    TIMESTAMPTZ,
    UUID,
    DecimalType,
    FixedType,
    IcebergType,
    NestedField,
    StructType,
)
from tests.expressions.file_model import Row, data_files, manifests
from tests.expressions.oracle import is_nan, truth
from tests.strategies import transforms_for

DECIMAL, FIXED = DecimalType(precision=9, scale=2), FixedType(length=2)
DAY_MICROS = 86_400_000_000
FLOATS = [-math.inf, -1.5, -0.0, 0.0, 0.5, 1.5, 2.0, math.inf, math.nan]
# Few and telling values, so that predicates, rows, bounds and partitions meet: ends of ranges, both zeros, NaN, days around 1970,
# text that shares prefixes, that needs a code point beyond the BMP, and that has no upper bound when truncated.
POOLS: dict[str, list[Any]] = {
    "boolean": [False, True],
    "int": [-(2**31), -11, -10, -1, 0, 1, 9, 10, 2**31 - 1],
    "long": [-(2**63), -(2**31) - 1, -10, -1, 0, 1, 10, 2**40, 2**63 - 1],
    "float": FLOATS,
    "double": FLOATS,
    str(DECIMAL): [Decimal(v) for v in ("-9999999.99", "-10.50", "-0.01", "0.00", "10.49", "10.50", "9999999.99")],
    "date": [-366, -31, -1, 0, 1, 30, 31, 365, 17486],
    "time": [0, 1, 3_600_000_000, 86_399_999_999],
    "timestamp": [
        -(2**63),
        -31 * DAY_MICROS - 1,
        -DAY_MICROS,
        -1,
        0,
        1,
        DAY_MICROS,
        31 * DAY_MICROS,
        10**15,
        2**31 * 3_600_000_000,
        2**63 - 1,
    ],
    "timestamptz": [-DAY_MICROS - 1, -DAY_MICROS, -3_600_000_000, -1, 0, 3_599_999_999, DAY_MICROS],
    "timestamp_ns": [-(2**63), -DAY_MICROS * 1000 - 1, -1000, -999, -1, 0, 999, 1000, DAY_MICROS * 1000, 2**63 - 1],
    "string": ["", "a", "ab", "aba", "abb", "abc", "b", "a\U0001f600", "a\uffff", "\U0010ffff\U0010ffff\U0010ffff", "z%_\\"],
    "uuid": [Uuid(int=0), Uuid(int=1), Uuid(int=2**63), Uuid(int=2**127 - 1), Uuid(int=2**127), Uuid(int=2**128 - 1)],
    "binary": [b"", b"\x00", b"a", b"ab", b"abc", b"a\xff", b"\xff\xff\xff\xff"],
    str(FIXED): [b"\x00\x00", b"ab", b"a\xff", b"\xff\xff"],
}
COLUMNS: dict[str, IcebergType] = {
    "flag": BOOLEAN, "i": INT, "l": LONG, "f": FLOAT, "d": DOUBLE, "dec": DECIMAL, "day": DATE, "t": TIME, "ts": TIMESTAMP,
    "tz": TIMESTAMPTZ, "ns": TIMESTAMP_NS, "s": STRING, "u": UUID, "bin": BINARY, "fix": FIXED,
}  # fmt: skip
SCHEMA = Schema.of(
    *(NestedField(i, name, type_) for i, (name, type_) in enumerate(COLUMNS.items(), 1)),
    NestedField(50, "inner", StructType((NestedField(51, "x", INT), NestedField(52, "s", STRING), NestedField(53, "d", DOUBLE)))),
)
NESTED: dict[str, IcebergType] = {"inner.x": INT, "inner.s": STRING, "inner.d": DOUBLE}
ALL = COLUMNS | NESTED
ORDERED = [Op.LT, Op.LT_EQ, Op.GT, Op.GT_EQ, Op.EQ, Op.NOT_EQ]
PATTERNS = ["a%", "ab_", "%b", "_b%", "ab", "%", "a%c", "abc%%"]


@st.composite
def leaves(draw: st.DrawFn, names: list[str]) -> Expression:
    name = draw(st.sampled_from(names))
    type_ = ALL[name]
    pool = POOLS[str(type_)]
    term: Reference | TransformTerm = Reference(name)
    ops = [Op.IS_NULL, Op.NOT_NULL, *ORDERED, Op.IN, Op.NOT_IN]
    if type_ in (FLOAT, DOUBLE):
        ops += [Op.IS_NAN, Op.NOT_NAN]
    if type_ in (STRING, BINARY):
        ops += [Op.STARTS_WITH, Op.NOT_STARTS_WITH]
    if type_ == STRING:
        ops += [Op.LIKE, Op.NOT_LIKE]
    if not draw(st.integers(0, 4)):
        transform = draw(transforms_for(type_).filter(lambda t: not t.is_void))
        if not transform.is_identity:
            term, ops = TransformTerm(transform, term), [Op.IS_NULL, Op.NOT_NULL, *ORDERED, Op.IN, Op.NOT_IN]
            pool = [apply(transform, type_, v) for v in pool if not is_nan(v)]
    op = draw(st.sampled_from(ops))
    if op.is_unary:
        return Predicate(op, term)
    if op in (Op.LIKE, Op.NOT_LIKE):
        return Predicate(op, term, (draw(st.sampled_from(PATTERNS)),))
    values = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=4 if op.is_set else 1))
    return Predicate(op, term, tuple(values))


def expressions(names: list[str]) -> st.SearchStrategy[Expression]:
    def grow(inner: st.SearchStrategy[Expression]) -> st.SearchStrategy[Expression]:
        return st.one_of(st.builds(And, inner, inner), st.builds(Or, inner, inner), st.builds(Not, inner))

    return st.recursive(leaves(names), grow, max_leaves=5)


def rows(names: list[str]) -> st.SearchStrategy[list[Row]]:
    columns = {n: st.sampled_from([None, *POOLS[str(ALL[n])]]) if n in names else st.none() for n in ALL}

    def with_null_parents(row: Row) -> Row:
        return row | dict.fromkeys(NESTED) if row.pop("parent_is_null") else row

    return st.lists(
        st.fixed_dictionaries({**columns, "parent_is_null": st.booleans()}).map(with_null_parents), min_size=1, max_size=8
    )


@st.composite
def specs(draw: st.DrawFn, names: list[str]) -> PartitionSpec:
    fields = []
    for i in range(draw(st.integers(0, 3))):
        name = draw(st.sampled_from(names))
        found = SCHEMA.find(name)
        assert found is not None
        transform = draw(transforms_for(ALL[name])) if draw(st.integers(0, 9)) else Transform("zorder")
        fields.append(PartitionField((found.field_id,), 1000 + i, transform, f"p{i}"))
    return PartitionSpec(1, tuple(fields))


def as_tuple(row: Row) -> tuple[Any, ...]:
    inner = tuple(row[n] for n in NESTED)
    return (*(row[n] for n in COLUMNS), None if all(v is None for v in inner) else inner)


def partition_of(spec: PartitionSpec, row: Row, schema: Schema = SCHEMA) -> tuple[Any, ...]:
    def value(f: PartitionField) -> Any:
        if not f.transform.is_known:
            return "?"
        return apply(f.transform, schema.field(f.source_id).type, row[schema.name_of(f.source_id)])

    return tuple(value(f) for f in spec.fields)


def group_key(partition: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple("nan" if is_nan(v) else (str(v) if v == 0 else v) for v in partition)


CASES = st.lists(st.sampled_from(sorted(ALL)), min_size=1, max_size=3, unique=True)


@settings(max_examples=300, deadline=None)
@given(st.data(), CASES)
def test_pruning_keeps_every_matching_row_and_proving_claims_no_other(data: st.DataObject, names: list[str]) -> None:
    """SCAN-03, SCAN-05, SCAN-06, SCAN-07, SCAN-08."""
    expression = data.draw(expressions(names))
    spec = data.draw(specs(names))
    table = data.draw(rows(names))
    bound = bind(SCHEMA, expression)
    inclusive, strict = project_inclusive(bound, spec, SCHEMA), project_strict(bound, spec, SCHEMA)
    partition_type = spec.partition_type(SCHEMA.fields_by_id)
    groups: dict[Any, list[Row]] = {}
    for row in table:
        groups.setdefault(group_key(partition_of(spec, row)), []).append(row)
    partitions = [partition_of(spec, found[0]) for found in groups.values()]
    manifest = data.draw(manifests(partition_type, partitions))
    for partition, found in zip(partitions, groups.values(), strict=True):
        file = data.draw(data_files(SCHEMA, found, partition, POOLS))
        matching = [truth(expression, r, SCHEMA) is True for r in found]
        left = row_filter(residual(bound, spec, partition))
        for row, matches in zip(found, matching, strict=True):
            assert row_filter(bound)(as_tuple(row)) is matches
            assert left(as_tuple(row)) is matches
        if any(matching):
            assert metrics_may_match(bound, file)
            assert partition_matches(inclusive, partition)
            assert manifest_may_match(inclusive, manifest, partition_type)
        if metrics_all_match(bound, file) or partition_matches(strict, partition):
            assert all(matching)


PROMOTED = Schema.of(*(replace(f, type=LONG) if f.name == "i" else f for f in SCHEMA.fields))
"""As another writer promotes an int, whatever that does to the partitions of older files."""


def truncations_of_i(spec: PartitionSpec) -> st.SearchStrategy[Expression]:
    """Comparisons of a partition field's own truncation."""
    found = [f.transform for f in spec.fields if f.transform.name == "truncate"] or [truncate(10)]

    def leaf(transform: Transform, op: Op, value: int) -> Expression:
        return Predicate(op, TransformTerm(transform, Reference("i")), (apply(transform, LONG, value),))

    return st.builds(leaf, st.sampled_from(found), st.sampled_from(ORDERED), st.sampled_from(POOLS["int"]))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_pruning_keeps_the_rows_of_ints_that_another_writer_promoted(data: st.DataObject) -> None:
    """SCAN-03, SCAN-05, SCHEMA-10: partition values of older files are those of the int."""
    spec = data.draw(specs(["i"]))
    expression = data.draw(expressions(["i"]) | truncations_of_i(spec))
    bound = bind(PROMOTED, expression)
    inclusive, strict = project_inclusive(bound, spec, PROMOTED), project_strict(bound, spec, PROMOTED)
    for row in data.draw(rows(["i"])):
        partition = partition_of(spec, row)
        matches = truth(expression, row, PROMOTED) is True
        assert row_filter(residual(bound, spec, partition))(as_tuple(row)) is matches
        assert partition_matches(inclusive, partition) or not matches
        assert matches or not partition_matches(strict, partition)
