"""Named cases of pruning and proving, including those in which other implementations lose rows."""

from __future__ import annotations

import math
import uuid
from decimal import Decimal
from typing import Any

import pytest

from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.evaluators import manifest_may_match, metrics_all_match, metrics_may_match, partition_matches, residual
from iceberg_ops.expressions.predicates import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    Expression,
    eq,
    gt,
    gt_eq,
    in_,
    is_nan,
    is_null,
    lt,
    lt_eq,
    not_,
    not_eq,
    not_in,
    not_nan,
    not_null,
    not_starts_with,
    starts_with,
)
from iceberg_ops.expressions.projection import project_inclusive, project_strict
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.manifests import FieldSummary, ManifestFile
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transform_functions import apply
from iceberg_ops.spec.transforms import DAY, IDENTITY, MONTH, VOID, Transform, bucket, truncate
from iceberg_ops.spec.types import DATE, DOUBLE, INT, LONG, STRING, TIMESTAMP, UUID, IcebergType, NestedField, StructType
from iceberg_ops.spec.values import to_bytes

TYPES: dict[str, IcebergType] = {"i": INT, "l": LONG, "d": DOUBLE, "s": STRING, "u": UUID, "ts": TIMESTAMP, "day": DATE}
SCHEMA = Schema.of(
    *(NestedField(n, name, type_) for n, (name, type_) in enumerate(TYPES.items(), 1)),
    NestedField(20, "o", StructType((NestedField(21, "x", INT),))),
)
IDS = {name: n for n, name in enumerate(TYPES, 1)} | {"o.x": 21}


def file_of(
    name: str, low: Any = None, high: Any = None, *, nulls: int | None = 0, nans: int | None = None, values: int | None = 10
) -> DataFile:
    """Ten rows, with metrics for one column."""
    key = IDS[name]
    type_ = SCHEMA.fields_by_id[key].type

    def bound(value: Any) -> dict[int, bytes]:
        return {} if value is None else {key: value if isinstance(value, bytes) else to_bytes(type_, value)}

    return DataFile(
        file_path="f",
        file_format=FileFormat.PARQUET,
        record_count=10,
        file_size_in_bytes=1,
        value_counts=None if values is None else {key: values},
        null_value_counts=None if nulls is None else {key: nulls},
        nan_value_counts=None if nans is None else {key: nans},
        lower_bounds=bound(low),
        upper_bounds=bound(high),
    )


KEPT = [
    ("NaN lies above every upper bound, its count unknown", gt("d", 5.0), file_of("d", 1.0, 2.0)),
    ("NaN lies above every upper bound, its count known", gt("d", 5.0), file_of("d", 1.0, 2.0, nans=1)),
    ("NaN equals NaN", eq("d", math.nan), file_of("d", 1.0, 2.0, nans=1)),
    ("a NaN bound of an old writer is not a bound", lt("d", -5.0), file_of("d", math.nan, math.nan, nans=0)),
    ("the upper bound itself", gt_eq("i", 9), file_of("i", 5, 9)),
    ("the lower bound itself", lt_eq("i", 5), file_of("i", 5, 9)),
    ("minus zero equals zero", eq("d", 0.0), file_of("d", -0.0, -0.0, nans=0)),
    ("zero equals minus zero", eq("d", -0.0), file_of("d", 0.0, 0.0, nans=0)),
    ("an int bound under a long column", eq("l", 7), file_of("l", to_bytes(INT, 5), to_bytes(INT, 9))),
    ("a bound of an impossible length is unknown", eq("l", 7), file_of("l", b"\x01", b"\x01")),
    ("crossed bounds are unknown", eq("i", 7), file_of("i", 9, 5)),
    ("a truncated lower bound", eq("s", "abcdef"), file_of("s", "abc", "abd")),
    ("a missing upper bound", gt("s", "zzz"), file_of("s", "a", None)),
    ("text beyond the basic plane sorts by code point", gt("s", "\uffff"), file_of("s", "a", "\U0001f600")),
    ("missing counts", is_null("i"), file_of("i", 1, 2, nulls=None)),
    ("rows of a null parent are not counted", is_null("o.x"), file_of("o.x", 1, 2, values=8)),
    ("a nested column without a value count", is_null("o.x"), file_of("o.x", 1, 2, values=None)),
    (
        "uuid bounds in the order of signed halves",
        eq("u", uuid.UUID(int=5)),
        file_of("u", uuid.UUID(int=2**127 + 1), uuid.UUID(int=9)),
    ),
    ("uuid ranges are never pruned", gt("u", uuid.UUID(int=2**128 - 1)), file_of("u", uuid.UUID(int=0), uuid.UUID(int=1))),
    ("one null is enough for is null", is_null("i"), file_of("i", 1, 2, nulls=1)),
    ("not-nan holds for null", not_nan("d"), file_of("d", nulls=5, nans=5)),
    ("all text in bounds that begin alike may still differ", not_starts_with("s", "abc"), file_of("s", "ab", "abd")),
]
PRUNED = [
    ("below the lower bound", lt("i", 5), file_of("i", 5, 9)),
    ("above the upper bound", gt_eq("i", 10), file_of("i", 5, 9)),
    ("between no literals", in_("i", [1, 20]), file_of("i", 5, 9)),
    ("NaN is known to be absent", gt("d", 5.0), file_of("d", 1.0, 2.0, nans=0)),
    ("nothing is above NaN", gt("d", math.nan), file_of("d", 1.0, 2.0, nans=1)),
    ("all NaN", lt("d", 5.0), file_of("d", nans=10)),
    ("all null", not_eq("i", 5), file_of("i", nulls=10)),
    ("all null is not not-null", not_null("i"), file_of("i", nulls=10)),
    ("no null", is_null("i"), file_of("i", 5, 9)),
    ("no NaN", is_nan("d"), file_of("d", 1.0, 2.0, nans=0)),
    ("every value is the one excluded", not_eq("i", 5), file_of("i", 5, 5)),
    ("every value is among the excluded", not_in("i", [5, 6]), file_of("i", 5, 5)),
    ("every text begins so", not_starts_with("s", "ab"), file_of("s", "aba", "abz")),
    ("no text begins so", starts_with("s", "b"), file_of("s", "aba", "abz")),
    ("a uuid outside in both orders", eq("u", uuid.UUID(int=50)), file_of("u", uuid.UUID(int=1), uuid.UUID(int=9))),
]
PROVEN = [
    ("upper bound below", lt("i", 10), file_of("i", 5, 9)),
    ("NaN is above too", gt("d", 0.5), file_of("d", 1.0, 2.0, nans=3)),
    ("equal ends of a number", eq("i", 5), file_of("i", 5, 5)),
    ("outside", not_eq("i", 4), file_of("i", 5, 9)),
    ("all null", is_null("i"), file_of("i", nulls=10)),
    ("no NaN, nulls allowed", not_nan("d"), file_of("d", 1.0, 2.0, nulls=2, nans=0)),
    ("both zeros", eq("d", 0.0), file_of("d", -0.0, 0.0, nans=0)),
]
NOT_PROVEN = [
    ("a null does not match", lt("i", 10), file_of("i", 5, 9, nulls=1)),
    ("nulls unknown", lt("i", 10), file_of("i", 5, 9, nulls=None)),
    ("a null does not match not-equal", not_eq("i", 4), file_of("i", 5, 9, nulls=1)),
    ("NaN may be there", lt("d", 10.0), file_of("d", 1.0, 2.0)),
    ("NaN is there", eq("d", 1.0), file_of("d", 1.0, 1.0, nans=1)),
    ("truncated text is not the value", eq("s", "abc"), file_of("s", "abc", "abc")),
    ("rows of a null parent", not_null("o.x"), file_of("o.x", 1, 2, values=8)),
    ("uuid order unknown", gt("u", uuid.UUID(int=0)), file_of("u", uuid.UUID(int=1), uuid.UUID(int=9))),
]


@pytest.mark.parametrize(("expression", "file"), [c[1:] for c in KEPT], ids=[c[0] for c in KEPT])
def test_a_file_that_may_match_is_kept(expression: Expression, file: DataFile) -> None:
    """SCAN-06, SCAN-07, SCAN-08, MANIFEST-53, MANIFEST-54, MANIFEST-55, SCHEMA-10, TYPE-35, BIN-05."""
    assert metrics_may_match(bind(SCHEMA, expression), file)


@pytest.mark.parametrize(("expression", "file"), [c[1:] for c in PRUNED], ids=[c[0] for c in PRUNED])
def test_a_file_that_can_not_match_is_pruned(expression: Expression, file: DataFile) -> None:
    """SCAN-06."""
    bound = bind(SCHEMA, expression)
    assert not metrics_may_match(bound, file)
    assert not metrics_all_match(bound, file)


@pytest.mark.parametrize(("expression", "file"), [c[1:] for c in PROVEN], ids=[c[0] for c in PROVEN])
def test_a_file_whose_rows_all_match_is_proven(expression: Expression, file: DataFile) -> None:
    """SCAN-05."""
    bound = bind(SCHEMA, expression)
    assert metrics_all_match(bound, file)
    assert not metrics_may_match(bind(SCHEMA, not_(expression)), file)


@pytest.mark.parametrize(("expression", "file"), [c[1:] for c in NOT_PROVEN], ids=[c[0] for c in NOT_PROVEN])
def test_a_file_is_not_claimed_without_proof(expression: Expression, file: DataFile) -> None:
    """SCAN-05, SCAN-06."""
    assert not metrics_all_match(bind(SCHEMA, expression), file)


def spec_of(name: str, transform: Transform) -> PartitionSpec:
    return PartitionSpec(1, (PartitionField((IDS[name],), 1000, transform, "p"),))


DAY_MICROS = 86_400_000_000
OTHER_BUCKET = (apply(bucket(4), INT, 5) + 1) % 4


@pytest.mark.parametrize(
    ("expression", "spec", "kept", "pruned"),
    [
        (gt("ts", DAY_MICROS - 1), spec_of("ts", DAY), [1, 2], [0, None]),
        (gt("ts", DAY_MICROS - 2), spec_of("ts", DAY), [0, 1], [-1, None]),
        (lt("ts", DAY_MICROS), spec_of("ts", DAY), [0, -1], [1, None]),
        (eq("ts", -1), spec_of("ts", DAY), [-1, 0], [1, -2, None]),
        (lt("ts", 0), spec_of("ts", DAY), [-1, 0], [1]),
        (eq("day", -1), spec_of("day", DAY), [-1], [0, -2, None]),
        (eq("day", -1), spec_of("day", MONTH), [-1, 0], [1, -2]),
        (is_null("ts"), spec_of("ts", DAY), [None], [0]),
        (eq("i", 12), spec_of("i", truncate(10)), [10], [0, 20, None]),
        (lt("i", 10), spec_of("i", truncate(10)), [0, -10, 2147483646], [10, None]),
        (gt("i", 19), spec_of("i", truncate(10)), [20], [10, None]),
        (starts_with("s", "abcd"), spec_of("s", truncate(2)), ["ab"], ["a", "abc", "b", None]),
        (starts_with("s", "abc"), spec_of("s", truncate(2)), ["ab"], ["a", "b", None]),
        (starts_with("s", "a"), spec_of("s", truncate(2)), ["ab", "a"], ["b", None]),
        (lt("s", "ab"), spec_of("s", truncate(2)), ["a", "aa"], ["ab", None]),
        (lt("s", "abc"), spec_of("s", truncate(2)), ["a", "ab"], ["b", None]),
        (gt("i", 5), spec_of("i", bucket(4)), [0, 1, 2, 3], [None]),
        (gt("i", 5), spec_of("i", VOID), [None], []),
        (gt("i", 5), spec_of("i", Transform("zorder[3]")), ["x", None], []),
        (in_("s", ["a", "b"]), spec_of("s", IDENTITY), ["a"], ["c", None]),
        (eq("d", 0.0), spec_of("d", IDENTITY), [0.0, -0.0], [1.0, math.nan, None]),
        (gt("d", 1.0), spec_of("d", IDENTITY), [2.0, math.nan], [1.0, None]),
        (not_eq("d", math.nan), spec_of("d", IDENTITY), [2.0], [math.nan, None]),
    ],
)
def test_a_projection_keeps_and_prunes_these_partitions(
    expression: Expression, spec: PartitionSpec, kept: list[Any], pruned: list[Any]
) -> None:
    """SCAN-03, SCAN-04, PART-09, XFORM-10, XFORM-15; IN over a null partition value must not fail."""
    projected = project_inclusive(bind(SCHEMA, expression), spec, SCHEMA)
    assert [v for v in kept if not partition_matches(projected, (v,))] == []
    assert [v for v in pruned if partition_matches(projected, (v,))] == []


@pytest.mark.parametrize(
    ("expression", "spec", "partition", "left"),
    [
        (eq("s", "a"), spec_of("s", IDENTITY), "a", ALWAYS_TRUE),
        (eq("s", "a"), spec_of("s", IDENTITY), None, ALWAYS_FALSE),
        (gt_eq("ts", DAY_MICROS), spec_of("ts", DAY), 1, ALWAYS_TRUE),
        (gt_eq("ts", DAY_MICROS + 1), spec_of("ts", DAY), 1, gt_eq("ts", DAY_MICROS + 1)),
        (gt_eq("ts", DAY_MICROS + 1), spec_of("ts", DAY), 2, ALWAYS_TRUE),
        (lt("ts", -1), spec_of("ts", DAY), 0, lt("ts", -1)),
        (eq("i", 5), spec_of("i", bucket(4)), OTHER_BUCKET, ALWAYS_FALSE),
        (not_eq("i", 5), spec_of("i", bucket(4)), OTHER_BUCKET, ALWAYS_TRUE),
        (gt("i", 0), spec_of("i", truncate(10)), 2147483646, gt("i", 0)),
        (lt_eq("ts", 0), spec_of("ts", DAY), 0, lt_eq("ts", 0)),
        (lt_eq("ts", DAY_MICROS - 1), spec_of("ts", DAY), 0, ALWAYS_TRUE),
        (eq("i", 5), PartitionSpec(), None, eq("i", 5)),
        (eq("i", 5), spec_of("i", VOID), None, eq("i", 5)),
    ],
)
def test_a_residual_is_what_the_partition_does_not_decide(
    expression: Expression, spec: PartitionSpec, partition: Any, left: Any
) -> None:
    """SCAN-05, XFORM-15."""
    tuple_ = (partition,) if spec.fields else ()
    assert residual(bind(SCHEMA, expression), spec, tuple_) == bind(SCHEMA, left)


def test_a_strict_projection_never_comes_from_a_lossy_equality() -> None:
    """SCAN-05."""
    for transform in (bucket(4), truncate(10)):
        assert project_strict(bind(SCHEMA, eq("i", 10)), spec_of("i", transform), SCHEMA) == ALWAYS_FALSE


def manifest(*summaries: FieldSummary | None) -> ManifestFile:
    kept = tuple(s for s in summaries if s is not None)
    return ManifestFile(manifest_path="m", manifest_length=1, partitions=kept or None)


def test_a_manifest_is_pruned_by_its_summaries_and_kept_without_them() -> None:
    """MLIST-15, MLIST-25, SCAN-02."""
    spec = spec_of("d", IDENTITY)
    type_ = spec.partition_type(SCHEMA.fields_by_id)
    above = project_inclusive(bind(SCHEMA, gt("d", 5.0)), spec, SCHEMA)
    low, high = to_bytes(DOUBLE, 1.0), to_bytes(DOUBLE, 2.0)
    assert not manifest_may_match(above, manifest(FieldSummary(False, False, low, high)), type_)
    assert manifest_may_match(above, manifest(FieldSummary(False, None, low, high)), type_)
    assert manifest_may_match(above, manifest(FieldSummary(False, True, low, high)), type_)
    assert manifest_may_match(above, manifest(FieldSummary(True, False)), type_)
    assert manifest_may_match(above, manifest(None), type_)
    nulls = project_inclusive(bind(SCHEMA, is_null("d")), spec, SCHEMA)
    assert not manifest_may_match(nulls, manifest(FieldSummary(False, False, low, high)), type_)


def test_an_empty_file_holds_no_match_and_no_exception() -> None:
    empty = DataFile(file_path="f", file_format=FileFormat.PARQUET, record_count=0, file_size_in_bytes=1)
    bound = bind(SCHEMA, lt_eq("i", 5))
    assert not metrics_may_match(bound, empty)
    assert metrics_all_match(bound, empty)


def test_a_decimal_literal_between_two_column_values_is_neither() -> None:
    assert bind(SCHEMA, eq("i", Decimal("1.5"))) == ALWAYS_FALSE
    assert bind(SCHEMA, not_eq("i", Decimal("1.5"))) == bind(SCHEMA, not_null("i"))
    assert bind(SCHEMA, gt("i", 2**40)) == ALWAYS_FALSE
