"""Columnar pruning keeps exactly the same files as pruning one by one: SCAN-02, SCAN-06, SCAN-08, MANIFEST-55, PART-11."""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.expressions.binding import bind
from iceberg_ops.expressions.predicates import (
    Expression,
    and_,
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
    not_null,
    or_,
    starts_with,
)  # fmt: skip
from iceberg_ops.scan.columnar_pruning import kept_entries
from iceberg_ops.scan.spec_filter import SpecFilter
from iceberg_ops.serde.manifests.manifest_avro import read_manifest, write_manifest
from iceberg_ops.serde.manifests.manifest_columnar import FEWEST_RECORDS, read_columns
from iceberg_ops.spec.content_files import DataFile, FileFormat
from iceberg_ops.spec.manifests import EntryStatus, ManifestContent, ManifestEntry
from iceberg_ops.spec.partitioning import PartitionField, PartitionSpec
from iceberg_ops.spec.schema import Schema
from iceberg_ops.spec.transforms import IDENTITY, bucket, truncate
from iceberg_ops.spec.types import DATE, DOUBLE, LONG, STRING, NestedField

SCHEMA = Schema.of(NestedField(1, "a", LONG), NestedField(2, "s", STRING), NestedField(3, "d", DOUBLE), NestedField(4, "t", DATE))
SPEC = PartitionSpec(
    0,
    (
        PartitionField((2,), 1000, truncate(1), "s1"),
        PartitionField((1,), 1001, bucket(4), "a4"),
        PartitionField((4,), 1002, IDENTITY, "t"),
    ),
)
numbers = st.integers(-3, 3)
texts = st.sampled_from(["", "a", "ab", "b", "z", "\U0010ffff"])
doubles = st.sampled_from([-1.0, -0.0, 0.0, 1.5, math.inf, -math.inf])
VALUES: dict[int, st.SearchStrategy[Any]] = {1: numbers, 2: texts, 3: doubles, 4: numbers}
FORMS = {1: lambda v: struct.pack("<q", v), 2: str.encode, 3: lambda v: struct.pack("<d", v), 4: lambda v: struct.pack("<i", v)}


@st.composite
def data_files(draw: st.DrawFn, clean: bool = False) -> DataFile:
    rows = draw(st.integers(0, 3))
    lower, upper, nulls, nans, counts = {}, {}, {}, {}, {}
    for field_id, values in VALUES.items():
        form = FORMS[field_id] if clean or field_id != 1 or draw(st.booleans()) else lambda v: struct.pack("<i", v)
        odd = "none" if clean else draw(st.sampled_from(["none", "none", "none", "nan", "broken"]))
        if draw(st.integers(0, 3)):
            lower[field_id] = (
                struct.pack("<d", math.nan)
                if odd == "nan" and field_id == 3
                else b"\xff"
                if odd == "broken"
                else form(draw(values))
            )
        if draw(st.integers(0, 3)):
            upper[field_id] = form(draw(values))
        for found, limit in ((nulls, 3), (nans, 1), (counts, 4)):
            if draw(st.integers(0, 3)):
                found[field_id] = draw(st.integers(0, limit))
    partition = (draw(st.none() | st.sampled_from(["a", "b", ""])), draw(st.none() | st.integers(0, 3)), draw(st.none() | numbers))
    return DataFile(
        file_path=f"/t/{draw(st.integers(0, 10**9))}", file_format=FileFormat.PARQUET, partition=partition, record_count=rows,
        file_size_in_bytes=1,
        value_counts=counts, null_value_counts=nulls, nan_value_counts=nans, lower_bounds=lower, upper_bounds=upper if
        draw(st.booleans()) else None,
    )  # fmt: skip


@st.composite
def leaves(draw: st.DrawFn) -> Expression:
    name, field_id = draw(st.sampled_from([("a", 1), ("s", 2), ("d", 3), ("t", 4)]))
    value = draw(VALUES[field_id] | st.just(math.nan) if field_id == 3 else VALUES[field_id])
    compare = draw(st.sampled_from([eq, not_eq, lt, lt_eq, gt, gt_eq]))
    others = [is_null(name), not_null(name), in_(name, draw(st.lists(VALUES[field_id], min_size=1, max_size=3)))]
    if field_id == 2:
        others.append(starts_with(name, value))
    if field_id == 3:
        others.append(is_nan(name))
    return draw(st.sampled_from([compare(name, value), compare(name, value), *others]))


filters = st.recursive(
    leaves(), lambda inner: st.builds(and_, inner, inner) | st.builds(or_, inner, inner) | st.builds(not_, inner), max_leaves=4
)


@settings(max_examples=150, deadline=None)
@given(
    st.booleans().flatmap(
        lambda clean: st.lists(st.tuples(st.sampled_from(list(EntryStatus)), data_files(clean)), min_size=1, max_size=6)
    ),
    filters,
)
def test_columns_keep_the_files_that_the_evaluators_keep(made: list[tuple[EntryStatus, DataFile]], where: Expression) -> None:
    made = made * (FEWEST_RECORDS // len(made) + 1)
    entries = [ManifestEntry(status, 7, 3, 3, file) for status, file in made]
    type_ = SPEC.partition_type(SCHEMA.fields_by_id)
    data, manifest = write_manifest(
        entries, spec=SPEC, schema=SCHEMA, partition_type=type_, format_version=2, content=ManifestContent.DATA, snapshot_id=7,
        compression="null", path="/t/m.avro",
    )  # fmt: skip
    columns = read_columns(data, manifest, type_)
    assert columns is not None
    judge = SpecFilter(bind(SCHEMA, where), SPEC, SCHEMA.fields_by_id)
    one_by_one = [e for e in read_manifest(data, manifest, type_) if e.is_live and judge.keeps(e.data_file)]
    assert kept_entries(columns, judge) == one_by_one


@pytest.mark.parametrize("make", [eq, not_eq, lt, lt_eq, gt, gt_eq], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", ["a", "d", "t"])
def test_every_comparison_at_its_edges(make: Any, name: str) -> None:
    pairs = [(low, high) for low in range(-4, 4) for high in range(low, 4)]
    every = {i: (lambda v, i=i: FORMS[i](float(v) if i == 3 else v)) for i in (1, 3, 4)}
    files = [
        DataFile(
            file_path=f"/t/{low}/{high}", file_format=FileFormat.PARQUET, partition=(None, None, None), record_count=3,
            file_size_in_bytes=1,
            nan_value_counts={3: 0}, lower_bounds={i: f(low) for i, f in every.items()},
            upper_bounds={i: f(high) for i, f in every.items()},
        )
        for low, high in pairs
    ]  # fmt: skip
    unpartitioned = PartitionSpec(0)
    type_ = unpartitioned.partition_type(SCHEMA.fields_by_id)
    entries = [ManifestEntry(EntryStatus.ADDED, 7, 3, 3, replace(f, partition=())) for f in files]
    data, manifest = write_manifest(
        entries, spec=unpartitioned, schema=SCHEMA, partition_type=type_, format_version=2, content=ManifestContent.DATA,
        snapshot_id=7,
        path="/t/m.avro",
    )  # fmt: skip
    columns = read_columns(data, manifest, type_)
    assert columns is not None
    judge = SpecFilter(bind(SCHEMA, make(name, 1)), unpartitioned, SCHEMA.fields_by_id)
    one_by_one = [e for e in read_manifest(data, manifest, type_) if judge.keeps(e.data_file)]
    assert kept_entries(columns, judge) == one_by_one
