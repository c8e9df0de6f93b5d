"""Repeated sorts of a partition converge, also if it is larger than one file group: its groups are sorted separately."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from iceberg_ops.scan.tasks import FileScanTask
from iceberg_ops.spec.types import STRING
from iceberg_ops.spec.values import to_bytes
from tests.planning.planning_cases import MIB, grouped, paths, task

ROWS = 4
"""Rows of a file of 64 MiB."""

Key = tuple[int, int]
"""Values of the columns id and data; of data as text."""

ORDERS: dict[str, Callable[[Key], Any]] = {
    "id": lambda key: key[0],
    "id, data": lambda key: key,
    "data, id": lambda key: (key[1], key[0]),
    "truncate(data, 2), id": lambda key: (key[1] // 100, key[0]),
    "truncate(data, 2), id, data": lambda key: (key[1] // 100, key),
}


def file_of(name: str, keys: Sequence[Key]) -> FileScanTask:
    ids, texts = zip(*keys, strict=True)
    found = task(name, 64, ids=(min(ids), max(ids)))
    low, high = (to_bytes(STRING, f"{side(texts):04d}") for side in (min, max))
    file = found.data_file
    file = replace(file, lower_bounds={**(file.lower_bounds or {}), 2: low}, upper_bounds={**(file.upper_bounds or {}), 2: high})
    return replace(found, data_file=replace(file, null_value_counts={**(file.null_value_counts or {}), 2: 0}))


def runs_until_rest(files: list[list[Key]], files_of_a_group: int, *, most: int, order: str = "id") -> list[list[Key]] | None:
    """The keys of each file once nothing is planned any more; None where work is left after ``most`` runs."""
    options = {"strategy": "sort", "sort-order": order, "max-overlap-depth": "1"}
    options["max-file-group-size-bytes"] = str(files_of_a_group * 64 * MIB)
    for _ in range(most):
        named = {str(i): keys for i, keys in enumerate(files)}
        groups, _ = grouped([file_of(name, keys) for name, keys in named.items()], options)
        if not groups:
            return files
        for group in groups:
            assert group.input_files <= files_of_a_group
            rows = sorted((key for name in paths(group) for key in named.pop(name)), key=ORDERS[order])
            named |= {f"{group.group_id}-{i}": rows[i : i + ROWS] for i in range(0, len(rows), ROWS)}
        files = list(named.values())
    return None


def test_groups_whose_files_overlap_each_other_are_mixed_by_key() -> None:
    files = [[(i + more, 0) for more in (0, 100, 200, 300)] for i in range(8)]
    rested = runs_until_rest(files, 4, most=4)
    assert rested is not None
    assert sorted(key for keys in rested for key in keys) == sorted(key for keys in files for key in keys)


@st.composite
def unsorted_files(draw: st.DrawFn) -> list[list[Key]]:
    ids, texts = st.integers(0, draw(st.sampled_from([0, 1, 2, 40]))), st.integers(0, draw(st.sampled_from([0, 1, 40, 9999])))
    return draw(st.lists(st.lists(st.tuples(ids, texts), min_size=ROWS, max_size=ROWS), min_size=2, max_size=14))


@given(unsorted_files(), st.integers(2, 20), st.sampled_from(list(ORDERS)))
@settings(max_examples=300, deadline=None)
def test_a_sort_rests_whatever_the_keys(files: list[list[Key]], files_of_a_group: int, order: str) -> None:
    assert runs_until_rest(files, files_of_a_group, most=12, order=order) is not None


def test_sorted_files_that_meet_in_a_value_of_the_first_column_are_left_alone() -> None:
    """The file that goes from 1 to 2 holds the last texts of 1 and the first of 2: its bounds do not tell which."""
    rows = sorted((i, text) for i in (1, 2) for text in range(10))
    groups, _ = grouped(
        [file_of(str(start), rows[start : start + ROWS]) for start in range(0, len(rows), ROWS)],
        {"strategy": "sort", "sort-order": "id, data", "max-overlap-depth": "1"},
    )
    assert groups == ()


def test_files_of_one_value_of_the_first_column_are_sorted_by_the_second() -> None:
    groups, _ = grouped(
        [file_of("a", [(1, 0), (1, 9)]), file_of("b", [(1, 5), (1, 7)]), file_of("c", [(1, 9), (1, 12)])],
        {"strategy": "sort", "sort-order": "id, data", "max-overlap-depth": "1"},
    )
    assert [paths(group) for group in groups] == [["a", "b"]]


def test_files_that_overlap_none_of_their_own_group_are_left_alone_with_a_reason() -> None:
    tasks = [task(name, 64, ids=ids) for name, ids in (("a", (60, 80)), ("b", (0, 200)), ("c", (90, 100)), ("d", (1, 200)))]
    groups, skipped = grouped(tasks, {"strategy": "sort", "max-file-group-size-bytes": str(128 * MIB), "max-overlap-depth": "1"})
    assert [paths(group) for group in groups] == [["b", "d"]]
    reason = "it overlaps files of other groups only: sorting its group again clusters nothing"
    assert [(s.file_path, s.reason) for s in skipped] == [("/t/a.parquet", reason), ("/t/c.parquet", reason)]
