"""Prunes a whole manifest at once: a filter on columns of statistics instead of on one file after another.

Every file gets one of three answers: it cannot match, it may match, or the columns do not decide (a bound is missing, has another
width, or has a type that must be compared one by one). ``iceberg_ops.expressions.evaluators`` decides the last ones, so both paths
select the same files; this one must only be correct for the files that it decides. Rows are the manifest's entries in file order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from iceberg_ops.expressions.predicates import AlwaysFalse, AlwaysTrue, And, BoundPredicate, Expression, Op, Or
from iceberg_ops.scan.spec_filter import SpecFilter
from iceberg_ops.serde.avro.avro_column_values import column_values
from iceberg_ops.serde.avro.avro_columns import Column, ColumnReader
from iceberg_ops.serde.manifests.manifest_columnar import EntryColumns
from iceberg_ops.spec.manifests import ManifestContent, ManifestEntry
from iceberg_ops.spec.types import UNKNOWN, PrimitiveType

Verdicts = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]

NO, UNDECIDED, MAYBE = 0, 1, 2
"""And takes the smaller of two verdicts, Or the greater."""

_WHOLE = {
    "int": ("<i4",), "date": ("<i4",), "long": ("<i8", "<i4"), "time": ("<i8",),
    "timestamp": ("<i8",), "timestamptz": ("<i8",), "timestamp_ns": ("<i8",), "timestamptz_ns": ("<i8",),
}  # fmt: skip
_FLOATING = {"float": ("<f4",), "double": ("<f8", "<f4")}
_WIDEST_WHOLE = 2**63


def kept_entries(columns: EntryColumns, judge: SpecFilter) -> list[ManifestEntry]:
    """The live entries that ``judge`` keeps, in file order; deletes are kept by their partition."""
    return columns.entries(kept_rows(columns, judge))


def kept_rows(columns: EntryColumns, judge: SpecFilter) -> list[int] | None:
    """The rows of these entries; None: all."""
    kept: Mask = columns.live
    if judge.is_trivial:
        return None if kept.all() else np.flatnonzero(kept).tolist()
    is_data = columns.manifest.content is ManifestContent.DATA
    verdict = None
    if is_data:
        verdict = verdicts(columns, judge.bound)
        kept = kept & (columns.record_count != 0) & (verdict != NO)
    if kept.any():
        kept = kept & keeps_partitions(columns, judge, kept, with_residual=is_data)
    if verdict is not None:
        undecided = np.flatnonzero(kept & (verdict == UNDECIDED)).tolist()
        kept[undecided] = [judge.keeps_metrics(f) for f in columns.data_files(undecided)]
    return None if kept.all() else np.flatnonzero(kept).tolist()


def verdicts(columns: EntryColumns, bound: Expression) -> Verdicts:
    """One verdict per entry for ``bound`` (without Not), by column metrics."""
    if isinstance(bound, And):
        return np.minimum(verdicts(columns, bound.left), verdicts(columns, bound.right))
    if isinstance(bound, Or):
        return np.maximum(verdicts(columns, bound.left), verdicts(columns, bound.right))
    rows = len(columns)
    if isinstance(bound, AlwaysTrue | AlwaysFalse):
        return np.full(rows, MAYBE if isinstance(bound, AlwaysTrue) else NO, np.int8)
    if isinstance(bound, BoundPredicate) and bound.is_plain:
        return _leaf(columns, bound)
    return np.full(rows, UNDECIDED, np.int8)


def keeps_partitions(columns: EntryColumns, judge: SpecFilter, live: Mask, *, with_residual: bool) -> Mask:
    """Which live entries are in a partition that may match; each distinct partition is tested once."""
    codes = columns.partition_codes()
    rows = np.flatnonzero(live)
    _, first, inverse = np.unique(codes[rows], return_index=True, return_inverse=True)
    asked = columns.partitions(rows[first].tolist())

    def keeps(partition: tuple[Any, ...]) -> bool:
        return judge.keeps_partition(partition) and not (with_residual and isinstance(judge.residual(partition), AlwaysFalse))

    answers = np.fromiter((keeps(p) for p in asked), bool, len(first))
    kept = np.zeros(len(columns), bool)
    kept[rows] = answers[inverse]
    return kept


def _leaf(columns: EntryColumns, leaf: BoundPredicate) -> Verdicts:
    if leaf.op is Op.IS_NULL:
        return _may_be_null(columns, leaf)
    name = leaf.type.name if isinstance(leaf.type, PrimitiveType) else ""
    if name in _WHOLE or name in _FLOATING:
        return _numeric(columns, leaf, (_WHOLE | _FLOATING)[name], name in _FLOATING)
    if name == "string":
        return _text(columns, leaf)
    return np.full(len(columns), UNDECIDED, np.int8)


def _may_be_null(columns: EntryColumns, leaf: BoundPredicate) -> Verdicts:
    if not hasattr(leaf.term.reference, "path") or leaf.type == UNKNOWN:
        return np.full(len(columns), UNDECIDED, np.int8)
    nested = len(leaf.term.reference.path) > 1
    nulls = columns.counts("null_value_counts", leaf.field_id)
    values = columns.counts("value_counts", leaf.field_id)
    incomplete = np.where(values < 0, nested, values < columns.record_count)
    return np.where((nulls != 0) | incomplete, MAYBE, NO).astype(np.int8)


def _numeric(columns: EntryColumns, leaf: BoundPredicate, forms: tuple[str, ...], floating: bool) -> Verdicts:
    undecided = np.full(len(columns), UNDECIDED, np.int8)
    test = _NUMERIC.get(leaf.op)
    if test is None or not all(_comparable(v, floating) for v in leaf.literals):
        return undecided
    low, low_known = _decoded(*columns.bounds(leaf.field_id, upper=False), forms)
    high, high_known = _decoded(*columns.bounds(leaf.field_id, upper=True), forms)
    known = low_known & high_known
    if floating:
        # A NaN may lie above every bound unless its count is known to be 0.
        known &= (columns.counts("nan_value_counts", leaf.field_id) == 0) & ~np.isnan(low) & ~np.isnan(high)
    with np.errstate(invalid="ignore"):
        may = test(low, high, leaf.literals) | (low > high)
    return np.where(known, np.where(may, MAYBE, NO), undecided).astype(np.int8)


def _comparable(value: Any, floating: bool) -> bool:
    return not math.isnan(value) if floating else isinstance(value, int) and -_WIDEST_WHOLE <= value < _WIDEST_WHOLE


def _decoded(walk: ColumnReader, bounds: Column, forms: tuple[str, ...]) -> tuple[npt.NDArray[Any], Mask]:
    """Bounds as numbers, and which of them are known; none if they do not all have the same width."""
    assert bounds.present is not None
    rows, known = len(bounds.present), bounds.present
    if bounds.starts is None or bounds.lengths is None:
        return np.zeros(rows), np.zeros(rows, bool)
    for form in forms:
        dtype = np.dtype(form)
        if (bounds.lengths[known] == dtype.itemsize).all():
            words = walk.words_at(bounds.starts)
            narrow = words.view(dtype) if dtype.itemsize == 8 else words.astype("<u4").view(dtype)
            return np.where(known, narrow, 0).astype(np.float64 if dtype.kind == "f" else np.int64), known
    return np.zeros(rows), np.zeros(rows, bool)


def _some_between(low: npt.NDArray[Any], high: npt.NDArray[Any], literals: tuple[Any, ...]) -> Mask:
    keys = np.sort(np.array(literals, low.dtype))
    at = np.searchsorted(keys, low)
    return (at < len(keys)) & (keys[np.minimum(at, len(keys) - 1)] <= high)


_Test = Callable[[npt.NDArray[Any], npt.NDArray[Any], tuple[Any, ...]], Any]
_NUMERIC: dict[Op, _Test] = {
    Op.LT: lambda low, high, to: low < to[0],
    Op.LT_EQ: lambda low, high, to: low <= to[0],
    Op.GT: lambda low, high, to: high > to[0],
    Op.GT_EQ: lambda low, high, to: high >= to[0],
    Op.EQ: lambda low, high, to: (low <= to[0]) & (high >= to[0]),
    Op.NOT_EQ: lambda low, high, to: (low != high) | (low != to[0]),
    Op.IN: _some_between,
    Op.NOT_NULL: lambda low, high, to: np.ones(len(low), bool),
}


def _text(columns: EntryColumns, leaf: BoundPredicate) -> Verdicts:
    undecided = np.full(len(columns), UNDECIDED, np.int8)
    if leaf.op not in _TEXT:
        return undecided
    test, to = _TEXT[leaf.op], leaf.literals
    try:
        pairs = list(zip(_texts(columns, leaf, upper=False), _texts(columns, leaf, upper=True), strict=True))
    except UnicodeDecodeError:
        return undecided
    answers = [
        UNDECIDED if low is None or high is None else MAYBE if low > high or test(low, high, to) else NO for low, high in pairs
    ]
    return np.array(answers, np.int8)


def _texts(columns: EntryColumns, leaf: BoundPredicate, *, upper: bool) -> list[str | None]:
    return [None if v is None else v.decode() for v in column_values(*columns.bounds(leaf.field_id, upper=upper))]


_TEXT: dict[Op, Callable[[str, str, tuple[Any, ...]], bool]] = {
    Op.LT: lambda low, high, to: low < to[0],
    Op.LT_EQ: lambda low, high, to: low <= to[0],
    Op.GT: lambda low, high, to: high > to[0],
    Op.GT_EQ: lambda low, high, to: high >= to[0],
    Op.EQ: lambda low, high, to: low <= to[0] <= high,
    Op.STARTS_WITH: lambda low, high, to: low[: len(to[0])] <= to[0] <= high,
}
