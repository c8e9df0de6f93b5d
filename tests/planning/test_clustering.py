"""Overlap of files on a sort key, derived from bounds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iceberg_ops.planning.clustering import clustering, key_range
from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.sorting import NullOrder, SortDirection, SortField, SortOrder
from iceberg_ops.spec.transforms import IDENTITY, bucket, truncate
from iceberg_ops.spec.types import STRING
from iceberg_ops.spec.values import to_bytes
from tests.builders import SCHEMA
from tests.planning.planning_cases import BY_ID, task

FIELDS = SCHEMA.fields_by_id
BY_DATA = SortOrder(2, (SortField((2,), IDENTITY, SortDirection.ASC, NullOrder.NULLS_FIRST),))


def by_ids(*ranges: tuple[int, int]) -> list[FileScanTask]:
    return [task(f"f{i}", 1, ids=ids) for i, ids in enumerate(ranges)]


def by_text(name: str, low: str, high: str, *, nulls: int = 0, sequence: int = 1) -> FileScanTask:
    found = task(name, 1, sequence=sequence)
    bounds = {"lower_bounds": {2: to_bytes(STRING, low)}, "upper_bounds": {2: to_bytes(STRING, high)}}
    return replace(found, data_file=replace(found.data_file, null_value_counts={2: nulls}, **bounds))


@pytest.mark.parametrize(
    ("ranges", "overlapping"),
    [
        ([(0, 10), (10, 20), (20, 30)], set()),
        ([(0, 11), (10, 20), (20, 30)], {0, 1}),
        ([(0, 30), (10, 10)], {0, 1}),
        ([(10, 10), (10, 10), (10, 10)], set()),
        ([(0, 10), (0, 10)], {0, 1}),
        ([(0, 10), (10, 10), (10, 20)], set()),
    ],
)
def test_files_overlap_when_the_insides_of_their_ranges_meet(ranges: list[tuple[int, int]], overlapping: set[int]) -> None:
    found = clustering(by_ids(*ranges), BY_ID, FIELDS)
    assert found.unclustered == {f"/t/f{i}.parquet" for i in overlapping}


def test_depth_counts_the_files_that_one_file_overlaps() -> None:
    assert clustering(by_ids((0, 10), (10, 20)), BY_ID, FIELDS).depth == 1.0
    assert clustering(by_ids((0, 10), (1, 11), (2, 12)), BY_ID, FIELDS).depth == 3.0


def test_a_file_without_bounds_can_not_be_judged() -> None:
    assert key_range(task("f", 1), BY_ID, FIELDS) is None
    assert clustering([task("f", 1), task("g", 1)], BY_ID, FIELDS).unclustered == frozenset()


@pytest.mark.parametrize("bound", [b"", b"\x01", b"\x00" * 9])
def test_a_file_with_bounds_that_are_no_values_can_not_be_judged(bound: bytes) -> None:
    """A scan does not read them either, and a sort writes the file again."""
    found = task("f", 1, ids=(0, 10))
    odd = replace(found, data_file=replace(found.data_file, lower_bounds={1: bound}))
    assert key_range(odd, BY_ID, FIELDS) is None
    assert key_range(by_text("g", "a", "b"), BY_DATA, FIELDS) is not None
    text = by_text("g", "a", "b")
    odd = replace(text, data_file=replace(text.data_file, upper_bounds={2: b"\xff\xfe"}))
    assert key_range(odd, BY_DATA, FIELDS) is None


def test_a_transform_that_keeps_no_order_can_not_be_judged() -> None:
    order = SortOrder(3, (replace(BY_ID.fields[0], transform=bucket(4)),))
    assert key_range(by_ids((0, 10))[0], order, FIELDS) is None


def test_ranges_are_those_of_the_transform() -> None:
    order = SortOrder(3, (replace(BY_ID.fields[0], transform=truncate(100)),))
    assert clustering(by_ids((0, 10), (5, 99)), order, FIELDS).unclustered == frozenset()


def test_nulls_sit_at_the_end_the_order_puts_them() -> None:
    files = [by_text("a", "b", "c", nulls=5), by_text("b", "a", "b")]
    last = SortOrder(2, (replace(BY_DATA.fields[0], null_order=NullOrder.NULLS_LAST),))
    assert len(clustering(files, BY_DATA, FIELDS).unclustered) == 2
    assert clustering(files, last, FIELDS).unclustered == frozenset()


def test_files_of_one_commit_that_overlap_only_by_truncated_bounds_count_as_clustered() -> None:
    low, high = "x" * 16, "x" * 15 + "y"
    together = [by_text("a", low, high, sequence=7), by_text("b", low, high, sequence=7)]
    apart = [by_text("a", low, high, sequence=7), by_text("b", low, high, sequence=8)]
    assert clustering(together, BY_DATA, FIELDS).unclustered == frozenset()
    assert len(clustering(apart, BY_DATA, FIELDS).unclustered) == 2


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=200), st.integers(1, 20))
def test_sorted_output_is_never_unclustered(ids: list[int], per_file: int) -> None:
    ids.sort()
    cuts = [ids[i : i + per_file] for i in range(0, len(ids), per_file)]
    assert clustering(by_ids(*((c[0], c[-1]) for c in cuts)), BY_ID, FIELDS).unclustered == frozenset()


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)).map(lambda p: (min(p), max(p))), max_size=12))
def test_a_file_is_unclustered_exactly_when_it_overlaps_another(ranges: list[tuple[int, int]]) -> None:
    def meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
        if a[0] == a[1] or b[0] == b[1]:
            return a[0] < b[0] <= b[1] < a[1] or b[0] < a[0] <= a[1] < b[1]
        return max(a[0], b[0]) < min(a[1], b[1])

    expected = {i for i, a in enumerate(ranges) for j, b in enumerate(ranges) if i != j and meet(a, b)}
    assert clustering(by_ids(*ranges), BY_ID, FIELDS).unclustered == {f"/t/f{i}.parquet" for i in expected}
